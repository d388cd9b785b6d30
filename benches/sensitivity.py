"""Holds profiles of `perf4sight sensitivity` against epochs that are measured in full, with the small job of examples/reading.

    cargo build --release --locked --workspace --example limited
    python3 benches/sensitivity.py grid /tmp/grid        three CPU shares x three memory shares against the profile: about 5 minutes
    python3 benches/sensitivity.py reader /tmp/reader    600 MB at 60 MB/s with four limits against the two caches: about 3 minutes

Every measured epoch is a whole one: a job runs for three of them, and the mean of the last two counts. Limits are held as
`perf4sight sensitivity --dry-run` says; where nothing holds memory or storage, this says so and ends. What was measured is kept in the
folder and not measured again; after a third argument, a number of seconds, nothing further is begun, and the same command goes on.
PERF4SIGHT and LIMITED name other programs.
"""
import csv
import json
import os
import shlex
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PERF4SIGHT = os.environ.get("PERF4SIGHT", os.path.join(ROOT, "target/release/perf4sight"))
LIMITED = os.environ.get("LIMITED", os.path.join(ROOT, "target/release/examples/limited"))
TRAIN = os.path.join(ROOT, "examples/reading/train.py")
SAMPLE = 256 * 1024
BATCH = 4
EPOCHS = 3
"""Epochs of a run, the first of which fills the cache."""

STUDIES = {
    # The published small job: 4 samples an iteration, a step of 60 ms. Storage is slow enough to matter.
    "grid": {
        "samples": 200,
        "storage": 10_000_000,
        "job": ["--work", "120", "--step", "0.06"],
        "profile": ["--cpu", "1", "--cpu-step", "0.25"],
        "points": [(cpus, percent * 200 * SAMPLE // 100) for cpus in (0.25, 0.5, 1) for percent in (25, 55, 100)],
    },
    # A reader that takes 2.4 s for 600 MB which are in memory; limits in bytes.
    "reader": {
        "samples": 2288,
        "storage": 60_000_000,
        "job": ["--work", "0", "--step", "0.0042", "--workers", "1"],
        "profile": ["--cpu", "1", "--cpu-step", "1"],
        "points": [(1, megabytes * 1_000_000) for megabytes in (200, 350, 500, 800)],
    },
}


def run(words, **more):
    print("$", shlex.join(words), flush=True)
    return subprocess.run(words, check=True, text=True, **more)


def profile(study, folder, data):
    """The profile, and the seconds that it took."""
    out, took = os.path.join(folder, "profile"), os.path.join(folder, "profile.seconds")
    if not os.path.exists(took) or not os.path.exists(os.path.join(out, "profile.json")):
        begun = time.monotonic()
        asked = ["--data", data, "-b", str(BATCH), "--storage-bandwidth", "%dMB" % (study["storage"] // 10**6), "--out", out]
        job = [sys.executable, TRAIN, *study["job"]]
        run([PERF4SIGHT, "sensitivity", *study["profile"], *asked, "--overwrite", "--", *job])
        with open(took, "w") as file:
            file.write("%.3f" % (time.monotonic() - begun))
    with open(os.path.join(out, "profile.json")) as file, open(took) as seconds:
        return json.load(file), float(seconds.read())


def own_memory(answer):
    """What of a limit on memory the job itself takes; what drops pages of the data leaves that alone."""
    by = next(limit["by"] for limit in answer["limits"] if limit["axis"] == "memory")
    if by is None:
        sys.exit("memory cannot be limited here")
    return 0 if by == "residency governor" else answer["own_memory"]


def epoch(study, folder, data, cpus, memory):
    """Seconds of an epoch that is measured in full, and of the whole run."""
    steps = os.path.join(folder, "steps.jsonl")
    if os.path.exists(steps):
        os.remove(steps)
    length = -(-study["samples"] // BATCH)
    job = [sys.executable, TRAIN, "--data", data, "-b", str(BATCH), "--max-iterations", str(EPOCHS * length), *study["job"]]
    limits = [data, str(cpus), str(memory), str(study["storage"])]
    answer = run([LIMITED, *limits, *job], env={**os.environ, "PERF4SIGHT_STEPS": steps}, stdout=subprocess.PIPE)
    ended = json.loads(answer.stdout)
    if ended["verdict"] == "OutOfMemory" or ended["verdict"].startswith("Crashed"):
        sys.exit(answer.stdout)
    with open(steps) as file:
        times = [json.loads(line)["time"] for line in file]
    print(ended["verdict"], "held by", ended["held_by"])
    return (times[EPOCHS * length - 1] - times[length - 1]) / (EPOCHS - 1), ended["seconds"]


def main(name, folder, patience):
    begun, study, data = time.monotonic(), STUDIES[name], os.path.join(folder, "data")
    if not os.path.exists(data):
        run([sys.executable, TRAIN, "--data", data, "--make", str(study["samples"])])
    answer, cost = profile(study, folder, data)
    own, size = own_memory(answer), study["samples"] * SAMPLE
    measured = os.path.join(folder, "measured.csv")
    if not os.path.exists(measured):
        with open(measured, "w") as file:
            file.write("cpus,memory_percent,epoch_seconds,run_seconds\n")
    with open(measured) as file:
        done = list(csv.DictReader(file))
    for cpus, room in study["points"][len(done) :]:
        if time.monotonic() - begun > patience:
            sys.exit("the time is up; the same command goes on")
        # A study of limits names what the job gets in all, a grid what there is for its data.
        memory = room if name == "reader" else own + room
        seconds, whole = epoch(study, folder, data, cpus, memory)
        with open(measured, "a", newline="") as file:
            csv.writer(file).writerow([cpus, round(100 * (memory - own) / size, 2), round(seconds, 3), round(whole, 3)])
    run([PERF4SIGHT, "sensitivity", "--compare", measured, os.path.join(folder, "profile", "profile.json")])
    with open(measured) as file:
        grid = sum(float(row["run_seconds"]) for row in csv.DictReader(file))
    print("the profile took %.0f s, the measured epochs %.0f s: %.2f of them" % (cost, grid, cost / grid))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in STUDIES:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]) if len(sys.argv) == 4 else float("inf"))
