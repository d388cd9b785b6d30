"""Code that asks what numbers are, and may do something else for others: where it stands, and other numbers to try it on."""
from __future__ import annotations

import math
import traceback
import warnings
from typing import Any, Callable, List, Tuple

from ._exporter import homes, unheard

# Operators by which code reads numbers.
ASKING = ("_local_scalar_dense", "equal", "nonzero", "is_nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive")


def places(run: Callable[[], Any]) -> List[str]:
    """Where code asks what the numbers of a tensor are, not just how many, while `run` runs."""
    found: List[str] = []
    others = homes()

    def see(function: Any, _: Tuple[Any, ...]) -> None:
        if str(function).split(".")[1] in ASKING:
            frames = [frame for frame in traceback.extract_stack() if not frame.filename.startswith(others)]
            place = "%s:%d" % (frames[-1].filename, frames[-1].lineno or 0)
            found.extend([place] if place not in found else [])

    _watch(run, see)
    return found


def is_drawn(function: Any, arguments: Tuple[Any, ...]) -> bool:
    """Whether an operator draws a single number, by which code may decide what it does, such as `torch.rand([])` which layers it leaves out."""
    is_drawing = str(function) in ("aten.rand.default", "aten.randn.default", "aten.randint.default", "aten.randint.low")
    sizes = next((one for one in arguments if isinstance(one, (list, tuple))), [2])
    return is_drawing and math.prod(sizes) == 1


def draws(run: Callable[[], Any]) -> bool:
    """Whether code draws single numbers while `run` runs."""
    found: List[bool] = []
    _watch(run, lambda function, arguments: found.append(is_drawn(function, arguments)))
    return any(found)


def _watch(run: Callable[[], Any], see: Callable[[Any, Tuple[Any, ...]], None]) -> None:
    """Shows every operator with its arguments before it runs."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            see(function, args)
            return function(*args, **(kwargs or {}))

    with torch.no_grad(), unheard(), warnings.catch_warnings(), Watch():
        warnings.simplefilter("ignore")
        run()


def _drawn(tensor: Any) -> Any:
    """Numbers that are drawn; ids are those that are there, elsewhere."""
    import torch

    if tensor.is_floating_point():
        return torch.randn_like(tensor)
    return tensor if tensor.dtype == torch.bool else tensor.flip(-1)


def _negative(tensor: Any) -> Any:
    return -tensor if tensor.is_floating_point() else _drawn(tensor)


def _nothing(tensor: Any) -> Any:
    return tensor * 0


# What makes other values of the same kind from an input.
OTHERS: List[Callable[[Any], Any]] = [_drawn, _negative, _nothing]
