"""Steps that are measured here: in processes of their own, by the worker for any PyTorch, with the PyTorch of this Python."""
from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _checking, _following, _network, _private, _settings
from . import _tables as tables
from ._errors import Error, ProgramError
from ._program import ask
from ._tables import Shown, Table

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_worker.py")
# The folder's name of networks of which nothing else is known.
DATASET = "imagenet"
# What a network is called while it is measured: by the names of its own networks the program knows more than was asked.
ASKED = "asked_network"
# What is measured is a graph of the module.
KEPT = ("what is measured is the module's graph, which keeps nothing from one step to the next: the module itself keeps %s then (batch size %d), "
        "and takes about as much more; perf4sight.estimate_memory counts it")
# The fewest bytes that it keeps and a warning is about.
NOTABLE = 1 << 16
# Where the program finds what it does not take, in a file that nobody but this package wrote.
LINE = re.compile(r"^config\.ini:\d+: (\[\w+\]: )?")


@dataclass(frozen=True)
class Measurement:
    """What a step of one batch size took.

    `outcome` is `measured`, a word for what makes the time doubtful (`disturbed`, `throttled`, `unexpected`), `out_of_memory`, or what went
    wrong. `latency_ms` is the median of `steps` timed steps, `spread` how far visits apart in time lie from it, as a share; `tensors_bytes` the
    peak of the tensors alive at once, `reserved_bytes` of what the allocator took, `used_bytes` of what the process or device used. What was not
    measured is None.
    """

    batch: int
    outcome: str
    latency_ms: Optional[float] = None
    spread: Optional[float] = None
    steps: Optional[int] = None
    tensors_bytes: Optional[int] = None
    reserved_bytes: Optional[int] = None
    used_bytes: Optional[int] = None


@dataclass(frozen=True)
class Profile(Shown):
    """What steps of a network took on this machine."""

    network: str
    device: str
    stage: str
    step: str
    measurements: Tuple[Measurement, ...]
    warnings: Tuple[str, ...]

    def at(self, batch: int) -> Measurement:
        """The measurement of that batch size; Error where there is none."""
        return _checking.found("batch size", batch, {one.batch: one for one in self.measurements})

    def _tables(self) -> List[Table]:
        heads = ("batch size", "outcome", "latency", "spread", "tensors", "reserved", "used")
        rows = tuple((
            str(one.batch), one.outcome.replace("_", " "), tables.time(one.latency_ms), "–" if one.spread is None else "%.1f %%" % (100 * one.spread),
            tables.memory(one.tensors_bytes), tables.memory(one.reserved_bytes), tables.memory(one.used_bytes)) for one in self.measurements)
        return [Table("%s of %s, measured on %s" % (self.stage, self.network, self.device), heads, rows)]

    def _remarks(self) -> Sequence[str]:
        step = ["step: %s" % self.step] if self.step != "published" else []
        return [*step, *("warning: %s" % warning for warning in self.warnings)]


