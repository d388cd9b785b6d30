"""PyTorch's profiler as it records here: started and stopped several times, and never while the script's own runs."""

import contextlib
import os
import time
import warnings

from perf4sight_recorder import late, trace


class Profiler(object):
    """Records, and what it recorded each time lies in the folder `scratch` until it is written."""

    def __init__(self, stacks, scratch):
        self.stacks = stacks
        self.scratch = scratch
        self.pieces = []
        self.profiler = None
        # Whether what starts and stops now is this one.
        self.ours = False
        # Whether one of the script's own has been prepared or started, and not stopped.
        self.other = False

    @property
    def runs(self):
        return self.profiler is not None

    @property
    def joins(self):
        """Whether what is recorded by and by can be put together: without Kineto a trace's clock begins with it."""
        return has_kineto()

    def meets_another(self):
        """Whether a profiler of the script's own runs."""
        return self.other or (not self.runs and profiler_runs())

    def start(self):
        import torch.profiler

        with self.quietly():
            # PyTorch 1.8 has no start() and stop().
            self.profiler = torch.profiler.profile(with_stack=self.stacks).__enter__()

    def stop(self, renamed):
        """Stops it, if it runs; some names of what it recorded are not what they became in the end."""
        if not self.runs:
            return
        with late.signals():
            stopped = self.halt()
            piece = trace.Piece(os.path.join(self.scratch, "%d.%d.trace.json" % (os.getpid(), len(self.pieces))), renamed)
            with self.quietly():
                stopped.export_chrome_trace(piece.path)
            self.pieces.append(piece)

    def halt(self):
        """Stops it; gives what knows what it recorded."""
        stopped, self.profiler = self.profiler, None
        with self.quietly():
            stopped.__exit__(None, None, None)
        return stopped

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
        self.ours = True
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            self.ours = False


def profiler_runs():
    """Whether some profiler of PyTorch runs in this thread."""
    from torch import autograd

    enabled = getattr(autograd, "_profiler_enabled", None)
    return enabled is not None and bool(enabled())


def has_kineto():
    """Whether the profiler tells of threads, GPUs and Python, as Kineto does; without it a trace has operators alone."""
    import torch

    return bool(torch.autograd.kineto_available())
