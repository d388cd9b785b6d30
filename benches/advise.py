#!/usr/bin/env python3
"""How long advice on a network takes, from the start of the program to its end; it is to take at most 100 ms.

    cargo build --release
    python3 benches/advise.py target/release/perf4sight [NETWORK ...]

Known networks, or files: AdamW at batch 16 before limits that nothing, several changes together, or one change keeps, for a kind of device whose allocator is
replayed and with a fingerprint that was fitted. Milliseconds, the median of seven.
"""
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
KNOWN = ("alexnet", "vgg11", "vgg13", "vgg16", "vgg19", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "mobilenetv2", "squeezenet",
         "mnasnet", "googlenet")
DEVICES = {"orin": ["--target", "orin"], "epyc-1-core": ["--fingerprint", os.path.join(ROOT, "fingerprinting/epyc-1-core/imagenet")]}
LIMITS = ("300MiB", "2GiB", "8GiB")
TURNS = 7


def answered(command):
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return 1e3 * (time.perf_counter() - begin)


def main():
    program, networks = os.path.abspath(sys.argv[1]), sys.argv[2:] or KNOWN
    asked = [(device, limit) for limit in LIMITS for device in DEVICES]
    print("| network | %s |\n|%s" % (" | ".join("%s, %s" % of for of in asked), "---|" * (1 + len(asked))))
    for network in networks:
        command = [program, "advise", network, "--batch", "16", "--optimizer", "adamw"]
        medians = [statistics.median(answered(command + DEVICES[device] + ["--mem-limit", limit]) for _ in range(TURNS)) for device, limit in asked]
        print("| %s | %s |" % (os.path.basename(network), " | ".join("%.0f" % median for median in medians)), flush=True)


if __name__ == "__main__":
    main()
