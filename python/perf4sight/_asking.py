"""Questions that nothing is measured for: what a step costs, whether it fits, what makes it fit."""
from __future__ import annotations

import os
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from . import _alone, _checking, _exporter, _network, _settings
from ._answers import Devices, MemoryEstimate, Prediction, Share, _shares
from ._errors import Error, NetworkError, ProgramError

Amount = Union[str, int]
# What the program warns of that is not about memory, where the module was followed (crates/onnx/src/warning.rs): the cost of operations that it knows by name alone,
# how long a step takes, what becomes of pruned channels.
OF_OTHERS = ("the others can be run by no worker, and what they cost is guessed from", "how long a step takes", "where channels are pruned")
# What it warns of where what kernels borrow, or what another batch takes, may not be the module's.
DOUBTS = ("nothing gives the shape of what", "which the graph does not tell", "every sample meets all others of its batch")
ALONE = "memory alone is known of a module that is not read as a network: %s"
# The component of memory that operators borrow while they run.
WORKSPACE = "workspace"
# The program's exit code for a file that it cannot use.
UNUSABLE_FILE = 4


def predict(
    model: Any,
    inputs: Any,
    *,
    fingerprint: "Union[str, os.PathLike[str], None]" = None,
    target: "Union[str, os.PathLike[str], Sequence[str], None]" = None,
    batch_sizes: "Union[int, Sequence[int], None]" = None,
    mem_limit: Optional[Amount] = None,
    stage: str = "training",
    optimizer: Any = None,
    name: Optional[str] = None,
    **settings: Any,
) -> "Union[Prediction, Devices]":
    """Latency and memory of a step of `model`, and whether it fits, from a stored fingerprint or before anything is measured.

    Args:
        model: a `torch.nn.Module`, which stays as it is.
        inputs: what it is called with: a tensor, a tuple of what goes by place, or a dictionary of what goes by name. The first axis is the batch.
        fingerprint: the folder of a device that was profiled, such as `fingerprinting/orin/imagenet`.
        target: instead of it a kind of device that nobody measured, such as `"orin"`, or a list of several, `["all"]` for all.
        batch_sizes: others than the one of `inputs`.
        mem_limit: what the step must fit into, such as `"8GiB"` or a number of bytes.
        stage: `"training"` or `"inference"`.
        optimizer: an optimizer of PyTorch, its class, or its name such as `"adamw"`; by default as in the profile.
        name: what the network is called in answers; by default as its class.
        **settings: what else the step does otherwise, by the names of the program's options: `zero_grad`, `precision`, `trainable`,
            `frozen_normalisation`, `accumulate`, `checkpoint`, `loss`; any other is refused. By default `trainable` is what requires gradients.

    Returns a `Prediction`; of a list of targets `Devices`.

    Raises `NetworkError` where the module cannot be read, `ProgramError` where the program refuses what was asked.
    """
    asked = source("predict", fingerprint, target)
    sizes, limited = _checking.batch_sizes(batch_sizes), limit(mem_limit)
    _checking.settings(settings)
    module = _network.unwrapped(model)
    network = _network.read(module, inputs, stage, name)
    told_step = _settings.of(module, stage, optimizer, settings)
    network = network.following(module, inputs, stage, told_step, sizes or [network.batch])
    reply = network.ask("predict", *asked, *words(stage, told_step), *_batches(network, sizes), *limited)
    devices = tuple(Prediction._from(network.name, device, [*network.warnings, *reply["warnings"]]) for device in reply.get("devices", [reply]))
    return Devices(devices) if _is_list(target) or "devices" in reply else devices[0]


def estimate_memory(
    model: Any,
    inputs: Any,
    *,
    target: "Union[str, os.PathLike[str], None]" = None,
    stage: str = "training",
    optimizer: Any = None,
    name: Optional[str] = None,
    holds_outputs: bool = False,
    **settings: Any,
) -> MemoryEstimate:
    """Memory of a step of `model` on `inputs`, simulated: nothing runs, and no device is needed.

    `target` is the kind of device, by default `"cuda"` where the model is on a GPU, else `"cpu"`. The other arguments are those of `predict` but
    `batch_sizes`: the answer is about the batch of `inputs`, and its `largest_batch` about others. `holds_outputs` is for loops that keep the
    outputs in a variable until backward is done, as `outputs = model(inputs)` does; by default they are freed when the loss is known.

    Raises as `predict` does.
    """
    _checking.settings(settings)
    target = None if target is None else _checking.target(target)
    module = _network.unwrapped(model)
    target = target or _place(module)
    step = _settings.of(module, stage, optimizer, settings)
    asked = (*of_kinds(target), *(["--holds-outputs"] if holds_outputs else []), *words(stage, step))
    network, reply, parts = _of_memory(module, inputs, stage, name, step, holds_outputs, asked)
    point = _point(reply)
    heard = [warning for warning in reply["warnings"] if not (network.followed and any(text in warning for text in OF_OTHERS))]
    return MemoryEstimate(
        network=network.name, target=target, stage=stage, step=reply["step"], batch=network.batch, tensors_bytes=point["tensors_bytes"],
        tensors_low_bytes=_or(point.get("tensors_low_bytes"), point["tensors_bytes"]), tensors_high_bytes=_or(point.get("tensors_high_bytes"), point["tensors_bytes"]),
        low_bytes=point["memory_low_bytes"], high_bytes=point["memory_high_bytes"],
        components=parts, warnings=(*network.warnings, *heard), _network=network, _words=(*asked, *_batches(network, None)))


