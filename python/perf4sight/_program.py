"""The program `perf4sight`, asked for JSON: everything that this package answers comes from it."""
from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from typing import Any

from ._errors import Error, ProgramError

NAME = "perf4sight"


def program() -> str:
    """The program that was installed with this package, else the one on the path."""
    try:
        files = importlib.metadata.files(NAME) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    installed = [str(file.locate()) for file in files if file.name == NAME and file.parent.name == "bin"]
    sibling = os.path.join(os.path.dirname(sys.executable), NAME)
    found = [path for path in [*installed, sibling] if os.path.isfile(path)]
    path = found[0] if found else shutil.which(NAME)
    if path is None:
        raise Error("the program perf4sight is not there\n  help: install the package whole, with `pip install .`")
    return path


def ask(*words: str, known_as: "dict[str, str] | None" = None) -> Any:
    """What the program answers, as JSON.

    Raises `ProgramError` with the program's own words, in which temporary files are called what `known_as` says.
    """
    run = subprocess.run([program(), "--json", "--quiet", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    answer, reply = run.stdout, run.stderr
    for path, name in (known_as or {}).items():
        answer, reply = answer.replace(path, name), reply.replace(path, name)
    if run.returncode == 0:
        return json.loads(answer)
    if run.returncode in (130, -2):
        raise KeyboardInterrupt
    raise ProgramError(_complaint(reply) or "perf4sight ended with %d" % run.returncode, run.returncode)


def _complaint(reply: str) -> str:
    """The error, without the warnings before it and what it says about command lines."""
    error = reply.rpartition("error: ")[2]
    for mark in ("\n\nUsage:", "\n\n  tip: to pass", "\n\nFor more information"):
        error = error.partition(mark)[0]
    return error.strip()
