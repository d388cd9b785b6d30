#!/usr/bin/env python3
"""Exports networks of torchvision and timm as people do, to see what perf4sight makes of them.

    python scripts/export_networks.py target/exports [NAME ...]     (without names: all of scripts/networks.txt)
    cargo test --test suite foreign_exports -- --ignored --nocapture

`tv.NAME` is torchvision's, `seg.NAME` and `aux.NAME` its segmentation without and with the auxiliary output, `det.NAME` the backbone of
its detection, `unet` the one below, `tok.NAME` one of token_networks.py, any other name timm's; weights are random, nothing is downloaded. Of each network come two files
without weights, {name}.legacy.onnx (the call in docs/networks.md) and {name}.default.onnx (dynamo=True), and {name}.json with what PyTorch
itself counts and what the exporters said. Every export runs in a process of its own under a time limit; networks that have their
{name}.json are passed over, so that the same command goes on where it stopped. Needs torch, torchvision, timm, onnx and onnxscript.
"""
import json
import multiprocessing
import os
import sys
import warnings

import timm
import torch
import torchvision
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import token_networks

LIMIT_S = 420
WAYS = {
    "legacy": dict(export_params=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, dynamo=False),
    "default": dict(dynamo=True, verbose=False),
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


def images(size):
    """The one input of most networks."""
    return {"input": (3, size, size)}


def samples(inputs, batch):
    """A batch of every input, in order."""
    return tuple(token_networks.sample(sizes, batch) for sizes in inputs.values())


def build(name):
    """A network and its inputs: by name the sizes of one sample."""
    if name.startswith("tok."):
        make, inputs = token_networks.NETWORKS[name[4:]]
        return make(), inputs
    network, size = of_images(name)
    return network, images(size)


def of_images(name):
    """A network and the height of its images."""
    kind, _, rest = name.partition(".")
    models = torchvision.models
    if name == "unet":
        return UNet(), 224
    if kind == "tv":
        known = {"googlenet": dict(aux_logits=False, init_weights=False), "inception_v3": dict(aux_logits=False, init_weights=False)}
        return getattr(models, rest)(weights=None, **known.get(rest, {})), 299 if rest == "inception_v3" else 224
    if kind in ("seg", "aux"):
        auxiliary = {"aux_loss": True} if kind == "aux" else {}
        return getattr(models.segmentation, rest)(weights=None, weights_backbone=None, **auxiliary), 224
    if kind == "det":
        return getattr(models.detection, rest)(weights=None, weights_backbone=None).backbone, 320
    network = timm.create_model(name, pretrained=False)
    return network, network.pretrained_cfg["input_size"][-1]


def counted(name, folder):
    """Trained elements, and multiply-accumulates of one image: attention and recurrent layers as the products they are made of, which
    the counter sees only where no fused kernel runs."""
    network, inputs = build(name)
    network.eval().requires_grad_(False)
    recurrent = any(isinstance(part, nn.RNNBase) for part in network.modules())
    torch.backends.mha.set_fastpath_enabled(False)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=not recurrent), counter:
        network(*samples(inputs, 1))
    return {"parameters": sum(p.numel() for p in network.parameters()), "macs": counter.get_total_flops() // 2}


def exported(name, folder, way):
    network, inputs = build(name)
    legacy = dict(input_names=list(inputs), output_names=["output"], dynamic_axes={name: {0: "batch"} for name in [*inputs, "output"]})
    path = os.path.join(folder, "%s.%s.onnx" % (name, way))
    try:
        torch.onnx.export(network.train(), samples(inputs, 2), path, **WAYS[way], **(legacy if way == "legacy" else {}))
        return {way: "exported"}
    finally:
        if os.path.exists(path + ".data"):
            os.remove(path + ".data")


def limited(task, *arguments):
    """What a task says, run in a process of its own."""
    def child(end):
        warnings.filterwarnings("ignore")
        torch.set_num_threads(1)
        try:
            end.send(task(*arguments))
        except Exception as problem:  # whatever the exporter cannot do: that is one of the results
            end.send("%s: %s" % (type(problem).__name__, (str(problem).splitlines() or [""])[0]))
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=child, args=(theirs,))
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(LIMIT_S) else "not within %d s" % LIMIT_S
    except EOFError:
        return "ended without a word"
    finally:
        process.kill()
        process.join()


def main(folder, *names):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "networks.txt")) as file:
        known = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    export(folder, names or known)


def export(folder, names):
    for name in names:
        path = os.path.join(folder, name + ".json")
        if os.path.exists(path):
            continue
        said = limited(counted, name, folder)
        result = said if isinstance(said, dict) else {"counts": said}
        for way in WAYS:
            said = limited(exported, name, folder, way)
            result.update(said if isinstance(said, dict) else {way: said})
        with open(path, "w") as file:
            json.dump(result, file)
        print(name, result, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
