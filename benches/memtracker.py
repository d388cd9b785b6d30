#!/usr/bin/env python3
"""Programs that predict the peak memory of a training step, side by side: PyTorch's MemTracker, torch-kitsune, perf4sight.

    cargo build --release
    python3 benches/memtracker.py target/release/perf4sight [NAME ...] [--batch 4] [--step all] [--exports FOLDER] [--rows FILE]

Nine families of torchvision at batch 1 and 4, in steps that differ in optimizer, in what is trained and in precision, and resnet18 with its blocks run
again in backward. What a step takes is what the
counting allocator of the Python worker (workers/torch_worker.py) sees of two real steps of the module itself: cross-entropy on random
images, gradients freed before each step as PyTorch does by default. The same two steps are run by `torch.distributed._tools.mem_tracker` under
FakeTensorMode, torch-kitsune is asked for the module (`predict_memory`), perf4sight for its export by the call in docs/networks.md
(`predict --target cpu`). Every answer comes from a process of its own; its time is from the start of the question to the answer, the starting of Python and of PyTorch
left out, the starting of perf4sight not. All run on two threads, as the simulation takes it.
Needs torch 2.11, torchvision and onnx; torch-kitsune where it is installed.
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings

import torch
import torch.utils.checkpoint
import torchvision

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.append(os.path.join(ROOT, "workers"))

import torch_worker

FAMILIES = ("alexnet", "vgg11", "resnet18", "squeezenet1_0", "mobilenet_v2", "googlenet", "densenet121", "efficientnet_b0", "vit_b_16")
# Optimizer, what is trained, precision, what runs again.
STEPS = {
    "sgd, all": ("sgd_without_momentum", "all", "fp32", "none"),
    "adamw, all": ("adamw", "all", "fp32", "none"),
    "rmsprop, all": ("rmsprop", "all", "fp32", "none"),
    "adamw, bias": ("adamw", "bias", "fp32", "none"),
    "adamw, classifier": ("adamw", "classifier", "fp32", "none"),
    "sgd, all, amp_bf16": ("sgd_without_momentum", "all", "amp_bf16", "none"),
    "sgd, all, every block": ("sgd_without_momentum", "all", "fp32", "every block"),
}
# Whose blocks a program would run again by hand where perf4sight does.
IN_BLOCKS = ("resnet18",)
TOOLS = ("counted", "memtracker", "kitsune", "perf4sight")
THREADS = 2
PIXELS = 224
LIMIT_S = 300
MIB = 2.0 ** 20


def module(name):
    more = dict(aux_logits=False, init_weights=False) if name == "googlenet" else {}
    return getattr(torchvision.models, name)(weights=None, **more).train()


def frozen(network, trainable):
    """The same, of which only some parameters are trained; these."""
    if trainable == "classifier":
        *_, last = (part for part in network.modules() if list(part.parameters(recurse=False)))
        chosen = {id(parameter) for parameter in last.parameters()}
        learns = lambda name, parameter: id(parameter) in chosen
    else:
        learns = lambda name, parameter: trainable == "all" or name.endswith("bias")
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(learns(name, parameter))
    return [parameter for parameter in network.parameters() if parameter.requires_grad]


class InBlocks(torch.nn.Module):
    """A residual network whose blocks, the first with all that is before it, run again in backward."""

    def __init__(self, network):
        super().__init__()
        *stem, first, _, _, _, pool, classifier = network.children()
        blocks = [block for stage in (network.layer1, network.layer2, network.layer3, network.layer4) for block in stage]
        self.blocks = torch.nn.ModuleList([torch.nn.Sequential(*stem, blocks[0])] + blocks[1:])
        self.head = torch.nn.Sequential(pool, torch.nn.Flatten(), classifier)

    def forward(self, images):
        for block in self.blocks:
            images = torch.utils.checkpoint.checkpoint(block, images, use_reentrant=False)
        return self.head(images)


def made(name, optimizer, trainable, checkpoint, batch):
    """A network, its optimizer and a batch, in the order in which a program makes them."""
    network = module(name)
    if checkpoint != "none":
        network = InBlocks(network)
    parameters = frozen(network, trainable)
    updates = torch_worker.OPTIMIZERS[optimizer](parameters)
    return network, updates, torch.rand(batch, 3, PIXELS, PIXELS), torch.randint(1000, [batch])


def step(precision, network, updates, images, classes):
    updates.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "amp_bf16"):
        loss = torch.nn.functional.cross_entropy(network(images), classes)
    loss.backward()
    updates.step()


def counted(name, optimizer, trainable, precision, checkpoint, batch):
    memory = torch_worker.ProcessMemory(None)

    def run():
        parts = made(name, optimizer, trainable, checkpoint, batch)
        for _ in range(2):
            step(precision, *parts)

    memory.count(run)
    return memory.allocated


def memtracker(name, optimizer, trainable, precision, checkpoint, batch):
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker
    with FakeTensorMode():
        network, updates, images, classes = made(name, optimizer, trainable, checkpoint, batch)
        tracker = MemTracker()
        tracker.track_external(network, updates, images, classes)
        with tracker:
            for number in range(2):
                step(precision, network, updates, images, classes)
                if number == 0:
                    tracker.reset_mod_stats()  # a module is followed once a step
    (peak,) = [snapshot["Total"] for device, snapshot in tracker.get_tracker_snapshot("peak").items() if device.type == "cpu"]
    return peak


def kitsune(name, optimizer, trainable, precision, checkpoint, batch):
    from kitsune.predict import predict_memory
    if (precision, checkpoint) != ("fp32", "none"):
        raise NotImplementedError("knows of no such step")
    network = module(name)
    frozen(network, trainable)
    answer = predict_memory(network, input_shape=(3, PIXELS, PIXELS), batch_size=batch, optimizer=optimizer.split("_")[0], training=True)
    return answer.total_bytes


def exported(name, folder):
    """The export of docs/networks.md."""
    path = os.path.join(folder, name + ".onnx")
    if not os.path.exists(path):
        axes = {"input": {0: "batch"}, "output": {0: "batch"}}
        torch.onnx.export(module(name), (torch.rand(2, 3, PIXELS, PIXELS),), path, input_names=["input"], output_names=["output"],
                          dynamic_axes=axes, export_params=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                          dynamo=False)
    return path


def perf4sight(program, path, optimizer, trainable, precision, checkpoint, batch):
    command = [program, "predict", path, "--target", "cpu", "--bs", str(batch), "--optimizer", optimizer, "--trainable", trainable,
               "--precision", precision, "--checkpoint", checkpoint, "--zero-grad", "free", "--json"]
    child = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    if child.returncode:
        raise RuntimeError(child.stderr.strip())
    return json.loads(child.stdout)["networks"][0]["predictions"][0]["tensors_bytes"]


def answer(tool, arguments):
    """Bytes and seconds, or why there is no answer."""
    torch.set_num_threads(THREADS)
    start = time.perf_counter()
    try:
        found = perf4sight(*arguments) if tool == "perf4sight" else {"counted": counted, "memtracker": memtracker, "kitsune": kitsune}[tool](*arguments)
    except Exception as problem:  # whatever a tool cannot do is one of the results
        return {"problem": "%s: %s" % (type(problem).__name__, (str(problem).splitlines() or [""])[0][:120])}
    return {"bytes": found, "seconds": time.perf_counter() - start}


def asked(tool, arguments):
    """An answer from a process of its own, so that none finds what another left."""
    command = [sys.executable, __file__, "--answer", json.dumps([tool, arguments])]
    try:
        child = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True, timeout=LIMIT_S)
        return json.loads(child.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"problem": "not within %d s" % LIMIT_S}
    except (ValueError, IndexError):
        return {"problem": "ended without a word, status %d" % child.returncode}


def compared(program, path, tools, name, word, batch):
    """What every tool says of one step; perf4sight reads a file, the others a module."""
    subject = lambda tool: [program, path] if tool == "perf4sight" else [name]
    return {tool: asked(tool, subject(tool) + list(STEPS[word]) + [batch]) for tool in tools}


def cell(found, truth):
    return "%+.2f %%" % (100 * (found["bytes"] / truth - 1)) if "bytes" in found else found["problem"]


def summary(rows, tools):
    """How far off every tool was, how long it took, and where it failed; then the same of the steps where all answered."""
    for tool in tools[1:]:
        found = [row[tool] for row in rows]
        errors = [abs(one["bytes"] / row["counted"]["bytes"] - 1) for row, one in zip(rows, found) if "bytes" in one]
        seconds = [one["seconds"] for one in found if "bytes" in one]
        if errors:
            print("%s: %.2f %% off on average, %.2f %% at worst over %d steps, %d failed; %.3f to %.2f s an answer" % (
                tool, 100 * sum(errors) / len(errors), 100 * max(errors), len(errors), len(found) - len(errors), min(seconds), max(seconds)))
    both = [row for row in rows if "bytes" in row["memtracker"]]
    off = lambda row, tool: abs(row[tool]["bytes"] / row["counted"]["bytes"] - 1)
    worse = [row for row in both if off(row, "perf4sight") > off(row, "memtracker") + 5e-6]
    print("perf4sight is further off than MemTracker, by more than 0.0005 %%, in %d of %d steps%s" % (
        len(worse), len(both), "".join("; %s, batch %d" % (row["name"], row["batch"]) for row in worse)))


def main():
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description="peak memory of training steps, by what predicts it")
    parser.add_argument("program", nargs="?")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--batch", action="append", type=int, help="1 and 4, unless given; may be repeated")
    parser.add_argument("--step", action="append", choices=sorted(STEPS), help="all, unless given; may be repeated")
    parser.add_argument("--exports", help="a folder that has exports, or gets them")
    parser.add_argument("--rows", help="a file that keeps what was found: steps that it holds are not asked again")
    parser.add_argument("--answer", help=argparse.SUPPRESS)
    asks = parser.parse_args()
    if asks.answer:
        return print(json.dumps(answer(*json.loads(asks.answer))))
    tools = [tool for tool in TOOLS if tool != "kitsune" or importlib.util.find_spec("kitsune")]
    known = [json.loads(line) for line in open(asks.rows)] if asks.rows and os.path.exists(asks.rows) else []
    print("| network | step | batch | counted | %s |\n|%s" % (" | ".join(tools[1:]), "---|" * (3 + len(tools))))
    rows = []
    with tempfile.TemporaryDirectory() as own:
        for name in asks.names or FAMILIES:
            for word in [word for word in asks.step or STEPS if STEPS[word][3] == "none" or name in IN_BLOCKS]:
                for batch in asks.batch or [1, 4]:
                    row = next((row for row in known if (row["name"], row["step"], row["batch"]) == (name, word, batch)), None)
                    if row is None:
                        path = exported(name, os.path.abspath(asks.exports or own))
                        row = dict(compared(os.path.abspath(asks.program), path, tools, name, word, batch), name=name, step=word, batch=batch)
                        if "bytes" not in row["counted"]:
                            sys.exit("%s, %s, batch %d: what it takes was not counted (%s)" % (name, word, batch, row["counted"]["problem"]))
                        if asks.rows:
                            with open(asks.rows, "a") as file:
                                file.write(json.dumps(row) + "\n")
                    truth = row["counted"]["bytes"]
                    print("| %s | %s | %d | %.1f MiB | %s |" % (name, word, batch, truth / MIB, " | ".join(cell(row[tool], truth) for tool in tools[1:])), flush=True)
                    rows.append(row)
    summary(rows, tools)


if __name__ == "__main__":
    main()