def _of_memory(module: Any, inputs: Any, stage: str, name: Optional[str], step: Dict[str, Any], holds_outputs: bool,
               asked: Sequence[str]) -> "Tuple[_network.Network, Any, Tuple[Share, ...]]":
    """The network that answers about memory, its answer, and what memory is made of: the module's own; what was followed alone where that cannot be read, or
    lacks what kernels borrow by."""
    def ask(network: _network.Network) -> Any:
        reply = network.ask("predict", *asked, *_batches(network, None))
        if "devices" in reply:
            raise Error("estimate_memory is about one kind of device, and several were asked about\n  expected: one of them\n  help: predict(..., target=...) is about all")
        return reply

    def alone() -> "Optional[_network.Network]":
        return _alone.network(module, inputs, stage, step, name, holds_outputs)

    try:
        network = _network.read(module, inputs, stage, name)
        network = network.following(module, inputs, stage, step, [network.batch], holds_outputs)
        reply = ask(network)
    except (_exporter.Unsupported, ProgramError) as refused:
        is_of_file = not isinstance(refused, ProgramError) or refused.code == UNUSABLE_FILE
        found = alone() if is_of_file else None
        hindrance = _alone.hindrance(module, stage, step)
        if found is None and is_of_file and hindrance:
            raise NetworkError("%s\n  help: without %s memory alone may be known" % (refused, hindrance)) from refused
        if found is None:
            raise
        found = found.warned(ALONE % str(refused).splitlines()[0])
        return found, ask(found), ()
    parts = _shares((reply["networks"][0]["breakdown"] or {}).get("by", {}), "component", "memory_bytes")
    if network.followed and any(doubt in warning for warning in reply["warnings"] for doubt in DOUBTS):
        found = alone()
        if found is not None:
            found, reply = found.warned(*(warning for warning in network.warnings if warning not in found.warnings)), ask(found)
            return found, reply, _with_borrowed(parts, _point(reply)["tensors_bytes"])
    return network, reply, parts


def _or(end: Optional[int], amount: int) -> int:
    """An end of an interval; where the program gives none, the amount."""
    return amount if end is None else end


def _point(reply: Any) -> Any:
    """What an answer about one batch size says of it."""
    return reply["networks"][0]["predictions"][0]


def _with_borrowed(parts: "Tuple[Share, ...]", total: int) -> "Tuple[Share, ...]":
    """What memory is made of where operators borrow another amount than the graph tells, which is their workspace."""
    others = sum(part.amount for part in parts if part.name != WORKSPACE)
    amounts = [(part.name, max(total - others, 0) if part.name == WORKSPACE else part.amount) for part in parts]
    return tuple(Share(name, amount, amount / total) for name, amount in amounts)


def source(verb: str, fingerprint: Any, target: Any) -> List[str]:
    """What answers, as options of the program."""
    if (fingerprint is None) == (target is None):
        raise Error("%s asks either a fingerprint or a target\n  expected: fingerprint=\"fingerprinting/orin/imagenet\", for example, or target=\"orin\"" % verb)
    if fingerprint is not None:
        if not isinstance(fingerprint, (str, os.PathLike)):
            raise Error("fingerprint = %r\n  expected: the folder of a device that was profiled, such as \"fingerprinting/orin/imagenet\"" % (fingerprint,))
        return ["--fingerprint=%s" % os.fspath(fingerprint)]
    return of_kinds(",".join(map(_checking.target, target if _is_list(target) else [target])))


def of_kinds(target: str) -> List[str]:
    """Kinds of devices that answer, likewise; processors with the threads that compute here."""
    import torch

    return ["--target=%s" % target, "--threads=%d" % torch.get_num_threads()]


def words(stage: str, step: Dict[str, Any]) -> List[str]:
    """What the step does, likewise."""
    return ["--stage=%s" % stage, *_settings.words(step)]


def limit(memory: Optional[Amount]) -> List[str]:
    """What it must fit into, likewise."""
    return [] if memory is None else ["--mem-limit=%s" % _checking.memory(memory)]


def _is_list(target: Any) -> bool:
    return isinstance(target, Iterable) and not isinstance(target, (str, bytes))


def _batches(network: Any, asked: Optional[Sequence[int]]) -> List[str]:
    return ["--bs=%s" % ",".join(map(str, asked or [network.batch]))]


def _place(module: Any) -> str:
    return "cuda" if any(weight.is_cuda for weight in module.parameters()) else "cpu"
