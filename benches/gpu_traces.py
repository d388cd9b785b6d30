#!/usr/bin/env python3
"""What PyTorch's profiler adds to steps on a GPU, and what changes really bring: times without it and traces of five steps.

    python3 benches/gpu_traces.py FOLDER [NETWORK:CHANGE ...] [--device cuda]
    perf4sight optimize FOLDER/gpt2.none

Times are of fifteen steps in a row with AdamW, measured three times, once after recording. Needs torch, torchvision and transformers.
"""
import argparse
import gc
import os
import statistics
import time

import torch
from torch.profiler import ProfilerActivity, profile, schedule

# Each network: its batch, and the pixels of its images or the words of its texts.
IMAGES = {"resnet50": (64, 224), "mobilenet_v3_small": (32, 224), "vit_b_16": (32, 224)}
TEXTS = {"gpt2": (8, 512), "bert": (16, 128)}
JOBS = [
    "resnet50:none", "resnet50:amp_bf16", "mobilenet_v3_small:none", "mobilenet_v3_small:item", "gpt2:none", "gpt2:amp_bf16", "gpt2:tf32",
    "vit_b_16:none", "vit_b_16:amp_bf16", "bert:none",
]
STEPS = 15


def made(name, device):
    """A network in training mode, its arguments, and what takes its loss from its result."""
    if name in IMAGES:
        import torchvision
        batch, pixels = IMAGES[name]
        classes = torch.randint(0, 1000, (batch,), device=device)
        network = getattr(torchvision.models, name)(weights=None)
        arguments = {"x": torch.rand(batch, 3, pixels, pixels, device=device)}
        return network.to(device).train(), arguments, lambda result: torch.nn.functional.cross_entropy(result, classes)
    import transformers
    batch, words = TEXTS[name]
    if name == "gpt2":
        network = transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False))
        ids = torch.randint(0, 50257, (batch, words), device=device)
        arguments = {"input_ids": ids, "labels": ids}
    else:
        network = transformers.BertForSequenceClassification(transformers.BertConfig())
        arguments = {"input_ids": torch.randint(0, 30000, (batch, words), device=device), "labels": torch.randint(0, 2, (batch,), device=device)}
    return network.to(device).train(), arguments, lambda result: result.loss


def step_of(name, change, device):
    network, arguments, loss_of = made(name, device)
    torch.backends.cuda.matmul.allow_tf32 = change == "tf32"
    optimizer = torch.optim.AdamW(network.parameters(), 1e-4)

    def step():
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=change == "amp_bf16"):
            result = network(**arguments) if name in TEXTS else network(arguments["x"])
            loss = loss_of(result)
        loss.backward()
        optimizer.step()
        if change == "item":
            loss.item()
    return step


def settle(device):
    if device == "cuda":
        torch.cuda.synchronize()


def plain(step, device):
    """Milliseconds of a step without the profiler."""
    settle(device)
    begin = time.perf_counter()
    for _ in range(STEPS):
        step()
    settle(device)
    return 1e3 * (time.perf_counter() - begin) / STEPS


def recorded(step, device, file):
    """Milliseconds of the median step under the profiler, whose trace it writes."""
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    with profile(activities=kinds, schedule=schedule(wait=1, warmup=2, active=5), record_shapes=True,
                 on_trace_ready=lambda made: made.export_chrome_trace(file)) as profiler:
        for _ in range(8):
            step()
            profiler.step()
        settle(device)
    steps = [event for event in profiler.events() if event.name.startswith("ProfilerStep") and event.device_type.name == "CPU"]
    return statistics.median(event.time_range.elapsed_us() for event in steps) / 1e3


def main():
    parser = argparse.ArgumentParser(description="what PyTorch's profiler adds to steps on a GPU")
    parser.add_argument("folder")
    parser.add_argument("jobs", nargs="*", default=JOBS)
    parser.add_argument("--device", default="cuda")
    settings = parser.parse_args()
    for job in settings.jobs:
        name, change = job.split(":")
        folder = os.path.join(settings.folder, "%s.%s" % (name, change))
        os.makedirs(folder)
        step = step_of(name, change, settings.device)
        for _ in range(6):
            step()
        times = [plain(step, settings.device) for _ in range(2)]
        under = recorded(step, settings.device, os.path.join(folder, "rank0.json.gz"))
        times.append(plain(step, settings.device))
        print("%s: %s ms without the profiler, %.1f ms recorded" % (job, ", ".join("%.1f" % time for time in times), under), flush=True)
        del step
        gc.collect()


if __name__ == "__main__":
    main()
