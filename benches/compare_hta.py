"""Reading a trace compared with HolisticTraceAnalysis, each in a process of its own: python3 benches/compare_hta.py TRACE...

    pip install HolisticTraceAnalysis
    cargo build --release -p perf4sight-traces --example read
    python3 benches/compare_hta.py df_index_resolver.json.gz negative_queue_length_rank0.json.gz nccl_data.json.gz

Each reads the file into memory, once more than is answer of, on one processor; answer are the median time of five and the largest resident
set of the process, Python and its modules included, and next to it without what they take before anything is read.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time

ROUNDS = 5
READ = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target", "release", "examples", "read")

HTA = """
import json, logging, resource, sys, time
logging.disable(logging.CRITICAL)
from hta.common.trace import parse_trace_file
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begin = time.process_time()
parse_trace_file(sys.argv[1])
seconds = time.process_time() - begin
print(json.dumps([seconds, before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))
"""


def hta(trace):
    """Seconds, and mebibytes before and at most."""
    output = subprocess.run([sys.executable, "-W", "ignore", "-c", HTA, trace], stdout=subprocess.PIPE, check=True).stdout
    seconds, before, most = json.loads(output.splitlines()[-1])
    return seconds, before / 1024, most / 1024


def ours(trace):
    """Processor seconds of the whole process, and the mebibytes of its largest resident set."""
    process = subprocess.Popen([READ, trace], stdout=subprocess.PIPE)
    answer = process.stdout.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, answer
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, int(answer.split(": ")[1].split()[0])


def main():
    # Those that are started inherit it.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print("%-36s %9s %22s %30s" % ("trace", "events", "perf4sight", "HolisticTraceAnalysis"))
    for trace in sys.argv[1:]:
        mine = [ours(trace) for _ in range(ROUNDS + 1)][1:]
        theirs = [hta(trace) for _ in range(ROUNDS + 1)][1:]
        seconds, size = statistics.median(one[0] for one in mine), max(one[1] for one in mine)
        events = mine[0][2]
        before, most = min(one[1] for one in theirs), max(one[2] for one in theirs)
        print("%-36s %9d %6.3f s %5.2f M/s %4.0f MiB %6.2f s %4.0f MiB, %4.0f MiB without modules; 1/%.1f of its memory" % (
            os.path.basename(trace), events, seconds, events / seconds / 1e6, size,
            statistics.median(one[0] for one in theirs), most, most - before, most / size))


if __name__ == "__main__":
    main()
