"""Iterations one after another: a warm-up, then some that are timed and some that are recorded, by turns."""

import random
import resource
import sys
import threading
import time

from perf4sight_recorder import rivals, trace

PLAIN, RECORDED = "plain", "recorded"
"""What is done with the iterations of a period."""

SETTLING = 5
"""Iterations that count for nothing after the profiler was started or stopped, for the first ones take longer. A number and no time, for all
ranks must do the same."""

MORE = 5
"""Up to so many more settle, a number that is drawn: what comes every so many iterations, such as an evaluation, would else be in no period at all where that
is as often as periods come (of 18 iterations, 4 were recorded and 4 plain)."""

LEAST, SEVERAL, MOST = 2, 5, 10
"""A recorded period has so many iterations at least; there are so many periods, and up to so many where each then has as many iterations
as there are. Between plain ones they meet what the machine does meanwhile as those do; but each costs those that settle, twice."""

TORN = "torn iteration"
"""What is called so in a trace is no iteration."""

PATIENCE, FEW = 200, 3
"""About so many iterations settle in all, if as few periods as this allow it."""


def until_caught_up(ahead):
    """How many iterations settle after a pause, in which a DataLoader's workers got up to so many batches ahead: iterations that take one in half of
    what making it takes have used them up after twice as many."""
    return max(SETTLING, 2 * ahead)


