"""What is answered, as data: memory in bytes, time in milliseconds."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from . import _checking
from . import _tables as tables
from ._network import Network
from ._tables import Shown, Table


@dataclass(frozen=True)
class Share:
    """A part of a step: a component of its memory in bytes, or a class of operations or a layer in milliseconds; `share` of 1."""

    name: str
    amount: float
    share: float


@dataclass(frozen=True)
class Point:
    """What is predicted of one batch size; each `low` and `high` are the ends of an interval that holds 90 % of measurements.

    `tensors_bytes` is what is alive at once at the peak (between `tensors_low_bytes` and `tensors_high_bytes` where a file does not tell what its
    module keeps), `memory_bytes` all that a step uses, `need_bytes` what of it must fit, `verdict` one of
    `fits`, `borderline` and `does not fit`, `fits_probability` how sure that is. What a fingerprint does not know is None.
    """

    batch: int
    latency_ms: Optional[float]
    latency_low_ms: Optional[float]
    latency_high_ms: Optional[float]
    memory_bytes: Optional[int]
    memory_low_bytes: Optional[int]
    memory_high_bytes: Optional[int]
    tensors_bytes: Optional[int]
    tensors_low_bytes: Optional[int]
    tensors_high_bytes: Optional[int]
    need_bytes: Optional[int]
    samples_per_s: Optional[float]
    verdict: Optional[str]
    fits_probability: Optional[float]

    @classmethod
    def _from(cls, row: Mapping[str, Any]) -> "Point":
        own = {name: row.get(name) for name in cls.__dataclass_fields__ if name not in ("batch", "samples_per_s")}
        return cls(batch=row["bs"], samples_per_s=row.get("throughput_per_s"), **own)


@dataclass(frozen=True)
class Prediction(Shown):
    """What a step of a network costs on one device, for one batch size or several.

    `answer` says it in a sentence, `step` what the step does otherwise than the published one, `limit_bytes` what it must fit into,
    `safe_batch` the largest batch that is 95 % sure to. `unlike` names what sets the network apart from those that were profiled; where `prior` is
    true nothing was measured on the device. `components` is memory at the peak of the largest batch, `classes` and `layers` its time.
    """

    network: str
    device: str
    stage: str
    step: str
    answer: str
    points: Tuple[Point, ...]
    limit_bytes: Optional[int]
    safe_batch: Optional[int]
    likely_batch: Optional[int]
    prior: bool
    unlike: Tuple[str, ...]
    warnings: Tuple[str, ...]
    components: Tuple[Share, ...] = ()
    classes: Tuple[Share, ...] = ()
    layers: Tuple[Share, ...] = ()

    def at(self, batch: int) -> Point:
        """The point of that batch size; Error where it was not asked about."""
        return _checking.found("batch size", batch, {point.batch: point for point in self.points})

    @property
    def fits(self) -> bool:
        """Whether every batch size that was asked about is at least 90 % sure to fit."""
        return all(point.verdict == "fits" for point in self.points)

    @classmethod
    def _from(cls, name: str, device: Mapping[str, Any], warnings: Sequence[str]) -> "Prediction":
        network = device["networks"][0]
        parts = (network.get("breakdown") or {}).get("by", {})
        limit, largest = network["limit"] or {}, network["max_batch"] or {}
        return cls(
            network=name, device=device["device"], stage=device["stage"], step=device["step"], answer=network["answer"],
            points=tuple(map(Point._from, network["predictions"])), limit_bytes=limit.get("bytes"), safe_batch=largest.get("safe"),
            likely_batch=largest.get("likely"), prior=any(one["prior"] for one in device["fingerprints"].values()),
            unlike=tuple(network["unlike"]), warnings=tuple(warnings), components=_shares(parts, "component", "memory_bytes"),
            classes=_shares(parts, "class", "latency_ms"), layers=_shares(parts, "layer", "latency_ms"))

    def _sentence(self) -> str:
        return self.answer

    def _tables(self) -> List[Table]:
        title = "%s of %s on %s%s" % (self.stage, self.network, self.device, ": a prior" if self.prior else "")
        heads = ("batch size", "tensors", "memory", "90 %", "latency", "90 %", "verdict")
        rows = tuple((
            str(one.batch), tables.memory(one.tensors_bytes), tables.memory(one.memory_bytes),
            tables.ends(one.memory_low_bytes, one.memory_high_bytes, tables.memory), tables.time(one.latency_ms),
            tables.ends(one.latency_low_ms, one.latency_high_ms, tables.time), tables.verdict(one.verdict, one.fits_probability)) for one in self.points)
        largest = max(one.batch for one in self.points)
        parts = [
            _parts("memory at its peak, batch size %d" % largest, "component", self.components, tables.memory),
            _parts("latency by class of operation, batch size %d" % largest, "class", self.classes, tables.time),
            _parts("the costliest layers, batch size %d" % largest, "layer", self.layers, tables.time)]
        return [Table(title, heads, rows), *(part for part in parts if part.rows)]

    def _remarks(self) -> Sequence[str]:
        step = ["step: %s" % self.step] if self.step != "published" else []
        largest = ["the largest safe batch is %d" % self.safe_batch] if self.safe_batch is not None else []
        unlike = ["unlike what was profiled: %s" % "; ".join(self.unlike)] if self.unlike else []
        return [*step, *largest, *unlike, *("warning: %s" % warning for warning in self.warnings)]


@dataclass(frozen=True)
class Devices(Shown):
    """What a step of one network costs on several devices."""

    predictions: Tuple[Prediction, ...]

    def on(self, device: str) -> Prediction:
        """Of the device of that name; Error where it was not asked about."""
        return _checking.found("device", device, {one.device: one for one in self.predictions})

    def _tables(self) -> List[Table]:
        heads = ("device", "batch size", "tensors", "memory up to", "latency", "verdict", "safe batch")
        rows = tuple((
            one.device, str(point.batch), tables.memory(point.tensors_bytes), tables.memory(point.memory_high_bytes),
            tables.ends(point.latency_low_ms, point.latency_high_ms, tables.time), tables.verdict(point.verdict, point.fits_probability),
            "–" if one.safe_batch is None else str(one.safe_batch)) for one in self.predictions for point in one.points)
        first = self.predictions[0]
        return [Table("%s of %s: a prior of every device" % (first.stage, first.network), heads, rows)]


@dataclass(frozen=True)
class MemoryEstimate(Shown):
    """What a step of a network needs of memory, simulated.

    `tensors_bytes` is what is alive at once at the peak, as PyTorch's own counters have it, between `tensors_low_bytes` and `tensors_high_bytes` where steps differ or
    a file does not tell what its module keeps; all that the process or device uses should lie
    between `low_bytes` and `high_bytes`, nine times in ten. `components` says what it is made of.
    """

    network: str
    target: str
    stage: str
    step: str
    batch: int
    tensors_bytes: int
    tensors_low_bytes: int
    tensors_high_bytes: int
    low_bytes: int
    high_bytes: int
    components: Tuple[Share, ...]
    warnings: Tuple[str, ...]
    _network: Network = field(repr=False, compare=False)
    _words: Tuple[str, ...] = field(repr=False, compare=False)

    def fits(self, limit: "str | int") -> bool:
        """Whether the step is at least 90 % sure to fit into that memory, such as `"8GiB"` or a number of bytes."""
        return self.limited(limit).fits

    def largest_batch(self, limit: "str | int") -> int:
        """The largest batch that is 95 % sure to fit into that memory; 0 where none does."""
        return self.limited(limit).safe_batch or 0

    def limited(self, limit: "str | int") -> Prediction:
        """All that is predicted of the step where it must fit into that memory."""
        reply = self._network.ask("predict", *self._words, "--mem-limit=%s" % _checking.memory(limit))
        return Prediction._from(self.network, reply, [*self._network.warnings, *reply["warnings"]])

    def _sentence(self) -> str:
        is_open = self.tensors_low_bytes < self.tensors_high_bytes
        between = " (%s)" % tables.ends(self.tensors_low_bytes, self.tensors_high_bytes, tables.memory) if is_open else ""
        return "%s of %s at batch size %d needs %s for its tensors%s, %s in all" % (
            self.stage, self.network, self.batch, tables.memory(self.tensors_bytes), between, tables.ends(self.low_bytes, self.high_bytes, tables.memory))

    def _tables(self) -> List[Table]:
        return [_parts("memory at its peak", "component", self.components, tables.memory)] if self.components else []

    def _remarks(self) -> Sequence[str]:
        step = ["step: %s" % self.step] if self.step != "published" else []
        freed = self.stage == "training" and "--holds-outputs" not in self._words
        outputs = ["outputs are freed when the loss is known; holds_outputs=True counts them for a loop that keeps them"] if freed else []
        return ["simulated for %s" % self.target, *step, *outputs, *("warning: %s" % warning for warning in self.warnings)]


def _shares(parts: Mapping[str, Sequence[Mapping[str, Any]]], kind: str, unit: str) -> Tuple[Share, ...]:
    return tuple(Share(str(part[kind]), part[unit], (part["share_percent"] or 0.0) / 100.0) for part in parts.get(kind, ()))


def _parts(title: str, kind: str, shares: Sequence[Share], show: Any) -> Table:
    rows = tuple((one.name, show(one.amount), "%.1f %%" % (100 * one.share)) for one in shares)
    return Table(title, (kind, "amount", "share"), rows)
