#!/usr/bin/env python3
"""What PyTorch holds of recurrent layers while they are trained, as multiples of their result: what crates/memory/src/recurrent.rs has its numbers from.

    python3 benches/recurrent.py

One thread of a processor; saved is what autograd saves, forward and whole are the most there is in addition to weights. Needs torch.
"""
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.profiler import ProfilerActivity, profile, record_function

BACKWARD = "backward"


def saved(layer, data):
    """Bytes that autograd saves, each storage once, without the weights and the data."""
    held = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        held[storage.data_ptr()] = storage
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        layer(data)
    known = {tensor.untyped_storage().data_ptr() for tensor in [data, *layer.parameters()]}
    return sum(storage.nbytes() for place, storage in held.items() if place not in known)


def peaks(layer, data):
    """The most bytes until backward, and of all."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = layer(data)[0]
        gradient = torch.ones_like(result)
        with record_function(BACKWARD):
            result.backward(gradient)
    events = sorted(profiler.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    turn = next(event.start_ns() for event in events if event.name() == BACKWARD)
    now = forward = whole = 0
    for event in events:
        now += event.nbytes() if event.name() == "[memory]" else 0
        forward, whole = max(forward, now) if event.start_ns() < turn else forward, max(whole, now)
    return forward, whole


def row(kind, steps, samples, inputs, width, layers, both):
    layer = getattr(nn, kind)(inputs, width, layers, batch_first=True, bidirectional=both)
    data = torch.rand(samples, steps, inputs, requires_grad=True)
    kept = saved(layer, data)
    layer(data)[0].sum().backward()
    layer.zero_grad()
    data.grad = None
    result = 4 * samples * steps * width * (2 if both else 1)
    shares = ["%.2f" % (amount / result) for amount in (kept, *peaks(layer, data))]
    ways = "both ways" if both else "one way"
    print("| %s | %d | %d | %d | %d | %d, %s | %s |" % (kind, steps, samples, inputs, width, layers, ways, " | ".join(shares)), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("| layer | steps | samples | inputs | width | layers | saved | forward | whole |\n|---|---|---|---|---|---|---|---|---|")
    for kind in ("LSTM", "GRU", "RNN"):
        for shape in ((64, 16, 128), (128, 16, 128), (64, 64, 128), (64, 16, 64)):
            row(kind, *shape, 128, 1, False)
        row(kind, 64, 16, 128, 128, 2, False)
        row(kind, 64, 16, 128, 128, 1, True)
