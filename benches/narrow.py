#!/usr/bin/env python3
"""How long PyTorch's operations take in bfloat16, over the same in single precision, on one thread of this processor.

    python3 benches/narrow.py [NETWORK ...] [--batch 4]

Steps of torchvision's networks (cross-entropy, SGD with momentum) with and without autocast in turns, each operation's own time by PyTorch's profiler, the
quicker of two turns; one line an operation that takes at least a millisecond somewhere. Then gradients of the inputs of depthwise convolutions with steps, for
which oneDNN has no depthwise code in bfloat16 (`ONEDNN_VERBOSE=1`). Needs torch and torchvision. The figures are in docs/accuracy/latency.md.
"""
import argparse
import collections
import statistics
import time
import warnings

import torch
import torch.nn.functional as functional
import torchvision
from torch.profiler import ProfilerActivity, profile

NETWORKS = ("resnet50", "densenet121", "shufflenet_v2_x1_0", "mobilenet_v3_large", "vgg11_bn", "regnet_x_400mf")
# Channels, pixels on a side, width of the kernel: those of mobilenet_v2, and wider ones.
DEPTHWISE = ((96, 112, 3), (144, 56, 3), (192, 28, 3), (576, 14, 3), (72, 56, 5), (240, 28, 5), (576, 14, 5))
LEAST_MS = 1.0


def stepping(name, batch):
    """A step of a network, with or without autocast."""
    network = getattr(torchvision.models, name)(weights=None).train()
    images, labels = torch.randn(batch, 3, 224, 224), torch.randint(0, 1000, (batch,))
    optimizer = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9)

    def step(narrow):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            loss = functional.cross_entropy(network(images), labels)
        loss.backward()
        optimizer.step()

    return step


def own_times(step, narrow):
    """Milliseconds of a step by operation."""
    step(narrow)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        step(narrow)
    return {event.key: event.self_cpu_time_total / 1e3 for event in profiler.key_averages() if event.key.startswith("aten::")}


def ratios(name, batch):
    """Of every operation that takes long enough how long it takes in both, in milliseconds."""
    step, best = stepping(name, batch), collections.defaultdict(lambda: [float("inf")] * 2)
    for narrow in (False, True) * 2:
        for operation, spent in own_times(step, narrow).items():
            best[operation][narrow] = min(best[operation][narrow], spent)
    return {operation: pair for operation, pair in best.items() if LEAST_MS <= max(pair) < float("inf")}


def depthwise(channels, side, width, batch):
    """Milliseconds of the gradient of the input in both."""
    spent = []
    for kind in (torch.float32, torch.bfloat16):
        image = torch.randn(batch, channels, side, side, dtype=kind, requires_grad=True)
        result = functional.conv2d(image, torch.randn(channels, 1, width, width, dtype=kind), None, 2, width // 2, 1, channels)
        gradient, turns = torch.randn_like(result), []
        for _ in range(5):
            begin = time.perf_counter()
            torch.autograd.grad(result, [image], gradient, retain_graph=True)
            turns.append(1e3 * (time.perf_counter() - begin))
        spent.append(min(turns))
    return spent


def main():
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description="operations in bfloat16 over single precision")
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--batch", type=int, default=4)
    asks = parser.parse_args()
    torch.set_num_threads(1)
    found = collections.defaultdict(list)
    for name in asks.networks or NETWORKS:
        for operation, (single, narrow) in ratios(name, asks.batch).items():
            found[operation].append(narrow / single)
    print("| operation | networks | times single precision, median | from | to |\n|---|---|---|---|---|")
    for operation, all_ratios in sorted(found.items()):
        row = (operation, len(all_ratios), statistics.median(all_ratios), min(all_ratios), max(all_ratios))
        print("| %s | %d | %.2f | %.2f | %.2f |" % row)
    print("\n| depthwise, input's gradient | single, bfloat16 | times |\n|---|---|---|")
    for channels, side, width in DEPTHWISE:
        single, narrow = depthwise(channels, side, width, asks.batch)
        print("| %d channels of %dx%d, %dx%d, step 2 | %.2f, %.2f ms | %.1f |" % (channels, side, side, width, width, single, narrow, narrow / single))


if __name__ == "__main__":
    main()
