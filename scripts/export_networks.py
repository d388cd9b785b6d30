#!/usr/bin/env python3
"""Exports networks of torchvision and timm as people do, to see what perf4sight makes of them.

    python scripts/export_networks.py target/exports tv.resnet18 skresnet34 unet ...
    cargo test --test suite foreign_exports -- --ignored --nocapture

`tv.NAME` is torchvision's, `unet` the one below, any other name timm's; weights are random, nothing is downloaded. Of each network
come three files without weights, {name}.legacy.onnx (the call in docs/networks.md), {name}.default.onnx (dynamo=True) and {name}.plain.onnx
(dynamo=True, optimize=False), and {name}.json with what PyTorch itself counts. Needs torch, torchvision, timm, onnx and onnxscript.
"""
import json
import os
import sys

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

DYNAMIC = {"input": {0: "batch"}, "output": {0: "batch"}}
WAYS = {
    "legacy": dict(export_params=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, dynamo=False,
                   input_names=["input"], output_names=["output"], dynamic_axes=DYNAMIC),
    "default": dict(dynamo=True, verbose=False),
    "plain": dict(dynamo=True, optimize=False, verbose=False),
}


def block(inputs, outputs):
    def layer(channels):
        return [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layer(inputs), *layer(outputs))


class UNet(nn.Module):
    """Down by pooling, up by transposed convolutions, joined across."""

    def __init__(self, widths=(16, 32, 64, 128)):
        super().__init__()
        self.down = nn.ModuleList(block(a, b) for a, b in zip((3,) + widths, widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.join = nn.ModuleList(block(2 * a, a) for a in widths[:-1])
        self.classify = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        kept = []
        for down in self.down:
            x = down(nn.functional.max_pool2d(x, 2) if kept else x)
            kept.append(x)
        kept.pop()
        for up, join in zip(reversed(self.up), reversed(self.join)):
            x = join(torch.cat([up(x), kept.pop()], 1))
        return self.classify(x)


def build(name):
    """A network and the height of its images."""
    if name == "unet":
        return UNet(), 224
    if name.startswith("tv."):
        import torchvision
        known = {"googlenet": dict(aux_logits=False, init_weights=False), "inception_v3": dict(aux_logits=False, init_weights=False)}
        network = getattr(torchvision.models, name[3:])(weights=None, **known.get(name[3:], {}))
        return network, 299 if name == "tv.inception_v3" else 224
    import timm
    network = timm.create_model(name, pretrained=False)
    return network, network.pretrained_cfg["input_size"][-1]


def counted(network, size):
    """Trained elements, and multiply-accumulates of one image."""
    network.eval()
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        network(torch.randn(1, 3, size, size))
    return {"parameters": sum(p.numel() for p in network.parameters()), "macs": counter.get_total_flops() // 2}


def main(folder, *names):
    os.makedirs(folder, exist_ok=True)
    for name in names:
        network, size = build(name)
        counts = counted(network, size)
        with open(os.path.join(folder, name + ".json"), "w") as file:
            json.dump(counts, file)
        network.train()
        for way, options in WAYS.items():
            path = os.path.join(folder, "%s.%s.onnx" % (name, way))
            try:
                torch.onnx.export(network, torch.randn(2, 3, size, size), path, **options)
            except Exception as problem:  # whatever the exporter cannot do: that is one of the results
                print(name, way, str(problem).splitlines()[0], flush=True)
            if os.path.exists(path + ".data"):
                os.remove(path + ".data")
        print(name, counts, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
