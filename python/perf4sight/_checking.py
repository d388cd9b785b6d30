"""What the functions of this package are called with, checked before anything runs; each refusal says what was expected."""
from __future__ import annotations

import math
import operator
import os
import re
from typing import Any, Iterable, List, Mapping, Optional, Tuple

from ._errors import Error

# The most samples and passes of a step, and the least memory, that the program takes.
MOST_SAMPLES, MOST_PASSES = 1_000_000, 65536
LEAST_MEMORY = 1 << 20
# What a step does, by the names of the program's options; the others are about what the program reads and writes.
SETTINGS = ("accumulate", "checkpoint", "frozen_normalisation", "loss", "precision", "trainable", "zero_grad")
AMOUNT = re.compile(r"\s*([0-9]+[.]?[0-9]*)\s*([KMGT]?)(i?)B\s*", re.IGNORECASE)
EXPECTED_MEMORY = "expected: at least 1 MiB (1048576 bytes): an amount with its unit, such as \"8GiB\", or a number of bytes"
# Which filters go first where a module is pruned.
MODES = ("l1", "random", "random_weighted")
# A network's name is that of a file, which most file systems give 255 bytes.
LONGEST_NAME = 200


def whole(name: str, value: Any, most: int = MOST_SAMPLES) -> int:
    """A whole number from 1 on."""
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if not 1 <= number <= most:
        raise Error("%s = %r\n  expected: a whole number from 1 to %d" % (name, value, most))
    return number


def batch_sizes(value: Any) -> Optional[List[int]]:
    """Batch sizes, one or several; None where none are asked for."""
    if value is None:
        return None
    is_one = isinstance(value, (str, bytes)) or not isinstance(value, Iterable) or getattr(value, "shape", None) == ()
    sizes = [whole("batch_sizes", one) for one in ([value] if is_one else value)]
    if not sizes:
        raise Error("batch_sizes = %r\n  expected: whole numbers from 1 to %d, or none at all for that of the inputs" % (value, MOST_SAMPLES))
    return sizes


def settings(given: Mapping[str, Any]) -> None:
    """Refuses keywords that are no settings of a step, such as options by which the program writes files."""
    for name, value in given.items():
        if name not in SETTINGS:
            raise Error("%s is not a setting of a step\n  expected: %s" % (name, ", ".join(SETTINGS)))
        if name == "accumulate" and value is not None:
            whole(name, int(value) if isinstance(value, str) and value.isdecimal() else value, MOST_PASSES)


def memory(value: Any) -> str:
    """An amount of memory in the program's words: what is no text with a unit is a number of bytes."""
    if isinstance(value, str):
        found = AMOUNT.fullmatch(value)
        size = float(found[1]) * (1024 if found[3] else 1000) ** " KMGT".index(found[2].upper() or " ") if found else LEAST_MEMORY
        answer = value
    else:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        size = value if is_number else 0
        answer = "%dB" % size
    if size < LEAST_MEMORY:
        raise Error("%r is not a limit of memory\n  %s" % (value, EXPECTED_MEMORY))
    return answer


def target(value: Any) -> str:
    """One kind of device: its name, or a file that describes it."""
    if not isinstance(value, (str, os.PathLike)):
        raise Error("target = %r\n  expected: the name of a kind of device, such as \"orin\", or a file that describes one" % (value,))
    return os.fspath(value)


def network_name(value: Any) -> Optional[str]:
    """What a network is called in answers."""
    if value is not None and not (isinstance(value, str) and len(os.fsencode(value)) <= LONGEST_NAME):
        raise Error("name = %r\n  expected: a text of up to %d bytes" % (value, LONGEST_NAME))
    return value


def share(value: Any) -> float:
    """The share of all parameters that goes."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value < 1:
        near = "\n  help: did you mean %g?" % (value / 100) if is_number and 1 < value < 100 else ""
        raise Error("level = %r\n  expected: the share of all parameters that goes, from 0 to below 1%s" % (value, near))
    return value


def mode(value: Any) -> str:
    """Which filters go first, in small or capital letters."""
    name = value.lower() if isinstance(value, str) else value
    if name not in MODES:
        raise Error("mode = %r\n  expected: %s" % (value, " or ".join(MODES)))
    return name


def patterns(value: Any) -> Tuple[str, ...]:
    """Patterns of names of layers; a text is one."""
    found = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (value,)
    if not all(isinstance(one, str) for one in found):
        raise Error("keep = %r\n  expected: patterns of names of layers, such as [\"encoder.*\"]" % (value,))
    return found


def found(kind: str, asked: Any, answers: Mapping[Any, Any]) -> Any:
    """The one of several answers that is asked for."""
    if asked not in answers:
        raise Error("there is no answer about %s %r\n  expected: %s" % (kind, asked, " or ".join(map(repr, answers))))
    return answers[asked]
