#!/usr/bin/env python3
"""Trains a detector of torchvision for some steps and says what each part of every step took.

One file, PyTorch and torchvision only, Python 3.6 on: copy it to the board. It speaks the worker protocol that
crates/step/src/protocol.rs describes, with a task of its own, whose fields are those of DEFAULTS: one JSON line in, one JSON line out.
With --about it writes one JSON line about itself instead. Data lie as those of Oxford-IIIT Pet do.
"""
import argparse
import contextlib
import ctypes
import importlib
import inspect
import json
import math
import os
import platform
import resource
import sys
import time
import xml.etree.ElementTree

import torch
import torchvision
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import functional

PROTOCOL = 2
TASK = "detection"  # the only one that this worker knows
NETWORKS = ("fasterrcnn_resnet50_fpn", "fasterrcnn_resnet50_fpn_v2", "fasterrcnn_mobilenet_v3_large_fpn",
            "fasterrcnn_mobilenet_v3_large_320_fpn", "retinanet_resnet50_fpn", "ssd300_vgg16", "ssdlite320_mobilenet_v3_large",
            "fcos_resnet50_fpn")
CLASSES = 2  # background and pet, as published
PRECISIONS = ("fp32", "amp_bf16", "amp_fp16")
OPTIMIZERS = {
    "adamw": lambda weights, rate: torch.optim.AdamW(weights, lr=rate, weight_decay=5e-4),  # as published
    "sgd": lambda weights, rate: torch.optim.SGD(weights, lr=rate, momentum=0.9, weight_decay=5e-4),
}
# With the published 5e-3 random weights diverge, and a detector that proposes other boxes takes other times: 0.3 s a step instead of
# 1.5 of fasterrcnn_mobilenet_v3_large_320_fpn at 192 px.
LEARNING_RATE = 1e-4
EPOCHS_A_RATE, RATE_FALLS_TO = 3, 0.1  # the published schedule, which went by steps there
PET = 1  # in trimaps; 2 is background, 3 the border between
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG, SIGKILL = 1, 9  # linux/prctl.h


class Refused(Exception):
    """A request that cannot be measured; its text goes into the answer."""


class Damaged(Exception):
    """A sample that cannot be trained with; its text says why."""


# Data.

def trimap_box(folder, name, size):
    """The smallest box around the pet. The published profiler made a second one around what is background."""
    with Image.open(os.path.join(folder, "trimaps", name + ".png")) as trimap:
        if trimap.mode not in ("L", "P"):
            raise Damaged("its trimap holds pixels of mode %s instead of one byte each" % trimap.mode)
        if trimap.size != size:
            raise Damaged("its trimap has %d x %d pixels, the image %d x %d" % (trimap.size + size))
        box = trimap.point([255 * (value == PET) for value in range(256)]).getbbox()
    if box is None:
        raise Damaged("no pet in its trimap: no pixel has the value %d" % PET)
    return box


def head_box(folder, name, size):
    """The box around the pet's head, from the xml file."""
    try:
        found = xml.etree.ElementTree.parse(os.path.join(folder, "xmls", name + ".xml")).find("object/bndbox")
        if found is None:
            raise Damaged("no box in its xml file")
        box = [float(found.findtext(side, "")) for side in ("xmin", "ymin", "xmax", "ymax")]
    except (xml.etree.ElementTree.ParseError, ValueError) as problem:
        raise Damaged("its xml file cannot be read: %s" % problem)
    left, upper, right, lower = box
    if not (0 <= left < right <= size[0] and 0 <= upper < lower <= size[1]):
        raise Damaged("the box of its xml file, %s, does not lie in an image of %d x %d pixels" % (tuple(box), size[0], size[1]))
    return box


BOXES = {"trimap": trimap_box, "head": head_box}


