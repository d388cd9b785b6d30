"""Weights that a module's code writes from other weights, as the slow tower of a pair follows the fast one: nothing that samples pass through."""
from __future__ import annotations

from typing import Any, List, Set

# What writes and is not called as PyTorch calls such functions, with an underscore at the end: `q[0] = p`, `q += p`, `q.data = p`.
WRITING = ("__setitem__", "__set__", "__iadd__", "__isub__", "__imul__", "__itruediv__")


def unwritten(module: Any) -> Any:
    """Where code runs within, it writes nothing that follows from weights alone to weights that have no gradient of it. Traced, what reads such weights would
    be told as computing with the ones that were read."""
    import torch
    from torch.overrides import TorchFunctionMode

    held = {_memory(tensor) for tensor in [*module.parameters(), *module.buffers()]} - {None}
    # What follows from weights alone; kept, so that no other tensor takes its place.
    following: List[Any] = []
    known: Set[int] = set()

    def is_of_weights(tensor: Any) -> bool:
        return id(tensor) in known or _memory(tensor) in held

    class Unwritten(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            read = _tensors((args, kwargs or {}))
            if not read or not all(map(is_of_weights, read)):
                return function(*args, **(kwargs or {}))
            has_gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in read)
            if len(read) > 1 and _writes(function) and _memory(read[0]) in held and not has_gradient and _runs(function, args, kwargs or {}):
                return args[0]
            made = function(*args, **(kwargs or {}))
            following.extend(_tensors(made))
            known.update(map(id, _tensors(made)))
            return made

    return Unwritten()


def _runs(function: Any, arguments: Any, named: Any) -> bool:
    """Whether the function takes tensors of these sizes."""
    import torch
    from torch.utils._pytree import tree_map

    def sized(one: Any) -> Any:
        return torch.empty(one.shape, dtype=one.dtype, device="meta") if isinstance(one, torch.Tensor) else one

    tracing = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)
    try:
        function(*tree_map(sized, arguments), **tree_map(sized, named))
        return True
    except Exception:  # whatever it says to them, which it says where it is called
        return False
    finally:
        torch._C._set_tracing_state(tracing)


def _writes(function: Any) -> bool:
    name = getattr(function, "__name__", "")
    return name in WRITING or name.endswith("_") and not name.endswith("__")


def _tensors(values: Any) -> List[Any]:
    import torch
    from torch.utils._pytree import tree_flatten

    return [one for one in tree_flatten(values)[0] if isinstance(one, torch.Tensor)]


def _memory(tensor: Any) -> Any:
    """Which memory a tensor lies in; None of one that has none, such as a sparse one."""
    try:
        return (tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage())._cdata
    except (NotImplementedError, RuntimeError):
        return None
