#!/usr/bin/env python3
"""How far memory is off on an A100, by figures that others published.

    cargo build --release
    PYTHONPATH=python PATH=target/release:$PATH python3 benches/a100.py [--target cuda]

What nvidia-smi showed at most while PyTorch trained for an epoch (itu-rad/CARMA, workloads/ehsan-summary.csv of September 2025, MiB), with
Adam on images of ImageNet and AdamW on those of CIFAR-100. It includes CUDA's context, which no simulation knows: one constant, fitted to the other
networks. Needs torch, torchvision and timm.
"""
import argparse
import statistics

# Each network: who makes it, classes, pixels, and MiB by batch size. UNet is left out: another library makes it.
PUBLISHED = [
    ("torchvision", "vgg16", 1000, 224, {32: 6684, 64: 11760, 128: 21864}),
    ("torchvision", "resnet50", 1000, 224, {32: 3934, 64: 7106, 128: 13236}),
    ("torchvision", "mobilenet_v2", 1000, 224, {32: 3352, 64: 6032, 128: 11336}),
    ("torchvision", "efficientnet_b0", 1000, 224, {32: 3752, 64: 6692, 128: 12666}),
    ("torchvision", "inception_v3", 1000, 299, {32: 5230, 64: 9332, 128: 17830}),
    ("timm", "xception", 1000, 224, {32: 5918, 64: 11106, 128: 21236}),
    ("timm", "resnet18", 100, 32, {32: 788, 64: 796, 128: 858}),
    ("timm", "resnet34", 100, 32, {32: 1002, 64: 1016, 128: 1074}),
    ("timm", "efficientnet_b0", 100, 32, {32: 666, 64: 720, 128: 866}),
    ("timm", "mobilenetv3_small_100", 100, 32, {32: 590, 64: 598, 128: 632}),
]
CONTEXTS = range(200, 1000, 5)


def made(library, name, classes):
    if library == "timm":
        import timm
        return timm.create_model(name, num_classes=classes).train()
    import torchvision
    more = {"aux_logits": False, "init_weights": False} if name == "inception_v3" else {}
    return getattr(torchvision.models, name)(weights=None, num_classes=classes, **more).train()


def simulated(library, name, classes, pixels, batch, target):
    """The estimate of a step, in bytes."""
    import torch
    import perf4sight
    optimizer = "adam" if classes == 1000 else "adamw"
    return perf4sight.estimate_memory(made(library, name, classes), torch.rand(batch, 3, pixels, pixels), target=target, optimizer=optimizer)


def off(row, context):
    return (row["tensors"] + context) / row["mib"] - 1


def context_of(rows):
    return min(CONTEXTS, key=lambda context: statistics.mean(abs(off(row, context)) for row in rows))


def main():
    parser = argparse.ArgumentParser(description="memory on an A100")
    parser.add_argument("--target", default="cuda_tf32")
    target = parser.parse_args().target
    rows = []
    for library, name, classes, pixels, published in PUBLISHED:
        for batch, mib in published.items():
            estimate = simulated(library, name, classes, pixels, batch, target)
            tensors, low, high = (size / 2 ** 20 for size in (estimate.tensors_bytes, estimate.low_bytes, estimate.high_bytes))
            rows.append({"name": (name, pixels), "batch": batch, "mib": mib, "tensors": tensors, "held": low <= mib <= high})
    print("| network | pixels | batch | nvidia-smi | simulated and the context | off |\n|---|---|---|---|---|---|")
    errors = []
    for row in rows:
        context = context_of([other for other in rows if other["name"] != row["name"]])
        errors.append(abs(off(row, context)))
        print("| %s | %d | %d | %d MiB | %.0f + %d MiB | %+.1f %% |" % (
            *row["name"], row["batch"], row["mib"], row["tensors"], context, 100 * off(row, context)))
    print("%s: off by %.1f %% in the median, %.1f %% on average, %d of %d rows within 10 %%; %d intervals hold" % (
        target, 100 * statistics.median(errors), 100 * statistics.mean(errors), sum(error <= 0.1 for error in errors), len(rows),
        sum(row["held"] for row in rows)))


if __name__ == "__main__":
    main()
