#!/usr/bin/env python3
"""How far memory of networks of torchvision and timm is off on a GPU.

    python3 benches/gpu_memory.py --measure FILE.csv                                    on a machine with a GPU
    cargo build --release
    PYTHONPATH=python PATH=target/release:$PATH python3 benches/gpu_memory.py benches/h100-memory.csv --target hopper_tf32

Peaks of PyTorch's allocator in the third of three steps with AdamW, each network in a process of its own; PyTorch's defaults, so that convolutions
are TF32 and products of matrices are not. The file of an H100 is of PyTorch 2.11. Needs torch, torchvision and timm.
"""
import argparse
import csv
import os
import statistics

import timm
import torch
import torchvision

NETWORKS = {
    "torchvision": [
        "alexnet", "vgg16", "resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "googlenet", "squeezenet1_0",
        "densenet121", "shufflenet_v2_x1_0", "mnasnet1_0", "regnet_y_400mf", "convnext_tiny", "vit_b_16", "swin_t", "resnext50_32x4d",
        "wide_resnet50_2", "maxvit_t", "vgg11_bn",
    ],
    "timm": [
        "convmixer_768_32", "resnet50d", "ese_vovnet57b", "xception41", "dla60", "hrnet_w18", "repvgg_b0", "mixer_b16_224",
        "deit_small_patch16_224", "poolformer_s24", "ghostnet_100", "nfnet_l0", "darknet53", "eca_nfnet_l0", "cspresnet50", "halonet26t",
        "coatnet_0_rw_224", "edgenext_small", "efficientvit_b1", "mobileone_s1",
    ],
}
BATCHES = (8, 64)
COLUMNS = ["library", "network", "pixels", "batch", "allocated_mib", "reserved_mib"]
MIB = 2 ** 20


def made(library, name):
    """A network in training mode, and the pixels of its images."""
    if library == "timm":
        network = timm.create_model(name).train()
        return network, network.default_cfg["input_size"][-1]
    more = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    return getattr(torchvision.models, name)(weights=None, **more).train(), 224


def measured(library, name, batch):
    network, pixels = made(library, name)
    network = network.cuda()
    optimizer = torch.optim.AdamW(network.parameters())
    images, classes = torch.rand(batch, 3, pixels, pixels, device="cuda"), torch.zeros(batch, dtype=torch.long, device="cuda")
    for _ in range(3):
        torch.cuda.reset_peak_memory_stats()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(images), classes).backward()
        optimizer.step()
    return [library, name, pixels, batch, "%.1f" % (torch.cuda.max_memory_allocated() / MIB), torch.cuda.max_memory_reserved() // MIB]


def measure(file):
    """One process a network: what a network before it left in the allocator would count."""
    with open(file, "x", newline="") as sink:
        csv.writer(sink).writerow(COLUMNS)
    for batch in BATCHES:
        for library, names in NETWORKS.items():
            for name in names:
                child = os.fork()
                if child == 0:
                    row = measured(library, name, batch)
                    with open(file, "a", newline="") as sink:
                        csv.writer(sink).writerow(row)
                    os._exit(0)
                if os.waitpid(child, 0)[1] != 0:
                    print("%s failed at batch %d" % (name, batch))


def simulated(row, target):
    """MiB allocated and reserved."""
    import perf4sight
    network, pixels = made(row["library"], row["network"])
    images = torch.rand(int(row["batch"]), 3, pixels, pixels)
    estimate = perf4sight.estimate_memory(network, images, target=target, optimizer="adamw")
    tensors = sum(part.amount for part in estimate.components if part.name != "fragmentation")
    return tensors / MIB, estimate.tensors_bytes / MIB


def compare(file, target):
    off = {"allocated": [], "reserved": []}
    print("| network | batch | allocated | off | reserved | off |\n|---|---|---|---|---|---|")
    for row in csv.DictReader(open(file)):
        cells = []
        for quantity, said in zip(off, simulated(row, target)):
            truth = float(row[quantity + "_mib"])
            off[quantity].append(said / truth - 1)
            cells += ["%.0f MiB" % truth, "%+.1f %%" % (100 * off[quantity][-1])]
        print("| %s | %s | %s |" % (row["network"], row["batch"], " | ".join(cells)), flush=True)
    for quantity, errors in off.items():
        errors = [abs(error) for error in errors]
        print("%s: %.1f %% in the median, %.1f %% on average, %d of %d within 10 %%" % (
            quantity, 100 * statistics.median(errors), 100 * statistics.mean(errors), sum(error <= 0.1 for error in errors), len(errors)))


def main():
    parser = argparse.ArgumentParser(description="memory of networks on a GPU")
    parser.add_argument("file")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--target", default="hopper_tf32")
    settings = parser.parse_args()
    measure(settings.file) if settings.measure else compare(settings.file, settings.target)


if __name__ == "__main__":
    main()
