"""The trace of a PyTorch without Kineto, written as one with it writes its own. What such a PyTorch exports has neither threads nor which
events are operators, and its clock begins with the profiler; the profiler's events in Python have all of that, and calls are recorded separately."""

import itertools
import json
import os

RANGES = (5, 7)
"""What `record_function` makes, `RecordScope.USER_SCOPE`: 5 in PyTorch 1.8, 7 later, where 5 is nothing that training does."""

EVENT = '{"ph": "X", "cat": "%s", "name": %s, "pid": %d, "tid": %d, "ts": %s, "dur": %s}'


def export(profiler, calls, path):
    """Writes what a profiler recorded that has been stopped, and the calls that were recorded meanwhile in the thread that started it."""
    results, events = profiler.profiler.kineto_results, profiler.profiler.function_events
    begin = results.trace_start_ns() if hasattr(results, "trace_start_ns") else 1000 * results.trace_start_us()
    # What comes first is of the thread that goes on when the profiler has been started.
    thread = events[0].thread if events else 0
    operators = (operator(event, begin) for event in events)
    functions = (written("python_function", name, thread, start, end) for name, start, end in calls)
    with open(path, "w") as file:
        file.write('{"schemaVersion": 1, "baseTimeNanoseconds": 0,\n"traceEvents": [\n')
        file.write(",\n".join(itertools.chain(operators, functions)))
        file.write("\n]}\n")


def operator(event, begin):
    """An operator or a range of a profiler that began at so many nanoseconds."""
    start, end = (begin + int(round(1000 * time)) for time in (event.time_range.start, event.time_range.end))
    category = "user_annotation" if event.scope in RANGES else "cpu_op"
    return written(category, getattr(event, "trace_name", event.name), event.thread, start, end)


def written(category, name, thread, start, end):
    return EVENT % (category, json.dumps(name), os.getpid(), thread, microseconds(start), microseconds(end - start))


def microseconds(nanoseconds):
    """As text, for a float loses nanoseconds of what has passed since 1970."""
    return "%d.%03d" % divmod(nanoseconds, 1000)
