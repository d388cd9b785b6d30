"""Tables of answers: as text, and as HTML for notebooks."""
from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Callable, List, Optional, Sequence, Tuple


@dataclass(frozen=True)
class Table:
    """Cells under headings; numbers stand to the right."""

    title: str
    columns: Tuple[str, ...]
    rows: Tuple[Tuple[str, ...], ...]

    def __str__(self) -> str:
        widths = [max(len(row[place]) for row in (self.columns, *self.rows)) for place in range(len(self.columns))]
        lines = [self.columns, tuple("─" * width for width in widths), *self.rows]
        return "\n".join([self.title, *("  ".join(self._placed(line, widths)).rstrip() for line in lines)])

    def _placed(self, line: Sequence[str], widths: List[int]) -> List[str]:
        numbers = self._numbers()
        return [cell.rjust(width) if number else cell.ljust(width) for cell, width, number in zip(line, widths, numbers)]

    def _numbers(self) -> List[bool]:
        def is_number(place: int) -> bool:
            cells = [row[place] for row in self.rows if row[place] not in ("", "–")]
            return bool(cells) and all(cell.lstrip("+-")[:1].isdigit() for cell in cells)
        return [is_number(place) for place in range(len(self.columns))]

    def html(self) -> str:
        def row(cells: Sequence[str], tag: str) -> str:
            sides = ["right" if number else "left" for number in self._numbers()]
            return "<tr>%s</tr>" % "".join(
                "<%s style='text-align:%s'>%s</%s>" % (tag, side, html.escape(cell), tag) for cell, side in zip(cells, sides))
        body = "".join(row(cells, "td") for cells in self.rows)
        return "<table><caption>%s</caption><thead>%s</thead><tbody>%s</tbody></table>" % (
            html.escape(self.title), row(self.columns, "th"), body)


class Shown:
    """What prints as a sentence, tables and remarks, in a notebook too."""

    def _sentence(self) -> str:
        return ""

    def _tables(self) -> List[Table]:
        raise NotImplementedError

    def _remarks(self) -> Sequence[str]:
        return ()

    def __str__(self) -> str:
        parts = [self._sentence(), *map(str, self._tables()), "\n".join(self._remarks())]
        return "\n\n".join(part for part in parts if part)

    def _repr_html_(self) -> str:
        answer = ["<p>%s</p>" % html.escape(line) for line in self._sentence().splitlines()]
        remarks = "".join("<li>%s</li>" % html.escape(line) for line in self._remarks())
        return "".join([*answer, *(table.html() for table in self._tables()), "<ul>%s</ul>" % remarks if remarks else ""])


def memory(value: Optional[float]) -> str:
    """Bytes for people: `224.7 MiB`."""
    if value is None:
        return "–"
    return "%.1f MiB" % (value / 2**20) if value < 10 * 2**30 else "%.1f GiB" % (value / 2**30)


def time(value: Optional[float]) -> str:
    """Milliseconds for people, to three digits."""
    if value is None:
        return "–"
    return "%.3g ms" % value if value < 1000 else "%.0f ms" % value


def ends(low: Optional[float], high: Optional[float], show: Callable[[Optional[float]], str]) -> str:
    """Both ends of an interval."""
    return "–" if low is None or high is None else "%s – %s" % (show(low), show(high))


def verdict(word: Optional[str], probability: Optional[float]) -> str:
    """Whether it fits, and how sure that is: of what does not fit, that it does not."""
    if word is None or probability is None:
        return word or "–"
    sure = 1.0 - probability if word == "does not fit" else probability
    return "%s (%s)" % (word, "> 99.9 %" if sure > 0.999 else "%.1f %%" % (100.0 * sure))
