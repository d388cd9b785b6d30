"""Predicted against measured steps of two ranks on links of known bandwidth: DDP at other bucket sizes and on a faster link, FSDP2 on a faster link.

In each round a job is recorded at 1 Gb/s and 25 MiB by `perf4sight replay --record`, and what that predicts is measured without the profiler, one after the
other, the recorded settings among them. Other programs make steps longer, never shorter: of the rounds, the recording with the shortest plain step predicts, and the
shortest median of each measurement counts. By how much the rounds differ says how quiet the machine was. The link is the loopback of a network namespace of its own, held to its bandwidth by `tc tbf`, so this needs root, iproute2, and a Python with PyTorch 2.6 or later.

    python3 benches/replay_live.py target/release/perf4sight venv/bin/python
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "examples" / "ranks" / "train.py"
RECORDED = 1.0
FASTER = 2.0
"""Gb/s."""

DDP = {
    "bucket_cap_mb = 1": (RECORDED, 1),
    "bucket_cap_mb = 4": (RECORDED, 4),
    "bucket_cap_mb = 8": (RECORDED, 8),
    "bandwidth x 2": (FASTER, 25),
    "bandwidth x 2; bucket_cap_mb = 4": (FASTER, 4),
}
FSDP2 = {"bandwidth x 2": (FASTER, 25)}
"""What is predicted, and on which link and with which buckets that is measured."""

AS_RECORDED = "as recorded"
WARM_UP = 5


class Link:
    """The loopback of a network namespace."""

    def __init__(self):
        self.name = f"perf4sight-{os.getpid()}"
        self.limited = False

    def __enter__(self):
        self.ip("netns", "add", self.name)
        self.run("ip", "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        self.ip("netns", "del", self.name)

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    def hold(self, gigabits):
        act = "change" if self.limited else "add"
        self.run("tc", "qdisc", act, "dev", "lo", "root", "tbf", "rate", f"{gigabits}gbit", "burst", "256kb", "latency", "50ms")
        self.limited = True

    def run(self, *words):
        words = ["ip", "netns", "exec", self.name, *map(str, words)]
        ran = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if ran.returncode:
            raise SystemExit(f"{ran.stderr}\n{' '.join(words)} failed")


def job(options, parallel, cap, *more):
    # torchrun of the same Python; one thread a rank needs no warning of it.
    words = [options.python, "-m", "torch.distributed.run", "--nproc-per-node", "2", SCRIPT, "--parallel", parallel]
    return [*words, "--bucket-cap-mb", cap, "--layers", options.layers, *more]


def predict(link, options, parallel, changes, folder):
    """What a step takes by the replay: with each change, and as recorded."""
    link.hold(RECORDED)
    words = [options.program, "replay", "--json", "--record", "--iterations", options.steps, "--recording", folder / "recording"]
    words += ["--out", folder / "replay", *(f"--what-if={change}" for change in changes)]
    link.run(*words, "--", *job(options, parallel, 25))
    replay = json.loads((folder / "replay" / "replay.json").read_text())["replay"]
    predicted = {row["what_if"]: [row[key] for key in ("step_ms", "low_ms", "high_ms")] for row in replay["what_ifs"]}
    return predicted, replay["plain_step_ms"], replay["distortion_percent"]


def measure(link, options, parallel, gigabits, cap, folder):
    """Milliseconds of steps without the profiler, each as long as that of the slower rank."""
    link.hold(gigabits)
    more = ["--steps", options.steps + WARM_UP, "--times", folder / "times"]
    link.run(*job(options, parallel, cap, *more))
    ranks = [json.loads((folder / f"times{rank}").read_text())[WARM_UP:] for rank in range(2)]
    return [1000 * max(both) for both in zip(*ranks)]


def compare(link, options, parallel, changes):
    settings = {AS_RECORDED: (RECORDED, 25), **changes}
    recordings, medians = [], {change: [] for change in settings}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            recordings.append(predict(link, options, parallel, changes, folder))
            for change, (gigabits, cap) in settings.items():
                medians[change].append(statistics.median(measure(link, options, parallel, gigabits, cap, folder)))
        print(f"{parallel}: a round with a load of {os.getloadavg()[0]:.1f}")
    predicted, plain, distortion = min(recordings, key=lambda recording: recording[1])
    predicted[AS_RECORDED] = [plain, plain, plain]
    print(f"{parallel}: a plain step takes {plain:.1f} ms; recorded ones {distortion:+.1f} %")
    errors = []
    for change, rounds in medians.items():
        least, (step, low, high) = min(rounds), predicted[change]
        errors.append(100 * (step / least - 1))
        wander = 100 * (max(rounds) / least - 1)
        print(f"  {change:34} predicted {step:6.1f} ({low:.1f} to {high:.1f}), measured {least:6.1f} ms (rounds up to {wander:+.1f} %): {errors[-1]:+.1f} %")
    print(f"  mean error {statistics.mean(map(abs, errors[1:])):.1f} %")
    return errors[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("python")
    parser.add_argument("--steps", type=int, default=20, help="steps that are recorded, and measured for each prediction")
    parser.add_argument("--rounds", type=int, default=3, help="recordings, each followed by all measurements")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--within", type=float, help="fail if a prediction is further off, in percent")
    options = parser.parse_args()
    options.program = options.program.resolve()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with Link() as link:
        errors = [*compare(link, options, "ddp", DDP), *compare(link, options, "fsdp2", FSDP2)]
    print(f"load {os.getloadavg()[0]:.1f} at the end")
    if options.within is not None and max(map(abs, errors)) > options.within:
        raise SystemExit(f"more than {options.within} % off")


if __name__ == "__main__":
    main()
