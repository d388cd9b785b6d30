"""The recorder of a process: notified where iterations end, it records some of them and ends the script."""

import atexit
import os
import sys
import threading
import time

from perf4sight_recorder import account, late, marks, pace, trace
from perf4sight_recorder.profiler import Profiler, has_kineto, records_calls
from perf4sight_recorder.recording import Recording, delayed

OTHERS = 30.0
"""Seconds without news of the other ranks, and of other processes that are recorded, after which the script is ended without them: who
leaves earlier takes connections away that they use, or them along."""

PATIENCE = 5.0
"""Seconds to wait until the recorded iteration of another thread ends, where the script starts a profiler of its own."""

_current = None


def current():
    """The recorder of this process, made at the first call; none where nothing is recorded."""
    global _current
    if _current is None and account.SETTINGS in os.environ:
        _current = Recorder(account.Account.of_process())
    elif _current is None and pace.STEPS in os.environ:
        _current = pace.Pace(os.environ[pace.STEPS])
    return _current


class Recorder(object):
    def __init__(self, account):
        self.account = account
        self.enter_process()

    def enter_process(self):
        self.process = os.getpid()
        self.account.enter_process()
        self.marks = marks.Marks()
        # The most batches that a DataLoader may have made before they are requested.
        self.ahead = 0
        self.restarts = -1
        self.recording = None
        # Of several ranks, `perf4sight replay` asks for the sizes of gradients.
        self.profiler = Profiler(self.account.settings["stacks"], lambda: place()[1] > 1, self.account.settings["reports"])
        self.ranks = 1
        self.over = False
        self.waited = False
        # Marks of several threads come one after another; a step within a step of the same thread is no reason to wait.
        self.turn = threading.RLock()

    def torch_is_here(self, hooked):
        import torch

        self.account.report(torch=str(torch.__version__), hooked=hooked)
        # After those of PyTorch, and so run before them.
        atexit.register(self.end_early)

    # Events.

    def stepped(self, optimizer):
        """An optimizer made a step."""
        self.mark(marks.STEPS, optimizer)

    def fetched(self, ahead):
        """A batch is requested from a DataLoader, and may have made so many already. Later ones, as of an evaluation, may be of one rank alone, where
        all have to record the same iterations."""
        if self.recording is None or self.recording.warms_up:
            self.ahead = max(self.ahead, ahead)
        self.mark(marks.BATCHES)

    def mark(self, kind, which=None):
        """An iteration ends here and the next one begins."""
        self.act(kind, which, [Recording.end, Recording.begin])

    def announce_calls(self):
        """A `Profiler` was made: only its calls count."""
        self.act(marks.CALLS, None, [])

    def begin_call(self):
        """`enable_profiling`"""
        self.act(marks.CALLS, None, [Recording.begin])

    def end_call(self):
        """`disable_profiling`"""
        self.act(marks.CALLS, None, [Recording.end])

    def another_profiler(self, starts):
        """The script starts a profiler of its own, or stops it."""
        if self.profiler.ours:
            return
        self.profiler.other = starts
        try:
            if starts and self.recording is not None and self.is_on():
                with self.turn:
                    self.recording.give_way()
                self.profiler.wait_until_it_rests(PATIENCE)
        except Exception as problem:
            self.give_up("the profiler cannot be stopped for the script's own", problem)

    # What comes of it.

    def act(self, kind, which, acts):
        """Does what a mark asks for, if it counts. Nothing that fails here fails in the script: it ends the recording."""
        try:
            if self.is_on():
                with self.turn:
                    self.act_in_turn(kind, which, acts)
        except Exception as problem:
            self.give_up("the recorder failed", problem)
        self.leave_if_over()

    def act_in_turn(self, kind, which, acts):
        # PyTorch's profiler is stopped in the thread that started it: while it runs, no other one counts.
        if self.over or (self.recording is not None and self.recording.runs_elsewhere()):
            return
        mark = self.counts(kind, which)
        if mark == marks.IGNORED:
            return
        # Marks before this one did not count, so that no iteration ends here.
        for act in acts if mark != marks.RESUMES else [Recording.drop, Recording.begin]:
            if not self.recording.over:
                act(self.recording)
        if self.recording.over:
            self.finish("as asked")

    def is_on(self):
        """Whether iterations of this process count. In a fork all begins anew, if it is not a DataLoader's worker; what ran at the fork
        runs in it too."""
        if os.getpid() != self.process and not marks.is_loader_worker():
            if self.profiler.runs:
                self.profiler.halt()
            self.enter_process()
            at_end_of_child(self.end_early)
        return not self.over and os.getpid() == self.process

    def counts(self, kind, which):
        mark = self.marks.add(kind, which)
        if mark == marks.ANEW:
            if self.recording is not None:
                self.recording.stop()
                self.profiler.forget()
            self.restarts += 1
            self.recording = Recording(self.account.settings, self.profiler, lambda: self.ahead, self.report_progress)
            self.account.report(iterations_are=self.marks.name(), restarts=self.restarts, phase="warm_up",
                           to_go=self.recording.settling, before_recorded=self.recording.before_recorded, of=self.recording.all)
        return mark

    def report_progress(self, recording, at_once=False):
        phase = "writing" if recording.writes else "warm_up" if recording.warms_up else "iterations"
        self.account.report_progress(at_once, phase=phase, to_go=recording.settling, done=recording.done,
                                recorded=recording.recorded(), own_profiler=recording.others)

    def finish(self, ended):
        """Writes what was recorded and timed."""
        with late.signals():
            self.over = True
            self.recording.stop()
            if self.recording.recorded():
                self.account.report(phase="writing")
                self.write(ended)
            self.account.report(phase="finished", done=self.recording.done, ended=self.recording.ended, own_profiler=self.recording.others)

    def write(self, ended):
        import torch

        rank, self.ranks = place()
        rank, name = self.account.claim(rank)
        words = dict((word, self.account.words.get(word)) for word in ("torch", "hooked", "iterations_are", "restarts"))
        words.update(self.recording.times, settled=self.recording.settled, iterations_are=self.marks.name(), processor=self.recording.worked, faults=self.recording.faults)
        if delayed() is not None:
            words.update(delayed=self.recording.delays)
        words.update(thread=self.recording.own, python_threads=self.recording.python_threads)
        words.update(rivals=self.recording.rivals())
        words.update(format=account.FORMAT, trace=name + ".json.gz", rank=rank, ranks=self.ranks)
        words.update(account.software(), kineto=has_kineto(), ended=ended, stacks=self.account.settings["stacks"])
        # Without Kineto they are recorded separately.
        words.update(calls=self.account.settings["stacks"] and (records_calls() or not has_kineto()))
        words.update(threads=torch.get_num_threads(), boot=account.boot())
        words.update(asked=self.account.settings["iterations"], warm_up=self.account.settings["warm_up"])
        begun = time.time()
        trace.write(self.profiler.pieces, self.account.path(words["trace"]), self.account.folder(words["trace"]))
        account.save(self.account.path(name + ".recording.json"), words)
        self.account.report(trace=words["trace"], writing_seconds=self.profiler.writing + time.time() - begun)

    def give_up(self, what, problem):
        """Ends the recording for a reason that is reported to the user."""
        self.over = True
        self.account.make_room()
        try:
            self.account.report(phase="finished", problem="%s: %s: %s" % (what, type(problem).__name__, problem),
                           unwritten=isinstance(problem, OSError))
        except OSError:
            pass  # The folder is gone; `perf4sight record` finds no trace.

    def leave_if_over(self):
        """Ends the script as `sys.exit()` does. In another thread that would end the thread alone: `perf4sight record` then does it."""
        if not self.over or os.getpid() != self.process:
            return
        if not self.waited:
            self.waited = True
            self.account.wait_for_others(self.ranks, OTHERS)
        if threading.current_thread() is threading.main_thread():
            raise SystemExit(0)

    def end_early(self):
        """The script ends by itself: what was recorded until now is kept."""
        try:
            if self.recording is not None and self.is_on():
                self.finish("by itself")
        except Exception as problem:
            self.give_up("the recording cannot be written", problem)


def at_end_of_child(call):
    """Processes that `multiprocessing` forks end without what is registered with `atexit`."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, call, exitpriority=100)


def place():
    """Which rank this process is, and of how many: as `torchrun` says, or the process group, or none."""
    from torch import distributed

    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return None, 1