def profile(
    model: Any,
    inputs: Any,
    *,
    batch_sizes: Optional[Sequence[int]] = None,
    variables: Union[str, Sequence[str]] = ("memory", "latency"),
    stage: str = "training",
    optimizer: Any = None,
    device: Optional[str] = None,
    mem_limit: Union[str, int, None] = None,
    threads: Optional[int] = None,
    timeout: Optional[float] = None,
    name: Optional[str] = None,
    **settings: Any,
) -> Profile:
    """Measures steps of `model` on this machine: its network, with weights drawn anew, each configuration in a process of its own.

    `batch_sizes` are by default that of `inputs` alone; of `variables` memory alone takes a few seconds. `device` is `"cpu"` or `"cuda"`, by default where the model is. `mem_limit`
    is what a measurement may take before it counts as out of memory, `threads` those that compute, `timeout` the seconds after which a
    measurement counts as hung. The other arguments are those of `predict`; gradients are freed before each step, as `zero_grad()` does, unless
    `zero_grad="keep"` is said.

    Raises as `predict` does.
    """
    if not sys.executable:
        raise Error("this Python does not know its own path, and no worker can be started with it")
    sizes, limit = _checking.batch_sizes(batch_sizes), None if mem_limit is None else _checking.memory(mem_limit)
    _checking.settings(settings)
    module = _network.unwrapped(model)
    network = _network.read(module, inputs, stage, name)
    if stage == "training":
        settings.setdefault("zero_grad", "free")
    device, gpu = _place(module, device)
    keys = dict(
        network=[ASKED], bs=sizes or [network.batch], profile_variables=[variables] if isinstance(variables, str) else list(variables), stage=stage, device=device, gpu_id=gpu, worker=[sys.executable, WORKER],
        threads=threads, timeout=timeout, mem_limit=limit)
    told = _settings.of(module, stage, optimizer, settings)
    keys.update(told)
    answer = _measured(network, keys)
    rows = answer["sections"]["profile"]["measurements"]
    step = rows[0]["step"] if rows else ""
    warnings = (*network.warnings, *_unmeasured(module, inputs, told, stage, network.batch), *answer["warnings"])
    return Profile(network.name, device, stage, step, tuple(_joined(rows)), warnings)


def _unmeasured(module: Any, inputs: Any, settings: Mapping[str, Any], stage: str, batch: int) -> List[str]:
    """What the module takes and its graph, which is measured, does not."""
    kept = _following.kept(module, inputs, settings, stage, batch)
    return [KEPT % (tables.memory(kept), batch)] if kept >= NOTABLE else []


def _measured(network: Any, keys: Mapping[str, Any]) -> Any:
    """What the program says of a run that leaves nothing behind.
    """
    with _private.folder() as folder:
        with open(os.path.join(folder, ASKED + ".onnx"), "wb") as file:
            file.write(network.onnx)
        written = dict(networks=[ASKED], model_desc_dir=folder, model_path=os.path.join(folder, "networks"), dataset=DATASET, pruning_perc=[0])
        rows = os.path.join(folder, "rows")
        config = os.path.join(folder, "config.ini")
        with open(config, "w") as file:
            for section, said in (("create_network_dataset", written), ("profile", dict(keys, log_dir=rows))):
                file.write("\n".join(["[%s]" % section, *_settings.keys(said), ""]))
        written_as = os.path.join(folder, "networks", DATASET, ASKED + "_0.onnx")
        try:
            return ask("--config-file", config, progress="profile", known_as={
                written_as: network.name, folder + os.sep: "", ASKED + ".onnx": network.name, ASKED: network.name})
        except ProgramError as problem:
            raise ProgramError(LINE.sub("", str(problem)), problem.code) from None


def _joined(rows: Sequence[Mapping[str, Any]]) -> List[Measurement]:
    """The rows of every batch size, of time and of memory, as one."""
    found: Dict[int, Dict[str, Any]] = {}
    for row in rows:
        one = found.setdefault(row["bs"], {"outcome": row["outcome"]})
        if row["variable"] == "latency":
            one.update(outcome=row["outcome"], latency_ms=row["latency_ms"], spread=row["spread"], steps=row["steps"])
        else:
            one.update(tensors_bytes=row["mem_alloc_bytes"], reserved_bytes=row["mem_reserved_bytes"], used_bytes=row["mem_used_bytes"])
    return [Measurement(batch, **answer) for batch, answer in sorted(found.items())]


def _place(module: Any, device: Optional[str]) -> "Tuple[str, int]":
    """The kind of device, and which GPU."""
    found = next((weight.device for weight in module.parameters() if weight.is_cuda), None)
    if device is None:
        return ("cuda", found.index or 0) if found is not None else ("cpu", 0)
    kind, _, index = str(device).partition(":")
    if index and not index.isdecimal():
        raise Error("device = %r\n  expected: \"cpu\", \"cuda\" or a GPU of several, such as \"cuda:1\"" % (device,))
    return kind, int(index or 0)
