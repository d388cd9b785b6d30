"""A folder for as long as it is needed: whoever starts perf4sight takes away those whose lock nobody holds (temporary_folder.rs)."""
from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from typing import Iterator

# What marks such a folder, and what it says: only a folder with it is ever taken away.
MARK = ".perf4sight-temporary"
WORDS = "perf4sight made folder %d and removes it when no process holds it any more.\n"


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """A new folder that nobody else can look into, and that no other program takes for left behind."""
    own = tempfile.TemporaryDirectory(prefix="perf4sight.")
    lock = os.open(own.name, os.O_RDONLY)
    try:
        with own:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with open(os.path.join(own.name, MARK), "w") as mark:
                mark.write(WORDS % os.fstat(lock).st_ino)
            yield own.name
    finally:
        os.close(lock)
