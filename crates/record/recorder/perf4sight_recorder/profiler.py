"""PyTorch's profiler as it records here: started and stopped several times, and never while the script's own runs."""

import contextlib
import os
import threading
import time
import warnings

from perf4sight_recorder import calls, late, operators, ranges, trace


class Profiler(object):
    """Records; each part is stored in the folder `scratch` until it is written. `shapes` is asked at each start: whether to record the shapes of
    what operators read."""

    def __init__(self, stacks, shapes, scratch):
        self.stacks = stacks
        self.shapes = shapes
        self.scratch = scratch
        self.pieces = []
        # Seconds in which what was recorded was written.
        self.writing = 0.0
        self.profiler = None
        # The calls of Python, recorded separately where the profiler does not record them.
        self.calls = calls.Calls()
        # The thread in which what starts and stops now is this one; another thread's is the script's.
        self.ours_in = None
        # Whether one of the script's own has been prepared or started, and not stopped.
        self.other = False

    @property
    def runs(self):
        return self.profiler is not None

    @property
    def ours(self):
        """Whether what starts and stops in this thread now is this one."""
        return self.ours_in == threading.get_ident()

    def meets_another(self):
        """Whether a profiler of the script's own runs."""
        return self.other or (not self.runs and profiler_runs())

    def start(self):
        import torch.profiler

        with self.quietly():
            # PyTorch 1.8 has no start() and stop().
            self.profiler = torch.profiler.profile(record_shapes=self.shapes(), with_stack=self.stacks and records_calls()).__enter__()
        if self.stacks and not has_kineto():
            self.calls.start()

    def stop(self, renamed):
        """Stops it, if it runs; some names of what it recorded are not what they became in the end."""
        if not self.runs:
            return
        begun = time.time()
        with late.signals():
            stopped = self.halt()
            piece = trace.Piece(os.path.join(self.scratch, "%d.%d.trace.json" % (os.getpid(), len(self.pieces))), renamed)
            with self.quietly():
                self.export(stopped, piece.path)
            self.pieces.append(piece)
        self.writing += time.time() - begun

    def halt(self):
        """Stops it; gives what knows what it recorded. It runs until it has stopped, for another one waits for that."""
        stopped = self.profiler
        self.calls.stop()
        try:
            with self.quietly(), ranges.interrupted():
                stopped.__exit__(None, None, None)
        finally:
            self.profiler = None
        return stopped

    def export(self, stopped, path):
        """Writes what was recorded."""
        if has_kineto():
            stopped.export_chrome_trace(path)
        else:
            operators.export(stopped, self.calls.take(), path)

    def wait_until_it_rests(self, seconds):
        """Waits until another thread has stopped it."""
        until = time.time() + seconds
        while self.runs and time.time() < until:
            time.sleep(0.01)

    def forget(self):
        """Throws away what was recorded until now."""
        for piece in self.pieces:
            piece.remove()
        self.pieces = []

    @contextlib.contextmanager
    def quietly(self):
        """What it warns of is its own business: the script's output stays as it is."""
        self.ours_in = threading.get_ident()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            self.ours_in = None


def profiler_runs():
    """Whether some profiler of PyTorch runs in this thread."""
    from torch import autograd

    enabled = getattr(autograd, "_profiler_enabled", None)
    return enabled is not None and bool(enabled())


def has_kineto():
    """Whether the profiler records GPUs and Python, as Kineto does; without Kineto, operators and ranges alone."""
    import torch

    return bool(torch.autograd.kineto_available())


def records_calls():
    """Whether the profiler records calls of Python: before 1.12 Kineto attaches them to operators, where nobody reads them, which fills
    gigabytes (1.8) or ends the process (1.11 in Python 3.10)."""
    import torch

    return has_kineto() and tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (1, 12)