class Pets(Dataset):
    """Images with one box each. What is damaged is told of beside the sample that is taken instead of it."""

    def __init__(self, folder, boxes):
        self.images, self.annotations = os.path.join(folder, "images"), os.path.join(folder, "annotations")
        self.box = BOXES[boxes]
        self.names = listed(os.path.join(self.annotations, "trainval.txt"))

    def __len__(self):
        return len(self.names)

    def read(self, name):
        try:
            with Image.open(os.path.join(self.images, name + ".jpg")) as image:
                pixels = functional.to_tensor(image.convert("RGB"))  # of 0 to 1: the network normalises them itself
                box = self.box(self.annotations, name, image.size)
        except FileNotFoundError as problem:
            raise Damaged("there is no %s" % problem.filename)
        except (OSError, SyntaxError, Image.DecompressionBombError) as problem:  # Pillow's: no image, cut off, a broken PNG, too large
            raise Damaged("%s" % problem)
        return pixels, {"boxes": torch.tensor([box], dtype=torch.float32), "labels": torch.ones(1, dtype=torch.int64)}

    def __getitem__(self, index):
        damaged = {}
        for name in self.names[index:] + self.names[:index]:
            try:
                return self.read(name) + (damaged,)
            except Damaged as problem:
                damaged[name] = str(problem)
        return None, None, damaged  # an exception of ours would come out of a DataLoader's worker as another one


def listed(path):
    """The names of the images in a list: its first column."""
    try:
        with open(path) as file:
            rows = [line.split() for line in file if not line.startswith("#")]
    except (OSError, UnicodeDecodeError) as problem:
        raise Refused("%s: cannot be read: %s; expected the layout of Oxford-IIIT Pet: images/*.jpg, annotations/trimaps/*.png, "
                      "annotations/trainval.txt" % (path, problem))
    names = [row[0] for row in rows if row]
    if not names:
        raise Refused("%s: lists no image" % path)
    return names


def collate(samples):
    images, targets, damaged = zip(*samples)
    return list(images), list(targets), {name: why for some in damaged for name, why in some.items()}


class Batches(object):
    """Batches without end, epoch after epoch; how long the first of each epoch took to come stands apart."""

    def __init__(self, request, data, schedule, timer):
        workers = request["num_workers"]
        ahead = {"prefetch_factor": request["prefetch_factor"]} if workers else {}  # PyTorch refuses it where nobody fetches
        self.loader = DataLoader(data, batch_size=request["batch"], shuffle=True, drop_last=True, collate_fn=collate, num_workers=workers,
                                 pin_memory=request["pin_memory"], **ahead)
        self.data, self.schedule, self.timer, self.damaged, self.starts = data, schedule, timer, {}, []
        self.current = None

    def next(self):
        batch = next(self.current, None) if self.current else None
        if batch is None:
            self.timer.end("wait")
            if self.current:
                self.schedule.step()
            self.current = None  # its workers end before others start
            self.current = iter(self.loader)
            batch = next(self.current)
            self.starts.append(self.timer.skip())
        images, targets, damaged = batch
        self.damaged.update(damaged)
        if None in images:
            raise Refused("none of the %d images of %s can be trained with; %s" % (len(self.data), self.data.images, told(self.damaged)))
        self.timer.end("wait")
        return images, targets


def told(damaged):
    return "; ".join("%s: %s" % pair for pair in sorted(damaged.items())[:3])


# The network.

def factory(name):
    """What makes the network: torchvision's, or `module:function` of the user's own."""
    if ":" in name:
        module, function = name.split(":", 1)
        sys.path.insert(0, os.getcwd())
        try:
            return getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, ValueError) as problem:
            raise Refused("the network %s: %s" % (name, problem))
    made_by = getattr(torchvision.models.detection, name, None) if name in NETWORKS else None
    if made_by is None:
        here = [known for known in NETWORKS if hasattr(torchvision.models.detection, known)]
        raise Refused("torchvision %s has no network %s to train; expected: %s, or module:function of your own"
                      % (torchvision.__version__, name, ", ".join(here)))
    return made_by


def unweighted(made_by, weights):
    """The arguments for random weights, or for a backbone's that is downloaded; they had other names before torchvision 0.13."""
    if "weights_backbone" in inspect.signature(made_by).parameters or hasattr(torchvision.models, "get_weight"):
        return dict({"weights": None}, **({} if weights else {"weights_backbone": None}))
    return {"pretrained": False, "pretrained_backbone": weights}


def detector(request):
    name = request["network"]
    made_by = factory(name)
    if ":" in name:
        return made_by()
    network = made_by(num_classes=CLASSES, **unweighted(made_by, request["weights"]))
    resize(network, name, request["size"])
    return network


