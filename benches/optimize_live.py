"""What `perf4sight optimize` proposes against steps that are measured with it: two ranks of a network of its own on a link of known bandwidth.

A job is measured without the profiler and recorded, `optimize` proposes, and each proposal that is an argument (buckets, a list of them, a hook, accumulation,
an update in one kernel) is measured, twice, with three other sizes of buckets beside them. Other programs make steps longer, never shorter: the shorter median
counts. The link is the loopback of a network namespace of its own, held to its bandwidth by `tc tbf`, so this needs root, iproute2, and a Python
with PyTorch (2.15 for lists of caps) and torchvision.

    python3 benches/optimize_live.py target/release/perf4sight venv/bin/python --network mixer --gigabits 1
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from replay_live import Link

WARM_UP = 4
RECORDED = 12
"""Steps: those before a measurement, and those that are recorded."""
OTHER_CAPS = [1, 4, 12]
NETWORKS = ["mixer", "resnet", "mobilenet"]


def network(name):
    """A network, an input, and the classes."""
    import torch
    from torch import nn

    if name != "mixer":
        import torchvision

        make = {"resnet": torchvision.models.resnet18, "mobilenet": torchvision.models.mobilenet_v2}[name]
        return make(num_classes=100), torch.randn(4, 3, 64, 64), torch.randint(0, 100, (4,))

    class Mixing(nn.Module):
        def __init__(self, width, tokens):
            super().__init__()
            self.before_tokens, self.tokens = nn.LayerNorm(width), nn.Linear(tokens, tokens)
            self.before_channels = nn.LayerNorm(width)
            self.channels = nn.Sequential(nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width))

        def forward(self, x):
            x = x + self.tokens(self.before_tokens(x).transpose(1, 2)).transpose(1, 2)
            return x + self.channels(self.before_channels(x))

    blocks = [Mixing(320, 64) for _ in range(6)]
    model = nn.Sequential(nn.Linear(48, 320), *blocks, nn.Flatten(), nn.Linear(320 * 64, 20))
    return model, torch.randn(8, 64, 48), torch.randint(0, 20, (8,))


def train(options):
    """A rank of the job: measures its steps, or records some."""
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    model, inputs, classes = network(options.network)
    model = torch.nn.parallel.DistributedDataParallel(model, **json.loads(options.arguments))
    if options.hook:
        model.register_comm_hook(None, getattr(default_hooks, options.hook))
    optimizer = torch.optim.AdamW(model.parameters(), fused=options.fused or None)
    loss = torch.nn.CrossEntropyLoss()

    def batch(is_last):
        with contextlib.nullcontext() if is_last else model.no_sync():
            loss(model(inputs), classes).backward()
        if is_last:
            optimizer.step()
            optimizer.zero_grad()

    file = f"{options.times}{dist.get_rank()}"
    if options.record:
        from torch.profiler import profile, schedule

        steps = schedule(wait=0, warmup=WARM_UP, active=RECORDED)
        save = lambda profiler: profiler.export_chrome_trace(f"{file}.json")
        with profile(schedule=steps, on_trace_ready=save, record_shapes=True) as profiler:
            for _ in range(WARM_UP + RECORDED):
                batch(True)
                profiler.step()
    else:
        times = []
        for _ in range(options.steps + WARM_UP):
            begin = time.perf_counter()
            for number in range(options.batches):
                batch(number == options.batches - 1)
            times.append((time.perf_counter() - begin) / options.batches)
        pathlib.Path(file).write_text(json.dumps(times[WARM_UP:]))
    dist.destroy_process_group()


def arguments_of(change):
    """How the job is started to do what is proposed; none for what this does not measure."""
    if caps := re.search(r"bucket_cap_mb_list=(\[.*?\])", change):
        return ["--arguments", json.dumps({"bucket_cap_mb_list": json.loads(caps[1])})]
    if (cap := re.search(r"bucket_cap_mb=([\d.]+)", change)) and "compile" not in change:
        return ["--arguments", json.dumps({"bucket_cap_mb": float(cap[1])})]
    if change.startswith("ddp.register_comm_hook(None, default_hooks.fp16"):
        return ["--hook", "fp16_compress_hook"]
    if batches := re.search(r"gradients of (\d+) batches", change):
        return ["--batches", batches[1]]
    return ["--fused"] if "fused=True" in change else None


class Job:
    """The job on a link."""

    def __init__(self, link, options, folder):
        self.link, self.options, self.folder = link, options, folder

    def run(self, *more):
        words = [self.options.python, "-m", "torch.distributed.run", "--nproc-per-node", "2", __file__, "--rank"]
        self.link.run(*words, "--network", self.options.network, "--times", self.folder / "rank", *more)

    def measure(self, *more):
        """Milliseconds of a batch, that of the slower rank, by the median step."""
        self.run("--steps", self.options.steps, *more)
        ranks = [json.loads((self.folder / f"rank{rank}").read_text()) for rank in range(2)]
        return 1000 * statistics.median(max(both) for both in zip(*ranks))

    def proposals(self, plain):
        """The step as it is in milliseconds, and what is proposed."""
        self.run("--record")
        traces, out = [self.folder / f"rank{rank}.json" for rank in range(2)], self.folder / "optimize"
        words = [self.options.program, "optimize", *traces, "--plain-step-ms", f"{plain:.3f}", "--moves", "3000", "--out", out]
        subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found = json.loads((out / "optimize.json").read_text())
        return found["step_ms"], found["proposals"]


def compare(job, rounds):
    plain = [job.measure()]
    step, proposals = job.proposals(plain[0])
    proposals = [(row, arguments) for row in proposals if (arguments := arguments_of(row["change"]))]
    others = {cap: ["--arguments", json.dumps({"bucket_cap_mb": cap})] for cap in OTHER_CAPS}
    measured = [[] for _ in proposals]
    of_caps = {cap: [] for cap in OTHER_CAPS}
    for _ in range(rounds):
        for (_, arguments), times in zip(proposals, measured):
            times.append(job.measure(*arguments))
        for cap, arguments in others.items():
            of_caps[cap].append(job.measure(*arguments))
        plain.append(job.measure())
    print(f"a step takes {min(plain):.1f} ms (rounds up to {max(plain):.1f})")
    for (row, _), times in zip(proposals, measured):
        low, high = [step * (1 - row[end] / 100) for end in ("gain_high_percent", "gain_low_percent")]
        least, predicted = min(times), row["step_ms"]
        held = "inside" if low <= least <= high else "outside"
        print(f"  {row['change'][:90]:90} predicted {predicted:6.1f} ({low:.1f} to {high:.1f}), measured {least:6.1f} ms: {100 * (predicted / least - 1):+.1f} %, {held}")
    for cap, times in of_caps.items():
        print(f"  bucket_cap_mb={cap}, for comparison: {min(times):.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("python")
    parser.add_argument("--network", choices=NETWORKS, default=NETWORKS[0])
    parser.add_argument("--gigabits", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=14)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    options.program = options.program.resolve()
    print(f"{options.network} at {options.gigabits} Gb/s, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with Link() as link, tempfile.TemporaryDirectory() as folder:
        link.hold(options.gigabits)
        compare(Job(link, options, pathlib.Path(folder)), options.rounds)


def rank():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", action="store_true")
    parser.add_argument("--network")
    parser.add_argument("--times")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--arguments", default="{}")
    parser.add_argument("--hook")
    parser.add_argument("--batches", type=int, default=1)
    parser.add_argument("--fused", action="store_true")
    train(parser.parse_args())


if __name__ == "__main__":
    rank() if "--rank" in sys.argv else main()
