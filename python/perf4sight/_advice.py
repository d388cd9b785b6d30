"""What makes a step fit, and what each change costs."""
from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

from . import _asking, _checking, _network, _settings
from . import _tables as tables
from ._tables import Shown, Table


@dataclass(frozen=True)
class Way:
    """One way to take the step: what is changed, what it needs then and how long it takes.

    `change` says it in words, `changes` by the names of settings, `step` all that it does otherwise than the published step. `longer` is how much
    more time a sample takes than in the step that was asked about, as a share, negative where it is quicker; `learns_the_same` whether it changes
    the weights alike. `verdict` is one of `fits`, `borderline` and `does not fit`. The other numbers are those of a `Point`; what a
    fingerprint does not know is None.
    """

    change: str
    changes: Tuple[Tuple[str, str], ...]
    batch: int
    step: str
    memory_bytes: int
    memory_low_bytes: Optional[int]
    memory_high_bytes: Optional[int]
    need_bytes: int
    verdict: Optional[str]
    fits_probability: Optional[float]
    latency_ms: Optional[float]
    latency_low_ms: Optional[float]
    latency_high_ms: Optional[float]
    longer: Optional[float]
    learns_the_same: bool

    @classmethod
    def _from(cls, row: Mapping[str, Any]) -> "Way":
        other = ("changes", "batch", "longer", "learns_the_same")
        own = {name: row.get(name) for name in cls.__dataclass_fields__ if name not in other}
        longer = row["longer_percent"]
        return cls(
            changes=tuple(row["changes"].items()), batch=row["bs"], longer=None if longer is None else longer / 100,
            learns_the_same=row["learns"] == "the same", **own)


@dataclass(frozen=True)
class Advice(Shown):
    """Which ways to take a step fit, those first that learn the same, and of these the quickest.

    `answer` says it in sentences. `asked` is the step as it was asked about, `fitting` what fits and changes no more than that takes, `nearest`
    what comes nearest where nothing fits, `single` every change by itself, and `helps_most` those that save most memory: of the changes that learn
    the same, and of the others. Where `prior` is true nothing was measured on the device.
    """

    network: str
    device: str
    answer: str
    limit_bytes: Optional[int]
    prior: bool
    asked: Way
    fitting: Tuple[Way, ...]
    nearest: Optional[Way]
    single: Tuple[Way, ...]
    helps_most: Tuple[Way, ...]
    remarks: Tuple[str, ...]
    warnings: Tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether the step is at least 90 % sure to fit as it was asked about."""
        return self.asked.verdict == "fits"

    @classmethod
    def _from(cls, network: _network.Network, reply: Mapping[str, Any]) -> "Advice":
        kinds = ("learns_the_same", "learns_otherwise")
        helps = [reply["helps_most"][kind] for kind in kinds]
        return cls(
            network=network.name, device=reply["device"], answer="\n".join(reply["answer"]), limit_bytes=reply["limit_bytes"], prior=reply["prior"],
            asked=Way._from(reply["asked"]), fitting=tuple(Way._from(row) for kind in kinds for row in reply["fits"][kind]),
            nearest=Way._from(reply["nearest"]) if reply["nearest"] else None, single=tuple(map(Way._from, reply["single"])),
            helps_most=tuple(Way._from(row) for row in helps if row), remarks=tuple(reply["remarks"]),
            warnings=(*network.warnings, *reply["warnings"]))

    def _sentence(self) -> str:
        return self.answer

    def _tables(self) -> List[Table]:
        same, other = ([way for way in self.fitting if way.learns_the_same == same] for same in (True, False))
        unsure = self.nearest is not None and self.nearest.verdict == "borderline"
        kinds = [
            ("fits, and learns the same", same), ("fits, but learns otherwise", other),
            ("not sure to fit, but needs the least" if unsure else "does not fit, but needs the least", [self.nearest] if self.nearest else []),
            ("every change by itself", sorted([self.asked, *self.single], key=lambda way: way.need_bytes))]
        return [_ways(title, ways) for title, ways in kinds if ways]

    def _remarks(self) -> Sequence[str]:
        return [*self.remarks, *("warning: %s" % warning for warning in self.warnings)]


def advise(
    model: Any,
    inputs: Any,
    *,
    fingerprint: "Union[str, os.PathLike[str], None]" = None,
    target: "Union[str, os.PathLike[str], None]" = None,
    mem_limit: Union[str, int, None] = None,
    batch: Optional[int] = None,
    stage: str = "training",
    optimizer: Any = None,
    name: Optional[str] = None,
    **settings: Any,
) -> Advice:
    """Which changes make a step of `model` fit into `mem_limit`, and what each costs in time and memory.

    `batch` is how many samples the step has, by default those of `inputs`; the other arguments are those of `predict`, of one device.

    Raises as `predict` does.
    """
    asked, limited = _asking.source("advise", fingerprint, target), _asking.limit(mem_limit)
    batch = None if batch is None else _checking.whole("batch", batch)
    _checking.settings(settings)
    module = _network.unwrapped(model)
    network = _network.read(module, inputs, stage, name)
    step = _settings.of(module, stage, optimizer, settings)
    batch = network.batch if batch is None else batch
    network = network.following(module, inputs, stage, step, [batch])
    reply = network.ask("advise", *asked, *_asking.words(stage, step), "--batch=%d" % batch, *limited)
    return Advice._from(network, reply)


def _ways(title: str, ways: Sequence[Way]) -> Table:
    rows = tuple((
        way.change, tables.memory(way.memory_bytes), tables.ends(way.memory_low_bytes, way.memory_high_bytes, tables.memory),
        tables.verdict(way.verdict, way.fits_probability), tables.time(way.latency_ms), tables.ends(way.latency_low_ms, way.latency_high_ms, tables.time),
        "–" if way.longer is None else "%+.1f %%" % (100 * way.longer)) for way in ways)
    return Table(title, ("change", "memory", "90 %", "verdict", "a step", "90 %", "a sample"), rows)
