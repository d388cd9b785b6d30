"""The program `perf4sight`, asked for JSON: everything that this package answers comes from it."""
from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import threading
from typing import Any, Callable

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


def ask(*words: str, known_as: "dict[str, str] | None" = None, progress: "str | None" = None) -> Any:
    """What the program answers, as JSON. What it says of the `progress` of a verb goes on to `sys.stderr`.

    Raises `ProgramError` with the program's own words, in which temporary files are called what `known_as` says.
    """
    told = [] if progress else ["--quiet"]

    def renamed(text: str) -> str:
        for path, name in (known_as or {}).items():
            text = text.replace(path, name)
        return text

    with _Listener(progress, renamed) as listener:
        run = subprocess.run([program(), "--json", *told, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=listener.write, text=True)
    if run.returncode == 0:
        return json.loads(renamed(run.stdout))
    if run.returncode in (130, -2):
        raise KeyboardInterrupt
    raise ProgramError(_complaint("".join(listener.lines)) or "perf4sight ended with %d" % run.returncode, run.returncode)


class _Listener:
    """Reads what a process writes to `write` while it runs."""

    def __init__(self, progress: "str | None", renamed: "Callable[[str], str]") -> None:
        self.read, self.write = os.pipe()
        self.progress, self.renamed = progress, renamed
        self.lines: "list[str]" = []
        self.thread = threading.Thread(target=self.listen, daemon=True)

    def __enter__(self) -> "_Listener":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.write)
        # A worker that outlives the program may hold the other end.
        self.thread.join(timeout=10)

    def listen(self) -> None:
        with open(self.read, errors="replace") as told:
            for line in told:
                self.lines.append(self.renamed(line))
                if self.progress and line.startswith(self.progress + ": "):
                    sys.stderr.write(self.lines[-1])


def _complaint(reply: str) -> str:
    """The error, without the warnings before it and what it says about command lines."""
    error = reply.rpartition("error: ")[2]
    for mark in ("\n\nUsage:", "\n\n  tip: to pass", "\n\nFor more information"):
        error = error.partition(mark)[0]
    return error.strip()