def resize(network, name, size):
    """Images are brought to `size` pixels on their shorter side; the longer one may have as much more as the network allows itself."""
    if size is None:
        return
    transform = network.transform
    shorter = max(transform.min_size) if isinstance(transform.min_size, (list, tuple)) else transform.min_size
    if name.startswith("ssd"):
        if size != shorter:
            raise Refused("%s is made for images of %d pixels, not %d" % (name, shorter, size))
        return
    transform.max_size = max(size, round(size * transform.max_size / shorter))
    transform.min_size = (size,)


# Time and memory.

class Timer(object):
    """The parts of a step, one after the other, so that they add up to it. In exact mode the device has finished at each border."""

    def __init__(self, device, exact):
        self.device, self.exact = device, exact
        self.parts, self.last = {}, time.perf_counter()

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def end(self, part):
        if self.exact:
            self.synchronize()
        self.parts[part] = self.parts.get(part, 0.0) + self.skip()

    def skip(self):
        """Seconds since the last border, which count for no part."""
        last, self.last = self.last, time.perf_counter()
        return self.last - last

    def step(self):
        """The parts of the step that is over."""
        parts, self.parts = self.parts, {}
        return parts


def kernel_bytes(path, name):
    with open(path) as file:
        return next((int(line.split()[1]) << 10 for line in file if line.startswith(name + ":")), 0)


class Memory(object):
    """Peaks of process and device, above what they held before the network."""

    def __init__(self, device, limit):
        self.device, self.limit = device, limit
        with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # VmHWM starts anew (Linux, Documentation/filesystems/proc.rst)
        self.resident, self.loaders = kernel_bytes("/proc/self/status", "VmRSS"), 0
        if device.type == "cuda":
            torch.zeros(1, device=device)
            torch.cuda.reset_peak_memory_stats(device)
            if limit is not None:
                torch.cuda.set_per_process_memory_fraction(min(1.0, limit / torch.cuda.get_device_properties(device).total_memory), device)

    def used(self):
        return max(0, kernel_bytes("/proc/self/status", "VmHWM") - self.resident)

    def watch(self):
        """Python cannot cap torch's allocator on a processor: past the limit a step is the last."""
        if self.device.type == "cpu" and self.limit is not None and self.used() > self.limit:
            raise MemoryError("past mem_limit")
        self.loaders = max(self.loaders, sum(map(proportional, children())))

    def reading(self):
        counted = {"resident": kernel_bytes("/proc/self/status", "VmHWM"), "used": self.used(), "loaders": self.loaders}
        if self.device.type == "cuda":
            counted.update(allocated=torch.cuda.max_memory_allocated(self.device), reserved=torch.cuda.max_memory_reserved(self.device))
        return counted


def children():
    """The processes that this one started and that have not ended: a DataLoader's workers, where there are any."""
    try:
        with open("/proc/self/task/%d/children" % os.getpid()) as file:
            return file.read().split()
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return []


def proportional(process):
    """Resident bytes, of what several processes share their part each."""
    try:
        return kernel_bytes("/proc/%s/smaps_rollup" % process, "Pss")
    except OSError:
        return 0


# Training.

