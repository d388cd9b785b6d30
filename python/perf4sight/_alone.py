"""Modules that PyTorch cannot export: their memory alone is known, of passes that are followed on tensors without contents. The program reads a network of
the operators whose kernels borrow memory, each on an input of its own."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from . import _checking, _copy, _exporter, _following, _inputs, _network
from ._errors import NetworkError

# Operators that such a network may run, and how many images they read; what others borrow is not a part of the answer.
IMAGES = {"convolution": 1, "batch_norm": 1, "attention": 3}
# What users call them.
NAMES = {"batch_norm": "batch or instance norm"}
# How many times as many samples are followed, too.
MANY = 256
# By how much what a sample takes may differ between few and many.
EVEN = 0.02
UNEVEN = ("memory was not seen to grow evenly with the batch, as it does not where samples meet each other: what is said of other batch sizes than that of the "
          "inputs may be wrong by more than its interval; ask about each of them")
LEFT_OUT = "what these operators borrow while they run is not counted, so that it may be more: %s"


@dataclass(frozen=True)
class Kernel:
    """An operator that ran in the module."""

    kind: str
    ran: _following.Ran

    def is_of(self, samples: int) -> bool:
        """Whether a network of so many samples can run it: it is known, as transposed convolutions of volumes are not, and its batch is theirs, as that of
        filters computed for each sample is not."""
        is_known = self.kind in IMAGES and not (self.kind == "convolution" and self.ran.operands[6] and len(self.ran.operands[0]) > 4)
        return is_known and all(self._rows(size) % samples == 0 for size in self.images())

    def _rows(self, size: Sequence[int]) -> int:
        """What has the batch on its first axis; attention of three axes has it on its second, after one of length 1."""
        return size[0] * size[1] if self.kind == "attention" else size[0]

    def images(self) -> Tuple[Any, ...]:
        """The sizes of tensors that have a batch."""
        return self.ran.operands[:IMAGES[self.kind]]

    def apart(self, size: Sequence[int], samples: int) -> List[int]:
        """The sizes of one sample: where several lie behind each other on the first axis, as frames do, with an axis of their own; attention has its windows
        beside its heads, where it takes the same."""
        each = self._rows(size) // samples
        if self.kind == "attention":
            return [each, *size[2:]]
        return [each, *size[1:]] if each > 1 else list(size[1:])

    def weights(self) -> Tuple[Any, ...]:
        """The sizes of the filters or scales, and of the bias where there is one."""
        return () if self.kind == "attention" else self.ran.operands[1:3]

    def tracked(self) -> Tuple[bool, ...]:
        """Whether there is a gradient of each image."""
        return self.ran.tracked[:IMAGES[self.kind]]

    def run(self, images: Sequence[Any], weights: Sequence[Any]) -> Any:
        """The same on these tensors."""
        import torch

        if self.kind == "attention":
            return torch.nn.functional.scaled_dot_product_attention(*images)
        if self.kind == "batch_norm":
            statistics = torch.zeros(images[0].shape[1]), torch.ones(images[0].shape[1])
            return torch.nn.functional.batch_norm(*images, *statistics, *weights, training=self.ran.operands[5])
        return torch.convolution(*images, *weights, *self.ran.operands[3:])


def network(module: Any, inputs: Any, stage: str, settings: Dict[str, Any], name: Optional[str], holds_outputs: bool) -> "Optional[_network.Network]":
    """The network that the program is asked about instead of a module; None where its passes cannot be followed, or such a network not be written."""
    given = _inputs.read(module.forward, inputs)
    batches = [given.batch, MANY * given.batch]
    passes = None if hindrance(module, stage, settings) else _following.passes(module, given, settings, stage, batches, holds_outputs)
    if not passes:
        return None
    samples, few = next(iter(passes.items()))
    ran = {kind: [Kernel(kind, one) for one in of_kind] for kind, of_kind in few.ran.items()}
    places = {kind: [place for place, kernel in enumerate(kernels) if kernel.is_of(samples)] for kind, kernels in ran.items()}
    try:
        onnx = _exported([ran[kind][place] for kind, told in places.items() for place in told], samples)
    except NetworkError:
        return None
    left_out = ["%s x%d" % (NAMES.get(kind, kind), len(kernels) - len(places[kind])) for kind, kernels in ran.items() if len(kernels) > len(places[kind])]
    warnings = [*([LEFT_OUT % ", ".join(left_out)] if left_out else []), *([] if _is_even(passes) else [UNEVEN])]
    made = _network.Network(_network.name_of(module, name), onnx, given.batch, (*_network.of_hooks(module), *warnings), whole=False)
    # Which weights are trained is in the passes: those that have a gradient.
    told = {**settings, "trainable": None}
    return made.with_passes(passes, _following.note(module, given, told, stage, passes, places), settings)


def hindrance(module: Any, stage: str, settings: Mapping[str, Any]) -> str:
    """The setting of a step that is followed with no module; empty where there is none."""
    if (settings.get("checkpoint") or "none") != "none":
        return "checkpoint"
    if (settings.get("precision") or "fp32") not in _following.PRECISIONS:
        return "precision = %s" % settings["precision"]
    return "" if _following.is_known(module, stage, settings.get("trainable") or "all") else "trainable = %s" % settings["trainable"]


def _is_even(passes: Mapping[int, Any]) -> bool:
    """Whether memory grows as much with a sample among few as among many."""
    points = [(samples, alive.most) for samples, alive in sorted(passes.items())]
    grown = [(after - before) / (to - of) for (of, before), (to, after) in zip(points, points[1:])]
    return len(grown) > 1 and max(grown) - min(grown) <= EVEN * max(grown)


def _exported(kernels: Sequence[Kernel], samples: int) -> bytes:
    """A file of kernels, which ran for so many samples, and of a layer besides that borrows nothing."""
    import torch

    class Kernels(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = [kernel.weights() for kernel in kernels]
            self.layer = torch.nn.Linear(1, 1)
            # Of what it is added to there is a gradient.
            self.shift = torch.nn.Parameter(torch.zeros(1))
            self.held = torch.nn.ParameterList(torch.zeros(()).expand(size) for own in sizes for size in own if size is not None)

        def forward(self, first: Any, *images: Any) -> Any:
            held, read, results = iter(self.held), iter(images), [self.layer(first)]
            for kernel in kernels:
                weights = [None if size is None else next(held) for size in kernel.weights()]
                own = [_joined(next(read), size) for size in kernel.images()]
                results.append(kernel.run([image + self.shift if tracked else image for image, tracked in zip(own, kernel.tracked())], weights))
            return tuple(results)

    sizes = [kernel.apart(size, samples) for kernel in kernels for size in kernel.images()]
    held = [one for kernel in kernels for one in zip(kernel.weights(), kernel.ran.tracked[1:3]) if one[0] is not None]
    frozen = [("held.%d" % place, math.prod(size)) for place, (size, tracked) in enumerate(held) if not tracked]
    with _copy.undisturbed():
        tensors = tuple(torch.zeros([_network.SAMPLES, *size]) for size in [[1], *sizes])
        names = tuple("input_%d" % place for place in range(len(tensors)))
        return _exporter.export(Kernels().train(), names, tensors, False)[0] + _network.untrained(frozen)


def _joined(image: Any, size: Sequence[int]) -> Any:
    """The same as one axis again."""
    return image.flatten(0, 1) if image.dim() > len(size) else image
