"""What a module is called with: taken apart into tensors that have a batch, and put together again around others."""
from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Tuple

from ._errors import NetworkError

# What transformers hand on to the next call besides their result.
NO_RESULTS = ("past_key_values", "cache_params")


@dataclass(frozen=True)
class Inputs:
    """Tensors with a batch by name, and how a module is called with others in their place."""

    batch: int
    names: Tuple[str, ...]
    tensors: Tuple[Any, ...]
    call: Callable[[Any, Tuple[Any, ...]], Any]

    def few(self, samples: int) -> Tuple[Any, ...]:
        """The same for so many samples, on the processor, numbers as `float32`, with no history."""
        return tuple(few(tensor, samples) for tensor in self.tensors)


def read(forward: Callable[..., Any], inputs: Any) -> Inputs:
    """A tensor, a tuple or list of what a module is called with by place, or a dictionary of what it is called with by name.

    Tensors inside of further tuples, lists and dictionaries count, too. The first tensor's first axis is the batch; a tensor whose first
    axis is not as long is the same for every batch.
    """
    import torch

    by_place, by_name = _arguments(inputs)
    found: List[Tuple[str, Any]] = []
    labels = _labels(forward, len(by_place))
    for label, value in [*zip(labels, by_place), *by_name.items()]:
        _collect(label, value, found, torch)
    batched = [tensor for _, tensor in found if tensor.dim() > 0]
    if not batched:
        raise NetworkError(
            "the inputs hold no tensor with a batch\n  expected: a tensor, a tuple of what the module is called with, or a dictionary by name")
    batch = int(batched[0].shape[0])
    if batch == 0:
        raise NetworkError("the inputs hold no sample\n  expected: tensors whose first axis is the batch")
    with_batch = [(name, tensor) for name, tensor in found if tensor.dim() > 0 and tensor.shape[0] == batch]
    for name, tensor in with_batch:
        if tensor.is_complex() or tensor.is_quantized or tensor.layout != torch.strided:
            raise NetworkError("the input %s is %s\n  expected: a dense tensor of numbers, ids or truths" % (name, _kind(tensor, torch)))
    places = {id(tensor): place for place, (_, tensor) in enumerate(with_batch)}

    def call(module: Any, tensors: Tuple[Any, ...]) -> Any:
        def put(value: Any) -> Any:
            return _rebuilt(value, places, tensors, torch)
        return module(*[put(value) for value in by_place], **{name: put(value) for name, value in by_name.items()})

    return Inputs(batch, tuple(_distinct([name for name, _ in with_batch])), tuple(tensor for _, tensor in with_batch), call)


def results(value: Any) -> List[Any]:
    """Tensors of numbers in a result, in order: those with a batch. Where there is none, the losses that the module itself computes, which are single numbers."""
    found: List[Any] = []
    _numbers(value, found)
    return [tensor for tensor in found if tensor.dim() > 0] or found


def _numbers(value: Any, found: List[Any]) -> None:
    import torch

    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            found.append(value)
    elif isinstance(value, dict):
        for name, part in value.items():
            if name not in NO_RESULTS:
                _numbers(part, found)
    elif isinstance(value, (tuple, list)):
        for part in value:
            _numbers(part, found)


def _arguments(inputs: Any) -> Tuple[List[Any], Dict[str, Any]]:
    """What goes by place, and what goes by name."""
    if isinstance(inputs, (tuple, list)) and not hasattr(inputs, "_fields"):
        return list(inputs), {}
    # transformers' batches are dictionaries that are none by type.
    if hasattr(inputs, "keys") and hasattr(inputs, "items"):
        return [], {str(name): value for name, value in inputs.items()}
    return [inputs], {}


def _labels(forward: Callable[..., Any], count: int) -> List[str]:
    """What a module calls what it is called with by place."""
    known: List[str] = []
    for parameter in inspect.signature(forward).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            break
        known.append(parameter.name)
    return [known[place] if place < len(known) else "input_%d" % place for place in range(count)]


def _collect(label: str, value: Any, found: List[Tuple[str, Any]], torch: Any) -> None:
    if isinstance(value, torch.Tensor):
        if all(value is not known for _, known in found):
            found.append((label, value))
    elif isinstance(value, (tuple, list)):
        for place, part in enumerate(value):
            _collect("%s_%d" % (label, place), part, found, torch)
    elif isinstance(value, dict):
        for name, part in value.items():
            _collect("%s_%s" % (label, name), part, found, torch)


def _rebuilt(value: Any, places: Dict[int, int], tensors: Tuple[Any, ...], torch: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return tensors[places[id(value)]] if id(value) in places else plain(value)
    if isinstance(value, (tuple, list)):
        parts = [_rebuilt(part, places, tensors, torch) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return type(value)((name, _rebuilt(part, places, tensors, torch)) for name, part in value.items())
    return value


def plain(tensor: Any) -> Any:
    """A tensor on the processor, numbers as `float32`, with no history; zeros for one without values."""
    tensor = tensor.new_zeros(tensor.shape, device="cpu") if tensor.is_meta else tensor.detach().cpu()
    return tensor.float() if tensor.is_floating_point() else tensor


def few(tensor: Any, samples: int) -> Any:
    """A tensor of so many samples: those of another, again and again, on the processor, with no history."""
    import torch

    return plain(tensor[torch.arange(samples) % tensor.shape[0]]).clone()


def _distinct(names: List[str]) -> List[str]:
    """Names of inputs have no dots, which separates weights from them."""
    clean = ["".join(letter if letter.isalnum() else "_" for letter in name) for name in names]
    return [name if clean.count(name) == 1 else "%s_%d" % (name, place) for place, name in enumerate(clean)]


def _kind(tensor: Any, torch: Any) -> str:
    if tensor.is_quantized:
        return "quantised"
    return "complex" if tensor.is_complex() else str(tensor.layout).replace("torch.", "")
