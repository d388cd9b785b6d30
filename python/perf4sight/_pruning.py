"""A module with fewer channels: which go the program says, and what is left is held against the network that it writes."""
from __future__ import annotations

import fnmatch
import json
import os
import re
from typing import Any, Callable, List, Mapping, Optional, Sequence, Union

from . import _checking, _copy, _network, _private
from ._errors import Error, NetworkError, ProgramError
from ._program import ask
from ._slices import Slices, home_of

EXPECTED = "\n  expected: a forward that holds no numbers of channels"
# What helps where the module's own code does not run, and no layer of it.
NAMELESS = "keep=[...] with patterns of the layers that this code ties together, such as keep=[\"encoder.*\"], leaves them as they are"
# What helps where PyTorch's own attention keeps what is next to it.
HEADS = "a MultiheadAttention has no heads of other sizes, so that all it reads and gives stays: ask for a lower level, or write the attention with layers"
# Layers that are kept, one after the other, to see whether the rest can be pruned.
TRIED = 4
# What the program ends with where a level cannot be reached.
NOT_REACHED = 4


def prune(
    model: Any,
    level: float,
    inputs: Any = None,
    *,
    mode: str = "l1",
    keep: Union[str, Sequence[str]] = (),
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
    level, mode, patterns = _checking.share(level), _checking.mode(mode), _checking.patterns(keep)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise Error("seed = %r\n  expected: a whole number" % (seed,))
    module = _network.unwrapped(model)
    given = _network.guessed(module) if inputs is None else inputs
    network = _network.read(module, given, "training", weights=mode == "l1")
    # Code that divides a tensor by `chunk` or `split` has parts of equal length.
    words = ["--equal-parts", "--level=%s" % (100 * level), "--mode=%s" % mode, "--seed=%d" % seed]

    layers = [layer["layer"] for layer in network.ask("inspect")["layers"]]
    attentions = _attentions(module, layers)
    kept = [*attentions, *patterns]

    def pruned(more: Sequence[str]) -> Any:
        patterns = [one for pattern in [*kept, *more] for one in _by_name_and_place(pattern, layers)]
        return _pruned(module, given, network, [*words, *("--keep=%s" % pattern for pattern in patterns)])

    try:
        return pruned(())
    except NetworkError as problem:
        raise _helped(problem, pruned) from problem
    except ProgramError as refused:
        if refused.code != NOT_REACHED or not attentions:
            raise
        raise ProgramError("%s\n  help: %s" % (str(refused).partition("\n  help: ")[0], HEADS), refused.code) from refused


def _pruned(module: Any, given: Any, network: _network.Network, words: Sequence[str]) -> Any:
    """The module as the program prunes it."""
    with _private.folder() as folder:
        file = os.path.join(folder, network.name + ".onnx")
        plan = network.ask("prune", "--out=%s" % file, *words)
        promised = ask("inspect", file)["layers"]
    smaller = _copy.copied(module)
    slices = Slices(smaller)
    for layer in plan["layers"]:
        _cut(slices, layer)
    _check(smaller, given, promised)
    return smaller


def _helped(problem: NetworkError, pruned: Callable[[Sequence[str]], Any]) -> NetworkError:
    """The same problem with the `keep` that helps, which is tried: keeping one layer may show the next that has to be kept."""
    kept: List[str] = []
    outcome = "; that alone does not help yet"
    following: Optional[NetworkError] = problem
    while following is not None and following.layer and _alike(following.layer) not in kept and len(kept) < TRIED:
        kept.append(_alike(following.layer))
        try:
            pruned(kept)
            following, outcome = None, ", and then the rest can be pruned"
        except NetworkError as other:
            following = other
        except ProgramError as refused:  # too little is left to prune, or nothing is called so
            if refused.code == NOT_REACHED:
                outcome = ", and then %s" % str(refused).partition("\n")[0]
            else:
                kept = kept[:-1]
            break
    if not kept:
        return NetworkError("%s\n  help: %s" % (problem, NAMELESS), problem.layer)
    return NetworkError("%s\n  help: keep=%s leaves layers as they are%s" % (problem, json.dumps(kept), outcome), problem.layer)


def _cut(slices: Slices, layer: Mapping[str, Any]) -> None:
    """Cuts one layer; whatever is wrong with it names the layer."""
    try:
        slices.apply(layer)
    except (LookupError, RuntimeError, AttributeError, TypeError, ValueError) as problem:
        name = layer["layer"]
        raise NetworkError("%s cannot be made smaller: %s: %s" % (name, type(problem).__name__, problem), name) from problem


def _attentions(module: Any, layers: Sequence[str]) -> List[str]:
    """Patterns of the layers of PyTorch's own attention."""
    import torch

    attentions = [name + ".*" for name, part in module.named_modules() if isinstance(part, torch.nn.MultiheadAttention)]
    return [pattern for pattern in attentions if any(_keeps(one, layers) for one in _by_name_and_place(pattern, layers))]


def _by_name_and_place(pattern: str, layers: Sequence[str]) -> List[str]:
    """A pattern of layers' names, and the same of places, by which layers are known whose weights are computed or parts of one: `/decoder/attn/MatMul`."""
    part = re.sub(r"[.]?[*]$", "", pattern)
    by_place = "*/%s/*" % part.replace(".", "?")
    found = [one for one in (pattern, by_place) if part and _keeps(one, layers)]
    return found or [pattern]


def _keeps(pattern: str, layers: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(layer, pattern) for layer in layers)


def _check(smaller: Any, given: Any, promised: List[Mapping[str, Any]]) -> None:
    """Refuses a copy that is not the network that the program pruned."""
    try:
        got = _network.read(smaller, given, "training").ask("inspect")["layers"]
    except NetworkError as error:
        raise NetworkError("with fewer channels the module does not run: %s" % error.args[0], error.layer, EXPECTED) from error
    for one, other in zip(got, promised):
        if any(one[key] != other[key] for key in ("operation", "output", "parameters")):
            raise NetworkError(
                "with fewer channels %s (%s) gives %s from %d parameters, and in the pruned network %s gives %s from %d%s"
                % (one["layer"], one["operation"], one["output"], one["parameters"], other["operation"], other["output"], other["parameters"],
                   EXPECTED), home_of(one["layer"]))
    if len(got) != len(promised):
        raise NetworkError("with fewer channels the module runs %d operations, and the pruned network has %d%s" % (len(got), len(promised), EXPECTED))


def _alike(layer: str) -> str:
    """A pattern of a layer and all in it, the same part of every block included."""
    if "." not in layer:
        return layer + "*" if layer and not layer.isdigit() else layer
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", layer).rstrip("*") + "*"

