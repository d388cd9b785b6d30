"""Who else has the processors while a script runs: its own child processes, and a limit on CPUs that stops it."""

import os
import resource
import time

TICKS = os.sysconf("SC_CLK_TCK")


def seen():
    """Nanoseconds until now: the clock, processor time of child processes, and how long a limit stopped this group of processes. Looks
    through /proc, which takes milliseconds: once before the iterations, and once after each period."""
    return {"wall": nanoseconds(time.perf_counter()), "children": children(), "throttled": throttled()}


def between(before, after):
    """What there was between two looks; nothing that was not known both times."""
    known = (name for name in before if before[name] is not None and after[name] is not None)
    return dict((name, max(0, after[name] - before[name])) for name in known)


def children():
    """Processor time of child processes, those that ended and were waited for, and those that run with what they waited for."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    own, running = os.getpid(), 0
    for process in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if process.isdigit():
            try:
                with open("/proc/%s/stat" % process) as file:
                    fields = file.read().rpartition(")")[2].split()
            except (OSError, ValueError):
                continue  # It ended.
            # proc(5): the parent, then times of the process and of children that it waited for.
            if int(fields[1]) == own:
                running += sum(int(ticks) for ticks in fields[11:15])
    return nanoseconds(ended.ru_utime + ended.ru_stime + running / float(TICKS))


def throttled():
    """How long limits on CPUs stopped this group of processes (Documentation/admin-guide/cgroup-v2.rst, cpu.stat; in version 1 throttled_time);
    None where the system does not tell."""
    times = [time for time in (throttled_in(folder) for folder in groups()) if time is not None]
    return max(times) if times else None


def groups():
    """The folders of the groups that this process is in, the outer ones included."""
    try:
        with open("/proc/self/cgroup") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return
    for _, controllers, path in lines:
        if controllers and "cpu" not in controllers.split(","):
            continue
        for root in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct") if controllers else ("/sys/fs/cgroup",):
            parts = [part for part in path.split("/") if part]
            for depth in range(len(parts), -1, -1):
                yield os.path.join(root, *parts[:depth])


def throttled_in(folder):
    try:
        with open(os.path.join(folder, "cpu.stat")) as file:
            counts = dict((name, int(count)) for name, count in (line.split() for line in file))
    except (OSError, ValueError):
        return None
    return 1000 * counts["throttled_usec"] if "throttled_usec" in counts else counts.get("throttled_time")


def nanoseconds(seconds):
    return int(round(seconds * 1e9))
