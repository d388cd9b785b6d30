#!/usr/bin/env python3
"""Makes the exports in tests/suite/exports/attention, whose memory the tests compare: attention, and what else is made of tokens, as PyTorch's users
write it.

    python scripts/export_attention.py tests/suite/exports/attention

Beside the files peaks.csv says how much memory a training step of each takes in PyTorch: all tensors at once, of one thread on a processor, with
SGD with momentum and gradients that are freed. Values are left out of the files. Needs torch, onnx and onnxscript.
"""
import csv
import os
import sys
import warnings

import onnx
import torch
from torch import nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

WIDTH, HEADS, TOKENS, BATCH = 64, 4, 64, 16


class Network(nn.Module):
    """Patches as tokens, layers between them, and a classifier of their mean."""

    def __init__(self, layer, batch_first=True):
        super().__init__()
        self.patches, self.classify = nn.Conv2d(3, WIDTH, 2, 2), nn.Linear(WIDTH, 10)
        self.layers, self.batch_first = nn.ModuleList(layer() for _ in range(2)), batch_first

    def forward(self, images):
        x = self.patches(images).flatten(2)
        x = x.transpose(1, 2) if self.batch_first else x.permute(2, 0, 1)
        for layer in self.layers:
            x = layer(x)
        return self.classify(x.mean(1 if self.batch_first else 0))


class Whole(nn.Module):
    """`nn.MultiheadAttention` of tokens with themselves, or with what another layer makes of them."""

    def __init__(self, dropout, weights, across=False):
        super().__init__()
        self.attention, self.weights = nn.MultiheadAttention(WIDTH, HEADS, dropout, batch_first=True), weights
        self.read = nn.Linear(WIDTH, WIDTH) if across else None

    def forward(self, x):
        # A rectifier's result is kept, too.
        read = functional.relu(self.read(x)) if self.read else x
        return x + self.attention(x, read, read, need_weights=self.weights)[0]


class Decoder(nn.Module):
    """Queries that are learned, tokens in front of samples."""

    def __init__(self, dropout):
        super().__init__()
        self.patches, self.classify = nn.Conv2d(3, WIDTH, 2, 2), nn.Linear(WIDTH, 10)
        self.queries = nn.Parameter(torch.zeros(48, 1, WIDTH))
        self.layers = nn.ModuleList(nn.TransformerDecoderLayer(WIDTH, HEADS, 128, dropout) for _ in range(2))

    def forward(self, images):
        read = self.patches(images).flatten(2).permute(2, 0, 1)
        x = self.queries.expand(-1, read.shape[1], -1)
        for layer in self.layers:
            x = layer(x, read)
        return self.classify(x.mean(0))


class Biased(nn.Module):
    """Scores with a bias that is learned."""

    def __init__(self):
        super().__init__()
        self.read, self.write = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.bias = nn.Parameter(torch.zeros(HEADS, TOKENS, TOKENS))

    def forward(self, x):
        parts = self.read(x).view(-1, TOKENS, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        x = x + self.write(functional.scaled_dot_product_attention(*parts, attn_mask=self.bias).transpose(1, 2).flatten(2))
        return x


class Placed(nn.Module):
    """The first rows of a table of places, which is longer: learned, or kept as waves are (PyTorch's transformer tutorial)."""

    def __init__(self, learned):
        super().__init__()
        table = torch.zeros(1, 1024, WIDTH)
        if learned:
            self.places = nn.Parameter(table)
        else:
            self.register_buffer("pe", table)
        self.read, self.write = nn.Linear(WIDTH, 128), nn.Linear(128, WIDTH)

    def forward(self, x):
        places = self.pe if hasattr(self, "pe") else self.places
        return self.write(functional.gelu(self.read(x + places[:, :x.size(1)])))


class Turned(nn.Module):
    """Images turned to tokens and back, as in ConvNeXt."""

    def __init__(self):
        super().__init__()
        self.patches, self.classify = nn.Conv2d(3, WIDTH, 2, 2), nn.Linear(WIDTH, 10)
        self.filters = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 7, padding=3, groups=WIDTH) for _ in range(2))
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256), nn.GELU(), nn.Linear(256, WIDTH)) for _ in range(2))

    def forward(self, images):
        x = self.patches(images)
        for filters, layer in zip(self.filters, self.layers):
            x = x + layer(filters(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.classify(x.mean((2, 3)))


def encoder(dropout, batch_first=True):
    return nn.TransformerEncoderLayer(WIDTH, HEADS, 128, dropout, batch_first=batch_first)


NETWORKS = {
    "biased": lambda: Network(Biased),
    "crossed": lambda: Network(lambda: Whole(0.0, False, across=True)),
    "decoder": lambda: Decoder(0.0),
    "decoder_dropped": lambda: Decoder(0.1),
    "dropped": lambda: Network(lambda: Whole(0.1, False)),
    "encoder": lambda: Network(lambda: encoder(0.0)),
    "encoder_dropped": lambda: Network(lambda: encoder(0.1)),
    "encoder_tokens_first": lambda: Network(lambda: encoder(0.1, batch_first=False), batch_first=False),
    "fused": lambda: Network(lambda: Whole(0.0, False)),
    "placed": lambda: Network(lambda: Placed(False)),
    "placed_learned": lambda: Network(lambda: Placed(True)),
    "turned": Turned,
    "weights": lambda: Network(lambda: Whole(0.0, True)),
}

BOTH_WAYS = ("biased", "decoder_dropped", "dropped", "placed", "placed_learned")


def images(batch):
    return torch.rand(batch, 3, 16, 16)


def peak(network):
    """Bytes of all tensors at once within a step that is not the first."""
    data, labels = images(BATCH), torch.zeros(BATCH, dtype=torch.int64)
    optimizer = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9)

    def step():
        optimizer.zero_grad()
        functional.cross_entropy(network(data), labels).backward()
        optimizer.step()

    step()
    optimizer.zero_grad()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    changes = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(changes, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    # Parameters, and their momentum; buffers.
    held = sum(2 * parameter.nbytes for parameter in network.parameters()) + sum(buffer.nbytes for buffer in network.buffers())
    return held + data.nbytes + labels.nbytes + most


def export(network, path, default):
    batch = dict(dynamic_shapes=({0: torch.export.Dim("batch")},)) if default else dict(
        input_names=["images"], dynamic_axes={"images": {0: "batch"}}, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
    torch.onnx.export(network, (images(2),), path, dynamo=default, **batch)
    model = onnx.load(path)
    for node in model.graph.node:
        kept = [note for note in node.metadata_props if note.key.endswith(("fx_node", "rule_name"))]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) > 1024:
            tensor.ClearField("raw_data")
    onnx.save(model, path)
    if os.path.exists(path + ".data"):
        os.remove(path + ".data")


def main(folder):
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    os.makedirs(folder, exist_ok=True)
    rows = []
    for name, build in sorted(NETWORKS.items()):
        torch.manual_seed(0)
        for way in ("default", "legacy") if name in BOTH_WAYS else ("default",):
            export(build().train(), os.path.join(folder, "%s.%s.onnx" % (name, way)), way == "default")
        rows.append([name, BATCH, peak(build().train())])
        print(rows[-1], flush=True)
    with open(os.path.join(folder, "peaks.csv"), "w", newline="") as file:
        file.write("# PyTorch %s, by scripts/export_attention.py: bytes of all tensors at once within a training step\n" % torch.__version__.split("+")[0])
        csv.writer(file, lineterminator="\n").writerows([["network", "batch", "bytes"]] + rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
