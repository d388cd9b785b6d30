"""A small training job that needs no GPU and no PyTorch: threads read and prepare samples, and the main thread takes them in batches.

    python3 examples/reading/train.py --make 200 --data /tmp/samples
    perf4sight sensitivity -b 4 --data /tmp/samples -- python3 examples/reading/train.py

Preparing a sample keeps a CPU busy; a step waits, as for an accelerator. Each iteration is answer in a line that `perf4sight sensitivity` reads.
"""
import argparse
import hashlib
import json
import os
import queue
import random
import threading
import time

SAMPLE = 256 * 1024
"""Bytes of a sample that is made."""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder with a file for each sample")
    parser.add_argument("--make", type=int, metavar="N", help="make so many samples, and stop")
    parser.add_argument("-b", "--batch", type=int, default=4, help="samples of an iteration")
    parser.add_argument("-j", "--workers", type=int, default=4, help="threads that prepare samples")
    parser.add_argument("--max-iterations", type=int, default=10**9, help="iterations to make")
    parser.add_argument("--work", type=int, default=120, help="how often a sample is hashed")
    parser.add_argument("--step", type=float, default=0.06, help="seconds that a step waits")
    return parser.parse_args()


def make(folder, count):
    os.makedirs(folder, exist_ok=True)
    draws = random.Random(0)
    for number in range(count):
        with open(os.path.join(folder, "%06d.sample" % number), "wb") as file:
            file.write(draws.randbytes(SAMPLE))


def prepare(files, ready, work):
    """Reads samples for ever, all of them in a new order in each epoch, and hashes them."""
    while True:
        for file in random.sample(files, len(files)):
            with open(file, "rb") as opened:
                sample = opened.read()
            for _ in range(work):
                hashlib.sha256(sample).digest()
            ready.put(sample)


def start_workers(asked):
    """Threads that prepare a part of the samples each, and where they put them."""
    files = sorted(os.path.join(asked.data, name) for name in os.listdir(asked.data))
    ready = queue.Queue(2 * asked.batch)
    for worker in range(asked.workers):
        own = files[worker :: asked.workers]
        threading.Thread(target=prepare, args=(own, ready, asked.work), daemon=True).start()
    return ready


def train(asked):
    ready = start_workers(asked)
    steps = open(os.environ["PERF4SIGHT_STEPS"], "a") if "PERF4SIGHT_STEPS" in os.environ else None
    for step in range(1, asked.max_iterations + 1):
        begun = time.monotonic()
        for _ in range(asked.batch):
            ready.get()
        waited = time.monotonic() - begun
        time.sleep(asked.step)
        if steps:
            print(json.dumps({"step": step, "time": time.monotonic(), "wait": waited}), file=steps, flush=True)


if __name__ == "__main__":
    asked = arguments()
    if asked.make:
        make(asked.data, asked.make)
    else:
        train(asked)
