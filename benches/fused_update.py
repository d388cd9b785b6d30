#!/usr/bin/env python3
"""What share of an update's time is left with fused=True, by PyTorch's optimizer and the shapes of weights, on one core and on two.

    python3 benches/fused_update.py

Both updates in turns, the fifth shortest of ten. Needs torch.
"""
import time

import torch

SHAPES = {
    "convolutions": [(64, 64, 3, 3)] * 20 + [(64,)] * 60,
    "layers": [(1024, 1024)] * 8 + [(1024,)] * 8,
    "table": [(30000, 256)] + [(256, 256)] * 12 + [(256,)] * 24,
}
OPTIMIZERS = {
    "AdamW": torch.optim.AdamW,
    "Adam": torch.optim.Adam,
    "SGD with momentum": lambda weights, **more: torch.optim.SGD(weights, lr=1e-3, momentum=0.9, **more),
    "SGD": lambda weights, **more: torch.optim.SGD(weights, lr=1e-3, **more),
    "Adagrad": torch.optim.Adagrad,
}


def created(create, shapes, **more):
    weights = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    return create(weights, **more)


def seconds(optimizer):
    begin = time.perf_counter()
    optimizer.step()
    return time.perf_counter() - begin


for threads in (1, 2):
    torch.set_num_threads(threads)
    for shape, shapes in SHAPES.items():
        for name, create in OPTIMIZERS.items():
            optimizers = created(create, shapes), created(create, shapes, fused=True)
            turns = [[seconds(optimizer) for optimizer in optimizers] for _ in range(12)][2:]
            each, fused = (1e3 * sorted(times)[4] for times in zip(*turns))
            print(f"{threads} threads, {shape}, {name}: {each:.2f} ms, fused {fused:.2f}, {fused / each:.2f}", flush=True)
