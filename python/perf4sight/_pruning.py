"""A module with fewer channels: which go the program says, and what is left is held against the network that it writes."""
from __future__ import annotations

import os
import re
from typing import Any, List, Mapping, Sequence

from . import _copy, _network, _private
from ._errors import NetworkError
from ._program import ask
from ._slices import Slices

def prune(
    model: Any,
    level: float,
    inputs: Any = None,
    *,
    mode: str = "l1",
    keep: Sequence[str] = (),
    seed: int = 0,
) -> Any:
    """The same module with fewer channels, its weights those of `model` that are left; `model` stays as it is.

    Args:
        model: a `torch.nn.Module`.
        level: the share of all parameters that goes, such as 0.5; what is reached is within two points of it.
        inputs: what the module is called with, as for `predict`. Without it, images of usual sizes, vectors or words are tried.
        mode: which filters go first: `"l1"`, those with the smallest mean magnitude, `"random"`, or `"random_weighted"`, by depth.
        keep: patterns of the names of layers that keep all channels they read and give, such as `"encoder.*.attn.*"`. PyTorch's own
            `MultiheadAttention` always does, for it has no heads of other sizes.
        seed: of what is drawn.

    The copy's `forward` is the module's own. Where that holds numbers of channels that would have to be others, it no longer runs, or does
    something else than the pruned network: that is answer as a `NetworkError`, which names the layers to `keep`. Optimizers know nothing of the
    copy's parameters; make them anew.
    """
    module = _network.unwrapped(model)
    given = _network.guessed(module) if inputs is None else inputs
    network = _network.read(module, given, "training", weights=mode == "l1")
    with _private.folder() as folder:
        file = os.path.join(folder, network.name + ".onnx")
        # Code that divides a tensor by `chunk` or `split` has parts of equal length.
        words = ["--equal-parts", *("--keep=%s" % pattern for pattern in [*_attentions(module), *keep])]
        plan = network.ask("prune", "--level=%s" % (100 * level), "--mode=%s" % mode, "--seed=%d" % seed, "--out=%s" % file, *words)
        promised = ask("inspect", file)["layers"]
    smaller = _copy.copied(module)
    slices = Slices(smaller)
    for layer in plan["layers"]:
        _cut(slices, layer)
    _check(smaller, given, promised)
    return smaller


def _cut(slices: Slices, layer: Mapping[str, Any]) -> None:
    """Cuts one layer; whatever is wrong with it names the layer."""
    try:
        slices.apply(layer)
    except (LookupError, RuntimeError, AttributeError, TypeError, ValueError) as problem:
        name = layer["layer"]
        raise NetworkError("%s cannot be made smaller: %s: %s%s" % (name, type(problem).__name__, problem, _remedy(name)), name) from problem


def _attentions(module: Any) -> List[str]:
    """Patterns of the layers of PyTorch's own attention."""
    import torch

    return [name + ".*" for name, part in module.named_modules() if isinstance(part, torch.nn.MultiheadAttention)]


def _check(smaller: Any, given: Any, promised: List[Mapping[str, Any]]) -> None:
    """Refuses a copy that is not the network that the program pruned."""
    try:
        got = _network.read(smaller, given, "training").ask("inspect")["layers"]
    except NetworkError as error:
        raise NetworkError("with fewer channels the module does not run: %s%s" % (error, _remedy(error.layer)), error.layer) from error
    for one, other in zip(got, promised):
        if any(one[key] != other[key] for key in ("operation", "output", "parameters")):
            raise NetworkError(
                "with fewer channels %s (%s) gives %s from %d parameters, and in the pruned network %s gives %s from %d%s"
                % (one["layer"], one["operation"], one["output"], one["parameters"], other["operation"], other["output"], other["parameters"],
                   _remedy(_home(one["layer"]))), _home(one["layer"]))
    if len(got) != len(promised):
        raise NetworkError("with fewer channels the module runs %d operations, and the pruned network has %d%s" % (len(got), len(promised), _remedy("")))


def _remedy(layer: str) -> str:
    alike = re.sub(r"(?<![^.])\d+(?![^.])", "*", layer)  # the same part of every block
    kept = 'keep=["%s*"]' % alike.rstrip("*") if layer else "keep"
    return "\n  expected: a forward that holds no numbers of channels\n  help: %s leaves layers as they are" % kept


def _home(layer: str) -> str:
    """The module that an operation runs in."""
    return layer.strip("/").rpartition("/")[0].rpartition("/")[2] if "/" in layer else layer.rpartition(".")[0]