class Training(object):
    """The network, its optimizer and data, and what was measured of them."""

    def __init__(self, request, device, memory):
        self.request, self.device, self.memory = request, device, memory
        self.layout = torch.channels_last if request["channels_last"] else torch.contiguous_format
        data = Pets(request["data"], request["boxes"])
        if request["batch"] > len(data):
            raise Refused("a batch of %d images of a data set of %d" % (request["batch"], len(data)))
        self.network = detector(request).to(device, memory_format=self.layout).train()
        weights = [weight for weight in self.network.parameters() if weight.requires_grad]
        self.optimizer = OPTIMIZERS[request["optimizer"]](weights, request["learning_rate"])
        self.scaler = torch.cuda.amp.GradScaler() if request["precision"] == "amp_fp16" and device.type == "cuda" else None
        schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, EPOCHS_A_RATE, RATE_FALLS_TO)
        self.timer = Timer(device, exact=True)
        self.batches = Batches(request, data, schedule, self.timer)
        self.losses = []

    def cast(self):
        kind = {"amp_bf16": torch.bfloat16, "amp_fp16": torch.float16}.get(self.request["precision"])
        return torch.autocast(self.device.type, dtype=kind) if kind else contextlib.ExitStack()

    def moved(self, images, targets):
        def move(tensor, **layout):
            return tensor.to(self.device, non_blocking=self.request["pin_memory"], **layout)

        return [move(image) for image in images], [{key: move(value) for key, value in target.items()} for target in targets]

    def update(self, loss):
        weights = [weight for group in self.optimizer.param_groups for weight in group["params"]]
        if self.scaler:
            self.scaler.unscale_(self.optimizer)
        if self.request["clip"] is not None:
            torch.nn.utils.clip_grad_norm_(weights, self.request["clip"])
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()

    def step(self):
        timer = self.timer
        images, targets = self.batches.next()
        images, targets = self.moved(images, targets)
        timer.end("copy")
        with self.cast():
            loss = sum(self.network(images, targets).values())
        timer.end("forward")
        self.optimizer.zero_grad()
        (self.scaler.scale(loss) if self.scaler else loss).backward()
        timer.end("backward")
        self.update(loss)
        timer.end("optimizer")
        self.losses.append(loss.detach())  # read when all are done: reading waits for the device
        self.memory.watch()
        timer.end("other")
        return timer.step()

    def run(self, steps, exact):
        """Some steps, in the time that a clock around them all measured, what epochs took to start left out."""
        self.timer.synchronize()
        self.timer.exact = exact
        starts = len(self.batches.starts)
        self.timer.skip()
        began, parts = time.perf_counter(), [self.step() for _ in range(steps)]
        self.timer.synchronize()
        seconds = time.perf_counter() - began - sum(self.batches.starts[starts:])
        return {"parts": parts, "seconds": seconds}

    def measure(self):
        """Plain steps before and after exact ones, so that a machine that becomes slower meanwhile does not make either look so."""
        steps = self.request["steps"]
        first = self.run(self.request["warm_up"], exact=True)
        before, exact, after = self.run((steps + 1) // 2, False), self.run(steps, True), self.run(steps // 2, False)
        plain = {"parts": before["parts"] + after["parts"], "seconds": before["seconds"] + after["seconds"]}
        return {"first": first, "plain": plain, "exact": exact}


def traced(training, path, steps):
    """A trace of some more steps, as torch.profiler writes it."""
    from torch import profiler
    kinds = [profiler.ProfilerActivity.CPU] + [profiler.ProfilerActivity.CUDA] * (training.device.type == "cuda")
    # While the first of these steps runs, the profiler starts; it is not kept.
    with profiler.profile(activities=kinds, schedule=profiler.schedule(wait=0, warmup=1, active=steps, repeat=1),
                          on_trace_ready=lambda profile: profile.export_chrome_trace(path)) as profile:
        for _ in range(1 + steps):
            training.step()
            profile.step()


# One request.

DEFAULTS = {"network": NETWORKS[0], "weights": False, "boxes": "trimap", "num_workers": 0, "prefetch_factor": 2, "size": None,
            "precision": "fp32", "channels_last": False, "pin_memory": False, "optimizer": "adamw", "learning_rate": LEARNING_RATE, "clip": None,
            "warm_up": 2, "steps": 10, "trace": None, "trace_steps": 3, "mem_limit": None}


def places():
    """What detectors can be trained on."""
    return ["cpu"] + ["cuda:%d" % gpu for gpu in range(torch.cuda.device_count() if torch.cuda.is_available() else 0)]


def prepare(request):
    """The device that the request names, where all that it asks for is known."""
    if request["place"] not in places():
        raise Refused("PyTorch %s cannot train on %s; expected: %s" % (torch.__version__, request["place"], ", ".join(places())))
    for key, known in (("precision", PRECISIONS), ("optimizer", OPTIMIZERS), ("boxes", BOXES)):
        if request[key] not in known:
            raise Refused("%s = %s: expected: %s" % (key, request[key], ", ".join(known)))
    for key, least in (("batch", 1), ("steps", 2), ("warm_up", 1), ("num_workers", 0), ("prefetch_factor", 1), ("threads", 1), ("trace_steps", 1)):
        if type(request[key]) is not int or request[key] < least:
            raise Refused("%s = %s: expected a whole number of %d or more" % (key, request[key], least))
    if request["precision"] != "fp32" and not hasattr(torch, "autocast"):
        raise Refused("precision = %s needs PyTorch 1.10 or newer, not %s" % (request["precision"], torch.__version__))
    return torch.device(request["place"])


def out_of_memory(problem):
    """Words, for the CPU's allocator and NVIDIA's libraries, which ask the driver themselves, have no type of error for it."""
    told = ("can't allocate memory", "out of memory", "status_alloc_failed")
    return isinstance(problem, MemoryError) or any(phrase in str(problem).lower() for phrase in told) and "shared memory" not in str(problem)


def workers_died(problem):
    """What DataLoaders' workers die of most: the memory that processes share is a small file system in containers."""
    words = str(problem)
    if "DataLoader worker" not in words:
        return None
    if "Bus error" in words or "shared memory" in words:
        return ("a DataLoader's worker died of a bus error: /dev/shm, through which its batches go, is too small; start the container with "
                "--ipc=host or --shm-size=2g, or take fewer num_workers or a smaller prefetch_factor")
    return "a DataLoader's worker died: %s" % words


def measure(request):
    device = prepare(request)
    torch.set_num_threads(request["threads"])
    torch.manual_seed(request["seed"])
    memory = Memory(device, request["mem_limit"])
    began = time.perf_counter()
    try:
        training = Training(request, device, memory)
        measured = training.measure()
        counted = memory.reading()
        if request["trace"]:
            traced(training, request["trace"], request["trace_steps"])
    except (MemoryError, RuntimeError) as problem:
        if workers_died(problem):
            raise Refused(workers_died(problem))
        if not out_of_memory(problem):
            raise
        return {"outcome": "out_of_memory", "memory": memory.reading(), "seconds": time.perf_counter() - began}
    losses = [float(loss) for loss in training.losses]
    batches = training.batches
    # JSON has no word for numbers that are none.
    return dict(measured, outcome="measured", losses=[loss if math.isfinite(loss) else None for loss in losses], memory=counted,
                images=len(batches.data), epoch_starts=batches.starts, damaged=batches.damaged, seconds=time.perf_counter() - began,
                loader_cpu_seconds=sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]))


