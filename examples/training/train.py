"""A small training script in which Python takes more time than it should: it makes its images brighter pixel by pixel.

Its recording was made by

    perf4sight record --stacks --iterations 6 --out examples/training/before -- python3 examples/training/train.py
    perf4sight record --stacks --iterations 6 --out examples/training/after -- python3 examples/training/train.py --vectorised

"""
import sys

import torch

BATCH, FEATURES, CLASSES = 16, 256, 10


def augmented(batch):
    """Every row brighter, none above 1: pixel by pixel, or all at once."""
    brighter = 0.1 * torch.rand(BATCH, 1)
    if "--vectorised" in sys.argv:
        return torch.clamp(batch + brighter, max=1.0)
    rows = []
    for row, [more] in zip(batch.tolist(), brighter.tolist()):
        rows.append([value + more if value + more < 1.0 else 1.0 for value in row])
    return torch.tensor(rows)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = torch.nn.Sequential(torch.nn.Linear(FEATURES, 512), torch.nn.ReLU(), torch.nn.Linear(512, CLASSES))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    for _ in range(10_000):
        images, labels = torch.rand(BATCH, FEATURES), torch.randint(CLASSES, (BATCH,))
        with torch.profiler.record_function("augment"):
            images = augmented(images)
        loss = torch.nn.functional.cross_entropy(network(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
