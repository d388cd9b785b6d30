#!/usr/bin/env python3
"""What a plain PyTorch loop takes besides its tensors: the peak of its anonymous memory, against the tensors that perf4sight simulates.

    PYTHONPATH=python PATH=target/release:$PATH python3 benches/process_memory.py

Every loop runs in a process of its own, on one thread, eight steps of SGD with momentum. Needs torch and torchvision, on Linux.
"""
import re
import subprocess
import sys
import threading
import time

LOOPS = (("mlp", 8), ("small", 16), ("small", 172), ("resnet18", 4), ("resnet18", 32), ("mobilenet_v2", 32), ("squeezenet1_0", 64), ("vgg11", 8))
MIB = 2**20


def anonymous():
    """MiB of this process that no file backs."""
    with open("/proc/self/status") as status:
        return int(re.search(r"RssAnon:\s+(\d+)", status.read()).group(1)) / 1024


def made(name, batch):
    """A network and a function that draws its inputs."""
    import torch
    from torch import nn
    if name == "mlp":
        return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)), lambda: torch.randn(batch, 64)
    if name == "small":
        def block(inputs, outputs):
            return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())
        head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
        return nn.Sequential(block(3, 32), block(32, 64), nn.MaxPool2d(2), block(64, 64), *head), lambda: torch.randn(batch, 3, 64, 64)
    import torchvision
    return getattr(torchvision.models, name)(), lambda: torch.randn(batch, 3, 96, 96)


def loop(name, batch):
    import torch
    imported, peak = anonymous(), [0.0]
    torch.set_num_threads(1)
    network, inputs = made(name, batch)

    def watch():
        while True:
            peak[0] = max(peak[0], anonymous())
            time.sleep(0.0005)

    threading.Thread(target=watch, daemon=True).start()
    optimizer = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9)
    for _ in range(8):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(inputs()), torch.zeros(batch, dtype=torch.long)).backward()
        optimizer.step()
    all_used = peak[0]
    import perf4sight
    tensors = perf4sight.estimate_memory(network, inputs(), target="cpu", optimizer=optimizer).tensors_bytes / MIB
    print("%-14s %5d %13.0f %9.0f %9.0f %9.0f" % (name, batch, imported, all_used, tensors, all_used - tensors))


def main():
    if len(sys.argv) > 2:
        return loop(sys.argv[1], int(sys.argv[2]))
    print("network        batch  import torch  all, MiB   tensors  besides")
    for name, batch in LOOPS:
        sys.stdout.flush()
        subprocess.run([sys.executable, "-W", "ignore", __file__, name, str(batch)], check=True)


if __name__ == "__main__":
    main()