def turns(wanted, ahead):
    """The periods and their iterations: as many plain ones as recorded ones in all, the first and the last of them half as long."""
    affordable = max(FEW, PATIENCE // (SETTLING + until_caught_up(ahead)))
    periods = max(1, min(wanted // LEAST, max(SEVERAL, min(MOST, wanted // MOST)), affordable))
    # How many iterations there were at the end of each; plain ones end where the next recorded one is at its middle.
    recorded = [wanted * number // periods for number in range(periods + 1)]
    plain = [0] + [(begin + end + 1) // 2 for begin, end in zip(recorded, recorded[1:])] + [wanted]
    counts = []
    for number in range(periods):
        counts.append((PLAIN, plain[number + 1] - plain[number]))
        counts.append((RECORDED, recorded[number + 1] - recorded[number]))
    last = plain[-1] - plain[-2]
    return counts + ([(PLAIN, last)] if last else [])


class Recording(object):
    """Counts iterations; the profiler runs in some of them. Its own work is between two iterations."""

    def __init__(self, settings, profiler, ahead, report):
        self.turns = turns(settings["iterations"], ahead())
        self.profiler = profiler
        # How many batches may be ready before they are requested.
        self.ahead = ahead
        self.report = report
        self.all = sum(count for _, count in self.turns)
        # Of each period, by what is done in it.
        self.times = {PLAIN: [], RECORDED: []}
        self.worked = {PLAIN: [], RECORDED: []}
        self.faults = {PLAIN: [], RECORDED: []}
        self.delays = {PLAIN: [], RECORDED: []}
        self.own = {PLAIN: [], RECORDED: []}
        # Those that settled before each period: how often an iteration is long is known from these, too.
        self.settled = {PLAIN: [], RECORDED: []}
        # The same of all ranks.
        self.chance = random.Random(1)
        # The most other threads with Python functions at the end of a period.
        self.python_threads = 0
        self.done = 0
        # Those and the others.
        self.ended = 0
        # Iterations that the script's own profiler ran in.
        self.others = 0
        self.thread = None
        self.annotation = None
        # How many of the iterations that began in a trace were dropped, and what that changes in names of the current one.
        self.dropped = 0
        self.renamed = {}
        self.began = None
        self.used_before = None
        self.delayed_before = 0
        # What others had of the processors before the first iteration that counts, and at the end of the last period.
        self.rivals_before = self.rivals_after = None
        self.over = False
        # Whether what was recorded is written now, which may take seconds.
        self.writes = False
        # Whether another thread waits for the profiler to stop.
        self.gives_way = False
        first = self.turns[0][1]
        self.next_period()
        # What came before may have let a DataLoader's workers get ahead, too.
        self.settling = max(settings["warm_up"], 2 * ahead())
        self.warms_up = True
        self.before_recorded = self.settling + first + until_caught_up(ahead())

    def next_period(self):
        self.over = not self.turns
        if self.over:
            return
        self.kind, self.left = self.turns.pop(0)
        for measured in (self.times, self.worked, self.faults, self.delays, self.own, self.settled):
            measured[self.kind].append([])
        # What was recorded is written before a plain one; the profiler starts in seconds the first time, then in less than a millisecond.
        pauses = self.kind == PLAIN or len(self.times[RECORDED]) == 1
        self.settling = until_caught_up(self.ahead()) if pauses else SETTLING
        # The first recorded period comes as soon as it can: a script may be short.
        if len(self.times[PLAIN]) > 1:
            self.settling += int(self.chance.random() * (MORE + 1))

    def begin(self):
        """An iteration begins here, but where the script's own profiler runs: that is left alone, and would be timed with it."""
        if self.meets_another():
            return
        if self.kind == RECORDED and not self.profiler.runs:
            self.start()
        if self.rivals_before is None and not self.settling:
            self.rivals_before = rivals.seen()
        self.delayed_before = delayed() or 0
        if self.profiler.runs and not self.settling:
            name, number = step_name(self.recorded() + self.dropped), step_name(self.recorded())
            if self.dropped:
                self.renamed[name] = number
            self.annotation = annotation(name)
        self.used_before = used()
        self.began = time.perf_counter()

    def end(self):
        """The iteration that began, if one did, ends here."""
        if self.began is None or self.over:
            return
        if self.gives_way:
            self.give_way()
            return
        if self.meets_another():
            self.began = None
            return
        if self.settling == 1 or (self.left == 1 and not self.settling):
            synchronise()
        # The clock comes last: on a busy machine Linux gives the processor to another process when a process's time is read (6.18: it finds
        # then that the turn is over), for milliseconds that the script would have lost a moment later.
        worked, faulted, own = (now - before for now, before in zip(used(), self.used_before))
        took = time.perf_counter() - self.began
        self.leave()
        self.ended += 1
        waited = (delayed() or 0) - self.delayed_before
        if self.settling:
            self.settling -= 1
            if not self.warms_up:
                self.settled[self.kind][-1].append(nanoseconds(took))
        else:
            self.warms_up = False
            self.times[self.kind][-1].append(nanoseconds(took))
            self.worked[self.kind][-1].append(nanoseconds(worked))
            self.faults[self.kind][-1].append(faulted)
            self.delays[self.kind][-1].append(max(0, waited))
            self.own[self.kind][-1].append(max(0, nanoseconds(own)))
            self.done += 1
            self.left -= 1
        ended = not self.left
        if ended:
            self.rivals_after = rivals.seen()
            self.python_threads = max(self.python_threads, len(sys._current_frames()) - 1)
            self.writes = self.profiler.runs
            if self.writes:
                self.report(self, True)
            self.stop()
            self.writes = False
            self.next_period()
        self.report(self, ended)

    def drop(self):
        """The iteration that began, if one did, is none: it is called so in the trace, and the next one gets its number."""
        if self.annotation is not None:
            self.renamed[step_name(self.recorded() + self.dropped)] = TORN
            self.dropped += 1
        self.leave()

    def rivals(self):
        """What others had of the processors; nothing of a recording without a whole period."""
        return rivals.between(self.rivals_before, self.rivals_after) if self.rivals_before and self.rivals_after else {}

    def leave(self):
        """Ends the range of an iteration."""
        self.began = None
        if self.annotation is not None:
            self.annotation.__exit__(None, None, None)
            self.annotation = None

    def recorded(self):
        """How many iterations are recorded."""
        return sum(len(period) for period in self.times[RECORDED])

    def runs_elsewhere(self):
        """Whether another thread's iterations are recorded: a profiler is stopped in the thread that started it."""
        return self.thread not in (None, threading.get_ident())

    def meets_another(self):
        if self.profiler.runs or not self.profiler.meets_another():
            return False
        self.others += 1
        self.report(self)
        return True

    def start(self):
        self.profiler.start()
        self.thread = threading.get_ident()

    def stop(self):
        """Stops the profiler, wherever the recording is. An iteration that this tears is called so in the trace, for it is none."""
        if self.annotation is not None:
            self.renamed[step_name(self.recorded() + self.dropped)] = TORN
        self.leave()
        self.profiler.stop(self.renamed)
        self.renamed = {}

    def give_way(self):
        """The script starts a profiler of its own: what was recorded until now stays, and the rest comes when that is done. In another
        thread this has to wait for a mark."""
        self.gives_way = self.profiler.runs and self.runs_elsewhere()
        if self.profiler.runs and not self.gives_way:
            self.stop()
            self.settling = until_caught_up(self.ahead())


def used():
    """Until now: seconds of processor time of this process, all its threads together; how often it used a page of memory for the first time since
    the system gave it that; and seconds of processor time of this thread. Less than two microseconds take all of it."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime, usage.ru_minflt, time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)


def delayed():
    """Nanoseconds until now that this thread was ready to run while others had the processor, or a limit kept it from running
    (Documentation/scheduler/sched-stats.rst of Linux); None where the system does not count them."""
    try:
        with open("/proc/thread-self/schedstat") as file:
            return int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        return None


def nanoseconds(seconds):
    return int(round(seconds * 1e9))


def step_name(number):
    """What an iteration is called until the trace is written."""
    return "%s%d" % (trace.OURS, number)


def annotation(name):
    """Names what is recorded from here to its `__exit__`."""
    from torch.autograd.profiler import record_function

    return record_function(name).__enter__()


def synchronise():
    """Waits for the GPU, so that the iterations of a period together take what they take on it as well."""
    import torch

    for kind in ("cuda", "xpu"):
        device = getattr(torch, kind, None)
        if device is not None and device.is_initialized():
            device.synchronize()
