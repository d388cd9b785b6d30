"""The progress of a process for `perf4sight sensitivity`: a line of JSON for each of its iterations, with the time it waited for data.

The marks are those that are recorded by: calls of a `Profiler`, else steps of an optimizer, else batches of a DataLoader.
"""

import functools
import json
import os
import threading
import time

from perf4sight_recorder import marks

STEPS = "PERF4SIGHT_STEPS"
"""The variable with the file that scripts append lines to by themselves; the lines from here go into files next to it, one for each process."""


class Pace(object):
    """Stands where the recorder stands, and records nothing. An error here ends the reports, not the script."""

    def __init__(self, path):
        self.path = path
        self.account = self
        self.enter_process()

    def enter_process(self):
        self.process = os.getpid()
        self.marks = marks.Marks()
        self.file = None
        self.number = 0
        # Seconds since the line before; None until a DataLoader gave a batch, because other waiting is not seen.
        self.waited = None
        self.over = False
        self.turn = threading.RLock()

    # What the watcher of imports and the hooks call.

    def torch_is_here(self, hooked):
        time_loaders(self.got)

    def report(self, **words):
        pass

    def give_up(self, what, problem):
        self.over = True

    def another_profiler(self, starts):
        """The script's own profiler is part of what it does."""

    def stepped(self, optimizer):
        self.mark(marks.STEPS, optimizer)

    def fetched(self, ahead):
        self.mark(marks.BATCHES)

    def announce_calls(self):
        self.add(marks.CALLS, None)

    def begin_call(self):
        self.add(marks.CALLS, None)

    def end_call(self):
        self.mark(marks.CALLS)

    def got(self, seconds):
        """A batch came after so long."""
        if os.getpid() == self.process:
            self.waited = (self.waited or 0.0) + seconds

    # What comes of it.

    def mark(self, kind, which=None):
        """An iteration ends here."""
        try:
            with self.turn:
                if self.add(kind, which):
                    self.write()
        except Exception:
            self.over = True

    def add(self, kind, which):
        """Whether a mark counts. In a fork all begins anew; a DataLoader's worker has no iterations."""
        if os.getpid() != self.process:
            if marks.is_loader_worker():
                return False
            self.enter_process()
        if self.over:
            return False
        mark = self.marks.add(kind, which)
        if mark == marks.ANEW and self.file is not None:
            # Marks until now were of another kind.
            self.file.seek(0)
            self.file.truncate()
            self.number = 0
        return mark != marks.IGNORED

    def write(self):
        if self.file is None:
            name = "hooked-%d.jsonl" % self.process
            self.file = open(os.path.join(os.path.dirname(self.path), name), "w")
        self.number += 1
        words = {"step": self.number, "time": time.perf_counter(), "rank": rank()}
        if self.waited is not None:
            words["wait"], self.waited = self.waited, 0.0
        self.file.write(json.dumps(words) + "\n")
        self.file.flush()


def rank():
    try:
        return int(os.environ.get("RANK", 0))
    except ValueError:
        return 0


def time_loaders(got):
    """Calls `got(seconds)` with the time that each batch of any DataLoader took to come."""
    from torch.utils.data import dataloader

    kind = dataloader._BaseDataLoaderIter
    fetch = kind.__next__

    @functools.wraps(fetch)
    def __next__(self):
        begun = time.perf_counter()
        try:
            return fetch(self)
        finally:
            got(time.perf_counter() - begun)

    kind.__next__ = __next__
