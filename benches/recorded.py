"""Five training scripts of different kinds, to see what recording costs them: python3 benches/recorded.py NAME

    perf4sight record --iterations 400 --out recording/tiny_mlp -- python3 benches/recorded.py tiny_mlp
    python3 benches/recorded.py all recording

The second records all five, without and with --stacks, by the perf4sight on the path.

One thread each, and no files: what is held against what is the same iteration with and without the profiler.
"""

import subprocess
import sys
import zlib

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


def train(net, optimizer, batches):
    for inputs, classes in batches:
        optimizer.zero_grad()
        functional.cross_entropy(net(inputs), classes).backward()
        optimizer.step()


def forever(make):
    while True:
        yield make()


def samples(*shape):
    return torch.randn(*shape), torch.randint(0, 10, shape[:1])


def tiny_mlp():
    """About 0.1 ms: most of it is the framework."""
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    batch = samples(32, 64)
    train(net, torch.optim.SGD(net.parameters(), lr=0.1), forever(lambda: batch))


def deep_mlp():
    """12 layers with Adam: many small operations."""
    layers = [layer for _ in range(11) for layer in (nn.Linear(128, 128), nn.ReLU())]
    net = nn.Sequential(*(layers + [nn.Linear(128, 10)]))
    batch = samples(64, 128)
    train(net, torch.optim.Adam(net.parameters()), forever(lambda: batch))


class Block(nn.Module):
    """A basic block of ResNet (He et al. 2015, figure 2)."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        same = stride == 1 and inputs == outputs
        self.short = nn.Identity() if same else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, images):
        return functional.relu(self.main(images) + self.short(images))


def resnet18():
    """ResNet-18 on images of 64 pixels: most of it is convolutions."""
    widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    blocks = [Block(a, b, 1 + (a != b)) for a, b in zip(widths, widths[1:])]
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    net = nn.Sequential(*(stem + blocks + [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)]))
    batch = samples(4, 3, 64, 64)
    train(net, torch.optim.SGD(net.parameters(), lr=0.01), forever(lambda: batch))


class Packed(Dataset):
    """Samples that are unpacked when they are asked for, as compressed images are."""

    def __init__(self):
        self.packed = zlib.compress(bytes(range(256)) * 2048)

    def __len__(self):
        return 10 ** 6

    def __getitem__(self, index):
        pixels = torch.frombuffer(bytearray(zlib.decompress(self.packed)), dtype=torch.uint8)
        return pixels[:4096].float() / 255, index % 10


def loader_bound():
    """A small network that waits for its data."""
    net = nn.Linear(4096, 10)
    train(net, torch.optim.SGD(net.parameters(), lr=0.1), DataLoader(Packed(), batch_size=16))


def python_bound():
    """A small network whose inputs are made by a loop in Python."""
    words = ["word%d" % (number * number % 97) for number in range(10 ** 4)]

    def batch():
        counts = {}
        for word in words:
            counts[word] = counts.get(word, 0) + 1
        return torch.tensor([sorted(counts.values())[-16:]], dtype=torch.float), torch.zeros(1, dtype=torch.long)

    net = nn.Linear(16, 10)
    train(net, torch.optim.SGD(net.parameters(), lr=1e-6), forever(batch))


PROGRAMS = {program.__name__: program for program in (tiny_mlp, deep_mlp, resnet18, loader_bound, python_bound)}
ITERATIONS = {"tiny_mlp": 400, "deep_mlp": 200, "resnet18": 40, "loader_bound": 100, "python_bound": 200}


def record_all(folder):
    for name, iterations in ITERATIONS.items():
        for stacks in ([], ["--stacks"]):
            out = "%s/%s" % (folder, "".join([name, *stacks]))
            options = ["--iterations", str(iterations), *stacks, "--out", out]
            subprocess.run(["perf4sight", "record", *options, "--", sys.executable, __file__, name], check=True)


if __name__ == "__main__" and sys.argv[1] == "all":
    record_all(sys.argv[2])
elif __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    PROGRAMS[sys.argv[1]]()
