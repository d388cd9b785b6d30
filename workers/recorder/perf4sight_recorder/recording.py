"""Iterations one after another: a warm-up, some that are timed, some that are recorded, some that are timed again."""

import gzip
import os
import shutil
import threading
import time
import warnings

TIMED = ("plain_before", "recorded", "plain_after")
"""The phases whose iterations are timed."""

COMPRESSION = 5
"""gzip's default, 9, takes several times as long on these files and saves a few percent."""


SETTLING = 5
"""Iterations that count for nothing after the profiler was started or stopped: an MLP of 0.1 ms takes three times as long in the first,
and as long as ever from the sixth on. A number and no time, for all ranks must do the same."""


class Recording(object):
    """Counts iterations; the profiler runs in some of them. What it does itself lies between two iterations."""

    def __init__(self, settings, tell):
        asked = settings["iterations"]
        before = (asked + 1) // 2
        # Each with the iterations that lead to it, and those that are timed.
        self.phases = [("plain_before", settings["warm_up"], before), ("recorded", SETTLING, asked)]
        self.phases += [("plain_after", SETTLING, asked - before)] if asked > before else []
        self.stacks = settings["stacks"]
        self.tell = tell
        self.times = dict((phase, []) for phase in TIMED)
        self.worked = dict((phase, []) for phase in TIMED)
        self.profiler = None
        self.runs = False
        self.thread = None
        # Iterations that the script's own profiler ran in.
        self.others = 0
        self.annotation = None
        self.began = None
        self.worked_before = None
        self.over = False
        self.next_phase()

    def next_phase(self):
        self.over = not self.phases
        if self.over:
            return
        self.phase, lead, self.count = self.phases.pop(0)
        # Negative until the first one that is timed.
        self.done = -lead
        self.tell(self, now=True)

    def begin(self):
        """An iteration begins here, but where the script's own profiler runs: that is left alone, and would be timed with it."""
        if self.meets_another():
            return
        if self.phase == "recorded" and not self.runs:
            self.start()
        if self.runs and self.done >= 0:
            self.annotation = annotation(step_name(self.done))
        self.worked_before = time.process_time()
        self.began = time.perf_counter()

    def end(self):
        """The iteration that began, if one did, ends here."""
        if self.began is None or self.over:
            return
        if self.meets_another():
            self.began = None
            return
        if self.done + 1 in (0, self.count):
            synchronise()
        took = time.perf_counter() - self.began
        worked = time.process_time() - self.worked_before
        self.began = None
        if self.annotation is not None:
            self.annotation.__exit__(None, None, None)
            self.annotation = None
        if self.done >= 0:
            self.times[self.phase].append(nanoseconds(took))
            self.worked[self.phase].append(nanoseconds(worked))
        self.done += 1
        if self.done == self.count:
            self.stop()
            self.next_phase()
        else:
            self.tell(self)

    def runs_elsewhere(self):
        return self.runs and threading.get_ident() != self.thread

    def meets_another(self):
        if self.runs or not profiler_runs():
            return False
        self.others += 1
        self.tell(self)
        return True

    def start(self):
        import torch.profiler

        # What it warns of is its own business: the script's output stays as it is.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.profiler = torch.profiler.profile(with_stack=self.stacks)
            self.profiler.start()
        self.thread = threading.get_ident()
        self.runs = True

    def stop(self):
        """Ends the recording, wherever it is."""
        if self.runs:
            self.runs = False
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.profiler.stop()

    def has_recorded(self):
        return bool(self.times["recorded"])

    def write(self, path, scratch):
        """Writes the trace, compressed; in between all of it lies in the folder `scratch`."""
        # PyTorch would compress by way of the system's temporary folder.
        plain = os.path.join(scratch, "%d.trace.json" % os.getpid())
        self.profiler.export_chrome_trace(plain)
        unfinished = plain + ".gz"
        with open(plain, "rb") as source, gzip.open(unfinished, "wb", COMPRESSION) as target:
            if self.annotation is None:
                shutil.copyfileobj(source, target, 1 << 20)
            else:
                target.writelines(self.without_torn(source))
        os.remove(plain)
        os.replace(unfinished, path)


    def without_torn(self, lines):
        """The lines of a trace that ends within an iteration, which the profiler ends there too: it is none."""
        name = ('"%s"' % step_name(self.done)).encode()
        for line in lines:
            yield line.replace(name, b'"torn iteration"')


def profiler_runs():
    """Whether some profiler of PyTorch runs in this thread."""
    from torch import autograd

    enabled = getattr(autograd, "_profiler_enabled", None)
    return enabled is not None and bool(enabled())


def nanoseconds(seconds):
    return int(round(seconds * 1e9))


def step_name(number):
    """What an iteration is called in a trace, as PyTorch's own schedules call it."""
    return "ProfilerStep#%d" % number


def annotation(name):
    """Names what is recorded from here to its `__exit__`."""
    from torch.autograd.profiler import record_function

    return record_function(name).__enter__()


def synchronise():
    """Waits for the GPU, so that the iterations of a phase together take what they take on it as well."""
    import torch

    for kind in ("cuda", "xpu"):
        device = getattr(torch, kind, None)
        if device is not None and device.is_initialized():
            device.synchronize()
