#!/usr/bin/env python3
"""Single layers drawn at random, on one to eight threads: how far the memory of a training step is off what PyTorch's allocator sees.

    cargo build
    PYTHONPATH=python PATH=target/debug:$PATH python3 benches/drawn_layers.py [--seed 11] [--layers 24] [--threads 1,2,4,8] [KIND ...]

Each layer stands behind a 1x1 convolution and a ReLU, so that the gradient of its input is computed too. Three steps of AdamW, as in
`drawn.py`. What a kernel borrows is a large part of such a small network: in whole networks the same bytes are a small one. Needs torch.
"""
import argparse
import os
import random
import statistics
import sys
import warnings

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../workers")]


class Behind:
    """A module with a layer behind a pointwise convolution of as many axes, which reads 4 channels."""

    def __new__(cls, first, layer):
        import torch
        return torch.nn.Sequential(first, torch.nn.ReLU(), layer)


def image(draw, kernel=None, groups=(1,), channels=(3, 4, 8, 12, 16, 20, 32, 48, 64, 96, 128, 256)):
    """A convolution of images, its shape in words, and its input's."""
    from torch import nn
    groups = draw.choice(groups)
    width = (3, 4, 6, 8, 16, 32) if groups > 1 else channels
    read, made = groups * draw.choice(width), groups * draw.choice(width if groups > 1 else (3, 8, 16, 24, 32, 48, 64, 128, 256))
    samples, side = draw.choice((1, 2, 3, 4, 5, 6, 8, 16)), draw.choice((5, 8, 12, 14, 17, 20, 28, 32, 40, 56, 64))
    kernel = kernel or draw.choice((2, 3, 3, 3, 5, 7))
    stride = draw.choice((1, 1, 2))
    dilation = draw.choice((1, 1, 1, 2, 4)) if stride == 1 and kernel > 1 else 1
    bias = draw.random() < 0.5
    words = "%d -> %d, %dx%d, stride %d, dilation %d, groups %d, %d x %dx%d" % (read, made, kernel, kernel, stride, dilation, groups, samples, side, side)
    layer = lambda: nn.Conv2d(read, made, kernel, stride, (kernel - 1) // 2 * dilation, dilation, groups, bias)
    return words, lambda: Behind(nn.Conv2d(4, read, 1), layer()), (samples, 4, side, side)


def transposed(draw):
    from torch import nn
    read, made = draw.choice((3, 4, 8, 16, 20, 32, 48, 64, 96, 128)), draw.choice((3, 8, 16, 24, 32, 48, 64))
    samples, side = draw.choice((2, 3, 4, 5, 6, 8)), draw.choice((5, 8, 12, 14, 17, 20, 28, 40))
    kernel, stride = draw.choice((2, 3, 4, 6)), draw.choice((1, 2, 2, 3))
    words = "%d -> %d, %dx%d, stride %d, %d x %dx%d" % (read, made, kernel, kernel, stride, samples, side, side)
    layer = lambda: nn.ConvTranspose2d(read, made, kernel, stride, (kernel - 1) // 2)
    return words, lambda: Behind(nn.Conv2d(4, read, 1), layer()), (samples, 4, side, side)


def sequence(draw):
    from torch import nn
    read, made, samples, length = draw.choice((3, 8, 16, 64)), draw.choice((8, 16, 64)), draw.choice((1, 2, 4, 8)), draw.choice((50, 200, 1000))
    kernel, stride = draw.choice((3, 5, 9, 16)), draw.choice((1, 1, 2))
    dilation = draw.choice((1, 1, 2, 8)) if stride == 1 else 1
    words = "%d -> %d, %d, stride %d, dilation %d, %d x %d" % (read, made, kernel, stride, dilation, samples, length)
    layer = lambda: nn.Conv1d(read, made, kernel, stride, (kernel - 1) // 2 * dilation, dilation)
    return words, lambda: Behind(nn.Conv1d(4, read, 1), layer()), (samples, 4, length)


def volume(draw):
    from torch import nn
    read, made, samples, side = draw.choice((3, 8, 16, 32)), draw.choice((8, 16, 32)), draw.choice((1, 2, 4)), draw.choice((6, 8, 12, 16))
    kernel, stride = draw.choice((1, 3, 3)), draw.choice((1, 1, 2))
    words = "%d -> %d, %d, stride %d, %d x %d" % (read, made, kernel, stride, samples, side)
    layer = lambda: nn.Conv3d(read, made, kernel, stride, (kernel - 1) // 2)
    return words, lambda: Behind(nn.Conv3d(4, read, 1), layer()), (samples, 4, side, side, side)


def channels_last(draw):
    import torch
    words, make, shape = image(draw, channels=(3, 8, 16, 32, 64))
    return words, lambda: make().to(memory_format=torch.channels_last), shape


def attention(draw):
    from torch import nn
    features, heads, tokens, samples = draw.choice((32, 64, 128)), draw.choice((1, 2, 4)), draw.choice((20, 100, 200, 300)), draw.choice((1, 2, 4))
    layer = lambda: nn.TransformerEncoderLayer(features, heads, 2 * features, dropout=0.0, batch_first=True)
    return "%d features, %d heads, %d x %d" % (features, heads, samples, tokens), layer, (samples, tokens, features)


KINDS = {
    "image": image, "point": lambda draw: image(draw, kernel=1), "groups": lambda draw: image(draw, groups=(2, 4, 8)), "transposed": transposed,
    "sequence": sequence, "volume": volume, "channels_last": channels_last, "attention": attention,
}


def steps(make, shape, last):
    """Three training steps, as in `drawn.py`."""
    import drawn
    import torch
    network, inputs, classes = make().train(), given(shape, last), []
    optimizer = torch.optim.AdamW(network.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        loss = drawn.loss_of(network, inputs, classes)
        loss.backward()
        del loss
        optimizer.step()


def given(shape, last):
    import torch
    inputs = torch.rand(shape)
    return inputs.to(memory_format=torch.channels_last) if last else inputs


def off(kind, make, shape, threads):
    """By how many percent the answer is off."""
    import perf4sight
    import torch
    import torch_worker
    torch.set_num_threads(threads)
    last = kind == "channels_last"
    memory = torch_worker.ProcessMemory(None)
    memory.count(lambda: steps(make, shape, last))
    estimate = perf4sight.estimate_memory(make(), given(shape, last), optimizer="adamw", zero_grad="free", target="cpu")
    return 100 * (estimate.tensors_bytes / memory.allocated - 1)


def main():
    parser = argparse.ArgumentParser(description="single layers drawn at random")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--layers", type=int, default=24, help="of each kind")
    parser.add_argument("--threads", type=lambda text: [int(number) for number in text.split(",")], default=[1, 2, 4, 8])
    asks = parser.parse_args()
    warnings.filterwarnings("ignore")
    for kind in asks.kinds or KINDS:
        draw, rows = random.Random(asks.seed), []
        while len(rows) < asks.layers:
            words, make, shape = KINDS[kind](draw)
            rows.append([off(kind, make, shape, threads) for threads in asks.threads])
            print("%-14s %-70s %s" % (kind, words, "  ".join("%+.2f %%" % found for found in rows[-1])), flush=True)
        for threads, found in zip(asks.threads, zip(*rows)):
            found = sorted(map(abs, found))
            print("%s on %d threads: off by %.3f %% in the median, %.2f %% on average, %.2f %% at worst" % (
                kind, threads, statistics.median(found), statistics.mean(found), found[-1]), flush=True)


if __name__ == "__main__":
    main()
