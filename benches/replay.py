"""How long `perf4sight replay` takes for eight ranks of 200 MB each on one core, and how much memory: at most 20 s and 1.5 GB.

The ranks are those of examples/ranks/straggler, twice, each repeated with later times and further steps until its file is as large.

    python3 benches/replay.py target/release/perf4sight
"""

import gzip
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

RANKS = 8
BYTES = 200_000_000
RECORDED = pathlib.Path(__file__).parent.parent / "examples" / "ranks" / "straggler"


def pieces(event):
    """The text of an event before and after its time, which is in between."""
    text = json.dumps(event)
    before, after = re.split(r'(?<="ts": )[0-9.]+', text, maxsplit=1)
    return before, float(event["ts"]), after


def read(rank):
    """The events of a recorded rank that take time, and the times between which its steps are."""
    with gzip.open(RECORDED / f"rank{rank}.json.gz", "rt") as source:
        recorded = json.load(source)
    events = [event for event in recorded["traceEvents"] if event.get("ph") == "X"]
    steps = [event for event in events if event["name"].startswith("ProfilerStep#")]
    begin, end = min(step["ts"] for step in steps), max(step["ts"] + step["dur"] for step in steps)
    return events, recorded["baseTimeNanoseconds"], begin, end


def write(target, rank, events, base, length):
    head = {"distributedInfo": {"rank": rank, "world_size": RANKS}, "baseTimeNanoseconds": base}
    written = target.write(json.dumps(head)[:-1] + ', "traceEvents": [\n')
    texts = [(*pieces(event), event["name"].startswith("ProfilerStep#")) for event in events]
    repeats = 0
    while written < BYTES:
        rows = []
        for before, start, after, is_step in texts:
            if is_step:
                before = before.replace("ProfilerStep#", f"ProfilerStep#{repeats}0")
            rows.append(f"{before}{start + repeats * length:.3f}{after}")
        written += target.write(",\n".join(rows) + ",\n")
        repeats += 1
    target.write('{"ph": "M", "name": "process_name", "pid": 1, "tid": 1, "args": {"name": "python"}}]}\n')


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    recorded = [read(rank) for rank in range(4)]
    # The same for all ranks, whose steps would drift apart otherwise.
    length = max(end for *_, end in recorded) - min(begin for *_, begin, _ in recorded) + 1000
    with tempfile.TemporaryDirectory() as folder:
        traces = pathlib.Path(folder) / "traces"
        traces.mkdir()
        for rank in range(RANKS):
            events, base, *_ = recorded[rank % 4]
            with open(traces / f"rank{rank}.json", "w") as target:
                write(target, rank, events, base, length)
        begin = time.monotonic()
        command = [program, "replay", traces, "--out", pathlib.Path(folder) / "replay"]
        subprocess.run(command, check=True, preexec_fn=lambda: os.sched_setaffinity(0, {0}))
        took = time.monotonic() - begin
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{took:.1f} s, of which the processor {used.ru_utime + used.ru_stime:.1f} s; {used.ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
