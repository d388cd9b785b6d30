"""The recorder of a process: told where iterations end, it records some of them and ends the script."""

import atexit
import os
import threading
import time

from perf4sight_recorder import account, marks
from perf4sight_recorder.recording import Recording

OTHERS = 30.0
"""Seconds to wait for the other ranks before the script is ended: who leaves earlier takes connections away that they use."""

_current = None


def of_process(told):
    """The recorder of this process, made at the first call."""
    global _current
    if _current is None:
        _current = Recorder(told)
    return _current


def current():
    """The recorder of this process; none where nothing is recorded. `Profiler` calls may come before PyTorch does."""
    if _current is None and account.SETTINGS in os.environ:
        return of_process(account.Account.of_process())
    return _current


class Recorder(object):
    def __init__(self, told):
        self.told = told
        self.hooked = []
        self.enter_process()

    def enter_process(self):
        self.process = os.getpid()
        self.marks = marks.Marks()
        self.restarts = -1
        self.recording = None
        self.over = False

    def torch_is_here(self, hooked):
        import torch

        self.told.tell(torch=str(torch.__version__), hooked=hooked)
        # After those of PyTorch, and so run before them.
        atexit.register(self.leave_early)

    # What is heard.

    def stepped(self, optimizer):
        """An optimizer made a step."""
        self.mark(marks.STEPS, id(optimizer))

    def fetched(self):
        """A DataLoader is asked for a batch."""
        self.mark(marks.BATCHES)

    def announce_calls(self):
        """A `Profiler` was made: only its calls count."""
        if self.is_on():
            self.counts(marks.CALLS)

    def begin_call(self):
        """`enable_profiling`"""
        if self.is_on() and self.counts(marks.CALLS):
            self.guarded(self.recording.begin)

    def end_call(self):
        """`disable_profiling`"""
        if self.is_on() and self.recording is not None:
            self.guarded(self.recording.end)
        self.leave_if_over()

    def mark(self, kind, which=None):
        """An iteration ends here and the next one begins."""
        if self.is_on() and self.counts(kind, which):
            self.guarded(self.recording.end)
            if not self.over:
                self.guarded(self.recording.begin)
        self.leave_if_over()

    def is_on(self):
        """Whether iterations of this process count. In a fork all begins anew, if it is no DataLoader's worker."""
        if os.getpid() != self.process and not is_loader_worker():
            self.enter_process()
        return not self.over and os.getpid() == self.process

    def counts(self, kind, which=None):
        counts, first = self.marks.heard(kind, which)
        if first:
            if self.recording is not None:
                self.guarded(self.recording.stop)
            self.restarts += 1
            self.told.tell(iterations_are=marks.NAMES[kind], restarts=self.restarts)
            self.recording = Recording(self.told.settings, self.tell_phase)
        return counts and not self.over

    # What comes of it.

    def guarded(self, act):
        """Does something that must not fail in the script: a failure ends the recording."""
        try:
            act()
            if self.recording.over:
                self.finish("as asked")
        except Exception as problem:
            self.over = True
            self.told.tell(phase="finished", problem="%s: %s" % (type(problem).__name__, problem))

    def tell_phase(self, recording, now=False):
        if now:
            self.told.tell(phase=recording.phase, done=recording.done, of=recording.count)
        else:
            self.told.tell_progress(recording.done)

    def finish(self, ended):
        """Writes what was recorded and timed."""
        self.over = True
        self.recording.stop()
        if self.recording.has_recorded():
            self.told.tell(phase="writing")
            self.write(ended)
        self.told.tell(phase="finished")

    def write(self, ended):
        rank, ranks = place()
        name = self.told.claim(rank)
        self.recording.write(self.told.path(name + ".json.gz"), self.told.settings["told"])
        words = dict((word, self.told.words.get(word)) for word in ("torch", "hooked", "iterations_are", "restarts"))
        words.update(self.recording.times, format=account.FORMAT, trace=name + ".json.gz", rank=rank, ranks=ranks)
        words.update(account.software(), ended=ended, stacks=self.told.settings["stacks"])
        words.update(asked=self.told.settings["iterations"], warm_up=self.told.settings["warm_up"])
        account.save(self.told.path(name + ".recording.json"), words)
        self.told.tell(trace=name + ".json.gz", recorded=len(self.recording.times["recorded"]))

    def leave_if_over(self):
        """Ends the script as `sys.exit()` does. In another thread that would end the thread alone: `perf4sight record` then does it."""
        if not self.over or os.getpid() != self.process:
            return
        self.told.wait_for_others(place()[1], OTHERS)
        if threading.current_thread() is threading.main_thread():
            raise SystemExit(0)

    def leave_early(self):
        """The script ends by itself: what was recorded until now is kept."""
        if self.recording is not None and self.is_on():
            self.guarded(lambda: self.finish("by itself"))


def is_loader_worker():
    from torch.utils.data import get_worker_info

    return get_worker_info() is not None


def place():
    """Which rank this process is, and of how many: as `torchrun` says, or the process group, or alone."""
    from torch import distributed

    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1
