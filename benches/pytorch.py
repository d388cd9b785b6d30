#!/usr/bin/env python3
"""One training step, by PyTorch's own modules and by perf4sight's worker: memory and time side by side.

    cargo build --release -p perf4sight-worker
    python3 benches/pytorch.py target/release/perf4sight-worker [NAME ...] [--batch 1] [--memory] [--exports FOLDER]

Each network of torchvision or timm is exported by the call in docs/networks.md and run by the worker; the same step, of cross-entropy and
the published optimizer on random images, is taken with the module itself, by the Python worker's own step, clock and counters
(workers/torch_worker.py), in a process of its own. Everything runs on one thread. Memory is the peak of the tensors of two steps,
which repeats to the byte; time is the median of timed steps, the quicker of two visits in turns. `--memory` leaves time out.
Needs torch (of the worker's version, or the kernels are not the same), torchvision, timm and onnx.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings

import torch

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path += [os.path.join(ROOT, "workers"), os.path.join(ROOT, "scripts")]

import export_networks
import torch_worker

FAMILIES = ("tv.resnet18", "tv.mobilenet_v2", "tv.efficientnet_b0", "tv.regnet_y_400mf", "tv.convnext_tiny", "vit_tiny_patch16_224",
            "deit3_small_patch16_224", "tv.swin_t", "poolformer_s12", "seg.lraspp_mobilenet_v3_large")
STEPS = {"minimum": 3, "minimum_seconds": 1.0, "spread": 0.02, "maximum_seconds": 4.0}
THREADS = 1


class Module(object):
    """A module of PyTorch in place of a graph that the Python worker runs node by node."""

    def __init__(self, module):
        self.module, self.parameters = module, list(module.parameters())

    def forward(self, batch, watch):
        result = self.module(*batch.values())
        watch()
        return next(iter(result.values())) if isinstance(result, dict) else result


class Sizes(object):
    """What the Python worker's step asks of a graph: inputs and result, sizes with the batch in front."""

    def __init__(self, module, inputs):
        self.inputs = {name: ([0, *sizes], getattr(sizes, "kind", torch.int64 if hasattr(sizes, "below") else torch.float32))
                       for name, sizes in inputs.items()}
        self.below = {name: getattr(sizes, "below", None) for name, sizes in inputs.items()}
        given = dict(zip(inputs, export_networks.samples(inputs, 1)))
        with torch.no_grad():
            result = Module(module.eval()).forward(given, lambda: None)
        self.result = [0] + list(result.shape[1:])


def of_pytorch(name, request):
    """The reading of PyTorch's own step; weights are made after counting began, as the worker's are."""
    graph = Sizes(*export_networks.build(name))
    torch_worker.smallest_table = lambda graph, name: graph.below[name]
    torch_worker.Network = lambda graph, training, device: Module(export_networks.build(name)[0].train(training))
    torch.set_num_threads(THREADS)
    torch.manual_seed(request["seed"])
    memory = torch_worker.ProcessMemory(None)
    latency, counted = torch_worker.readings(graph, request, torch.device("cpu"), memory)
    return {"latency": latency, "memory": counted}


def asked(command, request):
    """What a worker answers, in a process that starts for it."""
    child = subprocess.run(command, input=json.dumps(request) + "\n", stdout=subprocess.PIPE, universal_newlines=True)
    return json.loads(child.stdout.splitlines()[-1])


def measured(command, request):
    """Peak bytes of tensors, and milliseconds where they are asked for."""
    answer = asked(command, request)
    if not answer.get("memory"):
        sys.exit("%s: %s" % (command[0], answer.get("reason", answer)))
    return answer["memory"]["allocated"], (answer.get("latency") or {}).get("median")


def compared(name, batch, worker, latency, folder):
    """Both steps of a network: bytes of each, and milliseconds of each."""
    request = {"protocol": torch_worker.PROTOCOL, "place": "cpu", "threads": THREADS, "mem_limit": None, "seed": 0, "task": "step",
               "network": os.path.join(folder, name + ".legacy.onnx"), "stage": "training", "batch": batch, "latency": latency,
               "memory": True, "layers": False, "steps": STEPS}
    theirs, ours = [sys.executable, __file__, "--of-pytorch", name], [worker]
    visits = [(measured(theirs, request), measured(ours, request)) for _ in range(2 if latency else 1)]
    of = lambda side, what: min(visit[side][what] for visit in visits)
    return [of(0, 0), of(1, 0)], [of(0, 1), of(1, 1)] if latency else None


def table(names, asks):
    latency = not asks.memory
    print("| network | batch | memory of PyTorch | of the worker | | time of PyTorch | of the worker | |\n|---|---|---|---|---|---|---|---|")
    shares = []
    with tempfile.TemporaryDirectory() as own:
        folder = os.path.abspath(asks.exports or own)
        for name in names:
            there = os.path.exists(os.path.join(folder, name + ".legacy.onnx"))
            said = {} if there else export_networks.limited(export_networks.exported, name, folder, "legacy")
            if not isinstance(said, dict):
                sys.exit("%s: %s" % (name, said))
            for batch in asks.batch or [1, 4]:
                memory, time = compared(name, batch, os.path.abspath(asks.worker), latency, folder)
                shares.append([memory[1] / memory[0] - 1, time[1] / time[0] - 1 if time else 0.0])
                mib, ms = ["%.1f MiB" % (count / 2**20) for count in memory], ["%.1f ms" % one for one in time or []] or ["", ""]
                print("| %s | %d | %s | %+.2f %% | %s | %s |" % (name.split(".")[-1], batch, " | ".join(mib), 100 * shares[-1][0],
                      " | ".join(ms), "%+.1f %%" % (100 * shares[-1][1]) if time else ""), flush=True)
    for what, column in zip(("memory", "time"), zip(*shares)):
        print("%s: %.2f %% apart on average, %.2f %% at most" % (what, 100 * sum(map(abs, column)) / len(column), 100 * max(map(abs, column))))


def main():
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description="a training step by PyTorch's modules and by perf4sight's worker")
    parser.add_argument("worker", nargs="?")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--batch", action="append", type=int, help="1 and 4, unless given; may be repeated")
    parser.add_argument("--memory", action="store_true", help="only memory, no time")
    parser.add_argument("--exports", help="a folder that has exports, or gets them")
    parser.add_argument("--of-pytorch", help=argparse.SUPPRESS)
    asks = parser.parse_args()
    if asks.of_pytorch:
        return print(json.dumps(of_pytorch(asks.of_pytorch, json.loads(sys.stdin.readline()))))
    table(asks.names or FAMILIES, asks)


if __name__ == "__main__":
    main()