def parse(line):
    try:
        asked = json.loads(line)
        protocol = asked["protocol"]
    except (ValueError, KeyError, TypeError) as problem:
        raise Refused("no request: %s: %s" % (type(problem).__name__, problem))
    if protocol != PROTOCOL:
        raise Refused("a request of protocol %s; this worker speaks protocol %d" % (protocol, PROTOCOL))
    if asked.get("task") != TASK:
        raise Refused("no request: this worker does not know the task %s, only %s" % (asked.get("task"), TASK))
    missing = [key for key in ("place", "threads", "seed", "data", "batch") if key not in asked]
    if missing:
        raise Refused("no request: it lacks %s" % ", ".join(missing))
    return dict(DEFAULTS, **asked)


def answer(line):
    try:
        return measure(parse(line))
    except Refused as refused:
        return {"outcome": "failed", "reason": str(refused)}
    except Exception as problem:  # whatever went wrong belongs into the answer
        return {"outcome": "failed", "reason": "%s: %s" % (type(problem).__name__, problem)}


def about():
    software = {"python": platform.python_version(), "torch": torch.__version__, "torchvision": torchvision.__version__}
    return {"protocol": PROTOCOL, "software": software, "places": {place: {} for place in places()}, "tasks": [TASK], "layers": False}


def main():
    parser = argparse.ArgumentParser(description="perf4sight worker for detection training: one request on stdin, its answer on stdout")
    parser.add_argument("--about", action="store_true", help="write one line about this worker instead")
    tells = parser.parse_args().about
    LIBC.prctl(PR_SET_PDEATHSIG, SIGKILL)  # ends with the process that started it, however that comes about
    print(json.dumps(about() if tells else answer(sys.stdin.readline())), flush=True)


if __name__ == "__main__":
    main()
