"""A copy of a module to trace: on the processor, in `float32`, its weights without memory."""
from __future__ import annotations

import contextlib
import copy
import random
import re
import sys
from collections import OrderedDict
from typing import Any, Callable, Dict, Iterator, List, Sequence

from ._errors import NetworkError
from ._inputs import plain

# Where modules lie whose weights are no floating point numbers.
QUANTISED = re.compile(r"torch\..*quantized|bitsandbytes|torchao")

# Where modules and weights keep hooks that are called while they run.
RUN_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_post_accumulate_grad_hooks")


def check(module: Any) -> None:
    """Refuses what is no module of plain numbers."""
    import torch

    if not isinstance(module, torch.nn.Module):
        raise NetworkError("%r is not a torch.nn.Module" % type(module).__name__)
    if isinstance(module, torch.jit.ScriptModule):
        raise NetworkError("a module that was scripted or traced\n  help: give the module that it was made from")
    for name, part in module.named_modules():
        if QUANTISED.match(type(part).__module__):
            raise NetworkError("%s is quantised (%s)\n  expected: a network in floating point\n  help: give the module from before it was "
                               "quantised" % (name or "the module", type(part).__name__))
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
            raise NetworkError("%s has no size before its first run\n  help: run the module once" % name)
        if tensor.is_quantized or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            raise NetworkError("%s is a %s, no plain tensor\n  expected: a network in floating point" % (name, type(tensor).__name__))


def stand_in(module: Any, weights: bool = False) -> Any:
    """A copy on the processor, in `float32`. Its parameters are the module's own where they are asked for; else they take no memory, each
    being one zero, seen in the parameter's shape. Hooks of the user's are left out."""
    own = _own if weights else _seen
    return _made_of(module, _own, own)


def without_numbers(module: Any) -> Any:
    """The same of tensors that have shapes alone, where PyTorch makes no others (`FakeTensorMode`), but for integers and truths, which are known."""
    return _made_of(module, without_number, empty)


def without_number(tensor: Any) -> Any:
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    if not is_integer(tensor.dtype):
        return empty(tensor)
    with unset_fake_temporarily():
        return _own(tensor)


def is_integer(kind: Any) -> bool:
    """Whether tensors of a type hold integers or truths."""
    return not kind.is_floating_point and not kind.is_complex


def _made_of(module: Any, held: Callable[[Any], Any], trained: Callable[[Any], Any]) -> Any:
    """A copy whose tensors and parameters are made from the module's by these two."""
    import torch

    memo: Dict[int, Any] = {}
    for part in module.modules():
        for key, value in vars(part).items():
            if key.endswith("_hooks") and isinstance(value, dict):
                memo[id(value)] = OrderedDict((number, hook) for number, hook in value.items() if _is_of_library(hook))
            elif isinstance(value, torch.Tensor):
                memo[id(value)] = held(value)
    # Where parameters are of `float64`, too, all that the module computes with becomes `float32`.
    keeps_doubles = all(parameter.dtype != torch.float64 for parameter in module.parameters())
    for buffer in module.buffers():
        memo[id(buffer)] = held(buffer).double() if keeps_doubles and buffer.dtype == torch.float64 else held(buffer)
    for parameter in module.parameters():
        memo[id(parameter)] = torch.nn.Parameter(trained(parameter), requires_grad=parameter.requires_grad)
    return copied(module, memo)


def _own(tensor: Any) -> Any:
    return plain(tensor).clone()


def _seen(parameter: Any) -> Any:
    return empty(parameter, size=()).zero_().expand(parameter.shape)


def empty(tensor: Any, size: "Sequence[int] | None" = None) -> Any:
    """A tensor of the same shape, or of another, on the processor, numbers as `float32`; nothing is known of what it holds."""
    import torch

    number = torch.float32 if tensor.is_floating_point() else tensor.dtype
    if size is None:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=number, device="cpu")
    return torch.empty(size, dtype=number, device="cpu")


def copied(module: Any, memo: "Dict[int, Any] | None" = None) -> Any:
    """A copy; NetworkError for a module that cannot be copied."""
    import torch

    # What `torch.nn.utils.weight_norm` made of parameters, and makes anew where the module runs: `deepcopy` takes none of it.
    made = [value for part in module.modules() for value in vars(part).values() if isinstance(value, torch.Tensor) and not value.is_leaf]
    try:
        return copy.deepcopy(module, {**{id(value): value.detach().clone() for value in made}, **(memo or {})})
    except Exception as problem:
        raise NetworkError("%s cannot be copied: %s: %s" % (type(module).__name__, type(problem).__name__, problem)) from problem


def hooked(module: Any) -> List[str]:
    """Names of parts and weights that have hooks of the user's on what runs."""
    holders = [*module.named_modules(), *module.named_parameters()]
    return [name or "the module" for name, holder in holders if any(not _is_of_library(hook) for hook in _hooks(holder))]


def _hooks(holder: Any) -> List[Any]:
    return [hook for kind in RUN_HOOKS for hook in (getattr(holder, kind, None) or {}).values()]


def _is_of_library(hook: Any) -> bool:
    """Whether a hook makes a weight, as PyTorch's norms of weights and its pruning do, or hands on what layers gave, as those of transformers' backbones."""
    return type(hook).__module__.startswith("torch.nn.utils") or str(getattr(hook, "__module__", "")).startswith("transformers.")


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """What is drawn and switched within is not the user's."""
    import torch

    numpy = sys.modules.get("numpy")
    drawn, drawn_by_numpy = random.getstate(), numpy.random.get_state() if numpy else None
    with torch.inference_mode(False), torch.random.fork_rng(devices=[]), torch.autocast("cpu", enabled=False):
        try:
            yield
        finally:
            random.setstate(drawn)
            if numpy:
                numpy.random.set_state(drawn_by_numpy)
