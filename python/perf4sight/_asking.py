"""Questions that nothing is measured for: what a step costs, whether it fits, what makes it fit."""
from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from . import _alone, _checking, _exporter, _network, _settings
from ._answers import Devices, MemoryEstimate, Prediction, _shares
from ._errors import Error, NetworkError, ProgramError

Amount = Union[str, int]
# What the program warns of where it knows operations by name alone (crates/onnx/src/warning.rs): their cost is guessed, and their memory unless the module was followed.
GUESSED = "the others can be run by no worker, and what they cost is guessed from"
# The same of what makes memory that the program adds to the module's, or grows it by, another one; and how that is told.
DOUBTS = (
    (re.compile(r"nothing gives the shape of what (node .*) gives, which"), "its file does not give the shape of %s"),
    (re.compile(r"which the graph does not tell: (.*); that may"), "its file lacks operators that it runs: %s"),
    (re.compile(r"every sample meets all others of its batch in (.*): its cost"), "every sample meets all others of its batch in %s"),
)
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
    network, reply = _of_memory(module, inputs, stage, name, step, holds_outputs, asked)
    if "devices" in reply:
        raise Error("estimate_memory is about one kind of device, and %s are several\n  expected: one of them\n  help: predict(..., target=%r) is about all" % (target, target))
    answer = reply["networks"][0]
    point = answer["predictions"][0]
    heard = [warning for warning in reply["warnings"] if not (network.followed and GUESSED in warning)]
    parts = _shares((answer["breakdown"] or {}).get("by", {}), "component", "memory_bytes")
    return MemoryEstimate(
        network=network.name, target=target, stage=stage, step=reply["step"], batch=network.batch, tensors_bytes=point["tensors_bytes"],
        low_bytes=point["memory_low_bytes"], high_bytes=point["memory_high_bytes"],
        components=parts, warnings=(*network.warnings, *heard), _network=network, _words=(*asked, *_batches(network, None)))


def _of_memory(module: Any, inputs: Any, stage: str, name: Optional[str], step: Dict[str, Any], holds_outputs: bool,
                asked: Sequence[str]) -> Tuple[Any, Any]:
    """The network that answers about memory, and its answer: the module's own, else that of what was followed alone."""
    try:
        network = _network.read(module, inputs, stage, name)
        network = network.following(module, inputs, stage, step, [network.batch], holds_outputs)
        reply = network.ask("predict", *asked, *_batches(network, None))
        doubts = [why % found.group(1) for warning in reply["warnings"] for pattern, why in DOUBTS for found in pattern.finditer(warning)]
        if not (network.followed and doubts):
            return network, reply
        problem: Error = NetworkError(doubts[0])
    except (_exporter.Unsupported, ProgramError) as refused:
        if isinstance(refused, ProgramError) and refused.code != UNUSABLE_FILE:
            raise
        problem = refused
    network = _alone.network(module, inputs, stage, step, name, holds_outputs, problem)
    return network, network.ask("predict", *asked, *_batches(network, None))


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
