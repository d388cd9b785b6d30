"""Operators that PyTorch's exporter has no word for, in words that the program knows."""
from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable, Iterator, Protocol, Sequence


class _Graph(Protocol):
    """What PyTorch gives to add operators to. PyTorch 1.13 asks whether it is a class, which `Any` is from Python 3.11 on."""

    def op(self, operator: str, *inputs: Any, **attributes: Any) -> Any: ...


@contextlib.contextmanager
def known(opset: int, samples: int, others: Sequence[str] = ()) -> Iterator[None]:
    """The exporter with these operators, and afterwards as it was; `others` are those that the program knows by name and shapes alone, of so many samples."""
    import torch

    words = {"aten::adaptive_avg_pool2d": _adaptive_pool, "aten::rms_norm": _rms_norm, "aten::contiguous": _contiguous, **{name: _named(samples) for name in others}}
    for operator, symbol in words.items():
        torch.onnx.register_custom_op_symbolic(operator, symbol, opset)
    try:
        yield
    finally:
        for operator in words:
            torch.onnx.unregister_custom_op_symbolic(operator, opset)
        for operator in others:
            _forget(operator)


# Where PyTorch has kept what it exports of operators.
REGISTRIES = ("torch.onnx._internal.torchscript_exporter.registration", "torch.onnx._internal.registration")


def _forget(operator: str) -> None:
    """An operator that was unregistered leaves an entry without a version, on which PyTorch's next look for it ends with "min() arg is an empty sequence"."""
    for home in filter(None, map(sys.modules.get, REGISTRIES)):
        home.registry._registry.pop(operator, None)


def _numbers(value: Any) -> "list[int | None]":
    """Of a list that the graph was traced with; None for what is no constant."""
    node = value.node()
    if node.kind() == "onnx::Constant":
        constant = node["value"] if hasattr(node, "__getitem__") else node.t("value")
        return [int(number) for number in constant.flatten().tolist()]
    read = [part.node() for part in node.inputs()]
    return [_number(part) for part in read]


def _number(node: Any) -> "int | None":
    if node.kind() not in ("onnx::Constant", "prim::Constant") or not node.hasAttribute("value"):
        return None
    return int(node.t("value").item()) if node.kindOf("value") == "t" else int(node.i("value"))


def _named(samples: int) -> Callable[..., Any]:
    """An operator that ONNX has none for: its name, and the tensors that it reads. What it gives was traced with so many samples: with an axis of this
    length first, where what it reads has a batch there."""
    def symbol(graph: Any, *inputs: Any) -> Any:
        node = graph.original_node
        tensors = [one for one in inputs if one is not None and one.type().kind() == "TensorType" and one.node().kind() != "onnx::Constant"]
        kinds = [result.type() for result in node.outputs()]
        has_batch = any((one.type().varyingSizes() or [None])[0] is None for one in tensors)
        if has_batch and any((kind.varyingSizes() or [None])[0] != samples for kind in kinds):
            raise ValueError("what %s gives has no batch first" % node.kind())
        made = graph.op("perf4sight::" + node.kind().rpartition("::")[2], *tensors, outputs=len(kinds))
        for result, kind in zip(made if isinstance(made, (tuple, list)) else [made], kinds):
            result.setType(kind.with_sizes([None, *kind.varyingSizes()[1:]]) if has_batch else kind)
        return made
    return symbol


def _adaptive_pool(graph: _Graph, image: Any, size: Any) -> Any:
    """Windows of any size, which may overlap; ONNX has only the one over everything."""
    sizes = _numbers(size)
    shape = image.type().varyingSizes()
    sizes = [own if asked is None else asked for asked, own in zip(sizes, shape[-2:])]
    if sizes == [1, 1]:
        return graph.op("GlobalAveragePool", image)
    pooled = graph.op("perf4sight::AdaptiveAveragePool", image, output_size_i=sizes)
    return pooled.setType(image.type().with_sizes([*shape[:-2], *sizes]))


# What sees a tensor in other sizes, and copies it where the order of its numbers in memory does not allow that.
VIEWS = ("aten::view", "aten::reshape", "aten::flatten")


def _contiguous(graph: Any, features: Any, memory_format: Any) -> Any:
    """ONNX's tensors have no order in memory: a copy has a word here where one is made. That convolutions work in the order of what they read depends on it.
    Where the copy is only seen in other sizes that its original cannot be seen in, the program knows that one is made."""
    import torch

    sizes, strides = features.type().varyingSizes(), features.type().strides()
    if _number(memory_format.node()) != _CONTIGUOUS or sizes is None or strides is None:
        return features
    # The batch has no size here; it is not an axis of length 1, whose stride says nothing.
    original = torch.empty_strided([size or 2 for size in sizes], strides, device="meta")
    seen = [tuple(one.type().varyingSizes() or ()) for use in graph.original_node.output().uses() if use.user.kind() in VIEWS for one in use.user.outputs()]
    is_only_seen = len(seen) == len(graph.original_node.output().uses()) and not any(_can_be_seen(original, shape) for shape in seen)
    return features if original.is_contiguous() or is_only_seen else graph.op("perf4sight::Contiguous", features).setType(features.type())


# `torch.contiguous_format` as graphs have it.
_CONTIGUOUS = 0


def _can_be_seen(tensor: Any, shape: Any) -> bool:
    """Whether a tensor has a view of that shape."""
    try:
        tensor.view(shape)
        return True
    except (RuntimeError, TypeError):
        return False


def _rms_norm(graph: _Graph, features: Any, axes: Any, weight: Any, epsilon: Any) -> Any:
    """ONNX has it since operator set 23."""
    inputs = [features] if weight.node().mustBeNone() else [features, weight]
    return graph.op("RMSNormalization", *inputs, axis_i=-len(_numbers(axes))).setType(features.type())
