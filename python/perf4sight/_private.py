"""A folder for as long as it is needed: whoever starts perf4sight takes away those whose lock nobody holds (private_folder.rs)."""
from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from typing import Iterator, Optional


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """A new folder that nobody else can look into, and that no other program takes for left behind."""
    own, lock = None, None
    while lock is None:
        own = tempfile.TemporaryDirectory(prefix="perf4sight.")
        lock = _held(own.name)
    try:
        with own:
            yield own.name
    finally:
        os.close(lock)


def _held(path: str) -> Optional[int]:
    """The lock of a folder; none where another program found it before, and takes it away."""
    try:
        lock = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.exists(path):
            return lock
    os.close(lock)
    return None
