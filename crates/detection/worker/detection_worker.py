#!/usr/bin/env python3
"""Trains a detector of torchvision for some steps and says what each part of every step took; describes its graphs.

PyTorch, torchvision and torch_worker.py next to it, Python 3.6 on. It speaks the worker protocol that crates/step/src/protocol.rs
describes, with tasks of its own (crates/step/src/detection.rs), whose fields are those of DEFAULTS: one JSON line in, one JSON line out.
It reports its progress meanwhile, in JSON lines to standard error. With --about it writes one JSON line about itself instead. Data are stored as
those of Oxford-IIIT Pet do.
"""
import argparse
import base64
import contextlib
import importlib
import inspect
import json
import math
import multiprocessing.queues
import os
import random
import signal
import sys
import time
import xml.etree.ElementTree

import torch_worker  # before torch: it takes away what would change torch's arithmetic without a warning
import torch
import torchvision
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import functional

from torch_worker import LIBC, PR_SET_PDEATHSIG, PROTOCOL, SIGKILL, TOLERATED_LOSS, Heap, Refused, Wall, kernel_bytes, places

TASKS = ("detection", "detection_graphs")
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
LABEL = 1  # of every box; 0 is what detectors call background
TICK = 1 / os.sysconf("SC_CLK_TCK")  # what the kernel counts processors' time in
DRAWN = 200  # batches whose sizes stand for those of a training


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
    """Images with one box each. Damaged samples are reported with the sample that replaces them."""

    def __init__(self, folder, boxes):
        self.images, self.annotations = os.path.join(folder, "images"), os.path.join(folder, "annotations")
        self.box = BOXES[boxes]
        self.resizing = None  # what the network does to them, once it is known
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
        except (Damaged, MemoryError):
            raise
        except Exception as problem:  # Pillow and its codecs have no kind of error for files that are damaged
            raise Damaged(str(problem))
        if self.resizing and 0 in self.resizing.resized(*pixels.shape[-2:]):
            raise Damaged("none of its %d x %d pixels is left of its shorter side when the network has resized it" % tuple(pixels.shape[:0:-1]))
        return pixels, {"boxes": torch.tensor([box], dtype=torch.float32), "labels": torch.full((1,), LABEL, dtype=torch.int64)}

    def size(self, index):
        """Height and width of an image; None of one that cannot be read."""
        try:
            with Image.open(os.path.join(self.images, self.names[index] + ".jpg")) as image:
                return image.size[::-1]
        except Exception:  # as in read, which says why
            return None

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
        with open(path, encoding="utf-8-sig") as file:
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


def lose_no_batch(_):
    """A loading process that cannot put a batch into shared memory says so and goes on with the next, while the training waits for the
    lost one for ever. It shall end, as the kernel ends those that write where no memory is left."""
    multiprocessing.queues.Queue._on_queue_feeder_error = staticmethod(end_without_a_batch)


def end_without_a_batch(problem, _):
    print("a batch cannot be sent: %s" % problem, file=sys.stderr, flush=True)
    full = "No space left" in str(problem) or "allocate shared memory" in str(problem)
    os.kill(os.getpid(), signal.SIGBUS if full else signal.SIGTERM)


class Batches(object):
    """Batches without end, epoch after epoch; how long the first of each epoch took to come stands apart."""

    def __init__(self, request, data, schedule, timer):
        workers = request["num_workers"]
        ahead = {"prefetch_factor": request["prefetch_factor"]} if workers else {}  # PyTorch refuses it where nobody fetches
        self.loader = DataLoader(data, batch_size=request["batch"], shuffle=True, drop_last=True, collate_fn=collate, num_workers=workers,
                                 pin_memory=request["pin_memory"], worker_init_fn=lose_no_batch, **ahead)
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
        return self.read(batch)

    def codes(self):
        """How its workers ended that have: exit codes, or signals below zero."""
        return [worker.exitcode for worker in getattr(self.current, "_workers", []) if worker.exitcode is not None]

    def of(self, indices):
        """A batch of these samples, read here."""
        return self.read(collate([self.data[index] for index in indices]))

    def read(self, batch):
        images, targets, damaged = batch
        self.damaged.update(damaged)
        if any(image is None for image in images):
            raise Refused("none of the %d images of %s can be trained with; %s" % (len(self.data), self.data.images, described(self.damaged)))
        self.timer.end("wait")
        return images, targets


def described(damaged):
    return "; ".join("%s: %s" % pair for pair in sorted(damaged.items())[:3])


# The network.

def factory(name):
    """What makes the network: torchvision's, or `module:function` of the user's own."""
    if ":" in name:
        module, function = name.split(":", 1)
        sys.path.insert(0, os.getcwd())
        try:
            return getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, ValueError, SyntaxError) as problem:
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
        network = made_by()
        if not isinstance(network, torch.nn.Module):
            raise Refused("the network %s: it gives a %s, no torch.nn.Module" % (name, type(network).__name__))
    else:
        network = made_by(num_classes=CLASSES, **unweighted(made_by, request["weights"]))
    resize(network, name, request["size"])
    check_labels(network, name)
    return network


def resize(network, name, size):
    """Images are brought to `size` pixels on their shorter side; the longer one may have as much more as the network allows itself."""
    if size is None:
        return
    transform = getattr(network, "transform", None)
    if not hasattr(transform, "min_size"):
        raise Refused("%s has no transform as torchvision's detectors have, so its images cannot be made another size" % name)
    shorter = max(transform.min_size) if isinstance(transform.min_size, (list, tuple)) else transform.min_size
    if name.startswith("ssd"):
        if size != shorter:
            raise Refused("%s is made for images of %d pixels, not %d" % (name, shorter, size))
        return
    transform.max_size = max(size, round(size * transform.max_size / shorter))
    transform.min_size = (size,)


def classes(network):
    """How many labels it distinguishes, background among them; None where it does not say so as torchvision's do."""
    predictor = getattr(getattr(network, "roi_heads", None), "box_predictor", None)
    score = getattr(predictor, "cls_score", None)
    if score is not None:
        return getattr(score, "out_features", None)
    head = getattr(getattr(network, "head", None), "classification_head", None)
    return getattr(head, "num_classes", getattr(head, "num_columns", None))


def check_labels(network, name):
    known = classes(network)
    if known is not None and known <= LABEL:
        raise Refused("labels out of range: boxes of the data have the label %d, and %s distinguishes %d, background (0) among them; make it "
                      "with %d classes or more" % (LABEL, name, known, CLASSES))


class Resizing(object):
    """How large the network's transform makes images."""

    def __init__(self, transform):
        self.fixed = getattr(transform, "fixed_size", None)
        self.least = transform.min_size[-1] if isinstance(transform.min_size, (list, tuple)) else transform.min_size
        self.most, self.step = transform.max_size, getattr(transform, "size_divisible", 32)

    @staticmethod
    def of(network):
        """None of a network that has no transform as torchvision's detectors have."""
        transform = getattr(network, "transform", None)
        return Resizing(transform) if hasattr(transform, "max_size") else None

    def resized(self, height, width):
        """torchvision's rule: the shorter side to `least`, unless the longer one became longer than `most`."""
        if self.fixed:
            return self.fixed[1], self.fixed[0]
        scale = min(self.least / min(height, width), self.most / max(height, width))
        return int(math.floor(height * scale)), int(math.floor(width * scale))


class Sizes(object):
    """How large the images of a data set are when they are resized, and batches of them."""

    MOST = 2000  # images whose sizes are looked at: the first of a larger data set

    def __init__(self, resizing, data):
        self.step = resizing.step
        found = ((index, data.size(index)) for index in range(min(len(data), self.MOST)))
        self.images = [(index, resizing.resized(*size)) for index, size in found if size]
        if not self.images:
            raise Refused("none of the images of %s can be read" % data.images)

    def together(self, sizes):
        """A batch: the highest and the widest, in multiples of what the network halves."""
        return [int(math.ceil(max(side) / self.step)) * self.step for side in zip(*sizes)]

    def largest(self, batch):
        """The samples of a batch that no other is larger than, nearly, and its size: the highest and the widest image, or the largest one."""
        if batch == 1:
            extremes = [max(self.images, key=lambda image: image[1][0] * image[1][1])]
        else:
            extremes = [max(self.images, key=lambda image: image[1][side]) for side in (0, 1)]
        chosen = (extremes * batch)[:batch]
        return [index for index, _ in chosen], self.together([size for _, size in chosen])

    def typical(self, batch, draws):
        """Of batches as they are drawn the one of nearly the mean area."""
        count = min(batch, len(self.images))
        drawn = [self.together([size for _, size in draws.sample(self.images, count)]) for _ in range(DRAWN)]
        mean = sum(height * width for height, width in drawn) / len(drawn)
        return min(drawn, key=lambda size: (abs(size[0] * size[1] - mean), size)), mean


# Time and memory.

class Timer(object):
    """The parts of a step, one after the other, so that they add up to it. In exact mode the device has finished at each border."""

    def __init__(self, device, exact):
        self.device, self.exact = device, exact
        self.parts, self.trunk, self.last, self.skipped = {}, {}, time.perf_counter(), 0.0

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def end(self, part):
        if self.exact:
            self.synchronize()
        self.parts[part] = self.parts.get(part, 0.0) + self.lap()

    def lap(self):
        """Seconds since the last border."""
        last, self.last = self.last, time.perf_counter()
        return self.last - last

    def skip(self):
        """Seconds since the last border, which count for no part and no step."""
        seconds = self.lap()
        self.skipped += seconds
        return seconds

    def clock(self):
        """Seconds without those that were skipped."""
        return time.perf_counter() - self.skipped

    def step(self):
        """The parts of the step that is over, with how long of forward and backward the trunk was at work where that is known."""
        parts, self.parts, trunk, self.trunk = self.parts, {}, self.trunk, {}
        return dict(parts, **trunk)

    def now(self):
        self.synchronize()
        return time.perf_counter()


class Trunk(object):
    """The backbone of a detector, watched at work: what it reads, and how long it takes where steps are timed exactly."""

    def __init__(self, network, timer):
        self.timer, self.batches, self.began, self.back = timer, [], None, None
        backbone, heads = getattr(network, "backbone", None), getattr(network, "roi_heads", None)
        if isinstance(backbone, torch.nn.Module):
            backbone.register_forward_pre_hook(self.begin)
            backbone.register_forward_hook(self.end)
        if isinstance(getattr(heads, "box_head", None), torch.nn.Module):
            heads.box_head.register_forward_pre_hook(self.pooled)

    def begin(self, _, inputs):
        height, width = inputs[0].shape[-2:]
        self.batches.append({"height": height, "width": width, "proposals": 0})
        self.began = self.timer.now() if self.timer.exact else None

    def end(self, _, __, features):
        if self.began is None:
            return
        self.timer.trunk["trunk_forward"] = self.timer.now() - self.began
        self.back = None
        for feature in features.values() if isinstance(features, dict) else [features]:
            if feature.requires_grad:
                # The first of them that has its gradient is where backward enters the trunk: all that came after has run by then.
                feature.register_hook(self.enter)

    def enter(self, _):
        if self.back is None:
            self.back = self.timer.now()

    def leave(self):
        """Backward is over."""
        if self.timer.exact and self.back is not None:
            self.timer.trunk["trunk_backward"] = self.timer.now() - self.back
        self.back = None

    def pooled(self, _, inputs):
        if self.batches:
            self.batches[-1]["proposals"] = inputs[0].shape[0]


class Neighbours(object):
    """Whether other programs had the processors while steps stood ready for them; the loaders of this one are no others."""

    PERIOD = 10 * TICK  # looking takes 0.1 ms, and sooner the kernel's ticks tell nothing

    def __init__(self, threads):
        self.threads, self.last, self.steps = threads, self.look(), 0

    def look(self):
        machine = torch_worker.processors()
        return time.perf_counter(), Wall.waited(), machine.get("busy", 0.0) + machine.get("stolen", 0.0), own_time()

    def step(self):
        """Of each step since it looked last whether it was disturbed, where it is time to look again."""
        self.steps += 1
        return self.disturbed() if time.perf_counter() - self.last[0] >= self.PERIOD else []

    def disturbed(self):
        """The same in any case: the rule of crates/step/src/sampling.rs, and others worked meanwhile."""
        (began, waited, busy, own), self.last = self.last, self.look()
        now, waits, works, owns = self.last
        steps, self.steps = self.steps, 0
        tolerated = TOLERATED_LOSS * (now - began) * self.threads
        lost = waits is None or waited is None or waits - waited > tolerated
        return [bool(lost and (works - busy) - (owns - own) > max(tolerated, 2 * TICK))] * steps


def own_time():
    """Seconds that this process, its loaders and those that ended have worked."""
    ticks = 0
    for process in children():
        with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/%s/stat" % process) as file:
            ticks += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))  # utime and stime, proc(5)
    return sum(os.times()[:4]) + ticks * TICK


class Memory(object):
    """Peaks of process and device, above what they held before the network."""

    def __init__(self, device, limit):
        self.device, self.limit, self.peak, self.needed, self.loaders = device, limit, 0, None, 0
        Heap.map_large()
        torch_worker.ProcessMemory.forget_peak()
        self.resident, = kernel_bytes("/proc/self/status", "VmRSS")
        if device.type == "cuda":
            torch.zeros(1, device=device)
            torch.cuda.reset_peak_memory_stats(device)
            if limit is not None:
                torch.cuda.set_per_process_memory_fraction(min(1.0, limit / torch.cuda.get_device_properties(device).total_memory), device)

    def highest(self):
        self.peak = max(self.peak, kernel_bytes("/proc/self/status", "VmHWM")[0])
        return self.peak

    def used(self):
        return max(0, self.highest() - self.resident)

    def settle(self):
        """What was used until now is what a step needs. From here on the heap is as glibc makes it for a program that has freed large blocks."""
        self.needed = self.used()
        Heap.set(Heap.M_MMAP_THRESHOLD, 32 << 20)  # DEFAULT_MMAP_THRESHOLD_MAX, to which glibc raises it by itself
        Heap.set(Heap.M_TRIM_THRESHOLD, 64 << 20)

    def check_limit(self):
        """Python cannot cap torch's allocator on a processor: a step that needs more than the limit is the last. What the heap keeps
        later, because there is room for it, no step needs."""
        if self.device.type == "cpu" and self.limit is not None and self.needed is None and self.used() > self.limit:
            raise MemoryError("past mem_limit")

    def watch_loaders(self):
        """The kernel walks through all pages of a loader for this, 16 ms each: no step that is timed freely waits for it."""
        self.loaders = max(self.loaders, sum(map(private, children())))

    def reading(self):
        needed = self.used() if self.needed is None else self.needed
        counted = {"resident": self.highest(), "used": needed, "heap": self.used(), "loaders": self.loaders}
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


def private(process):
    """Resident bytes that no other process holds: a loader begins with all that its parent holds, which costs nothing until one of them
    changes it."""
    try:
        return sum(kernel_bytes("/proc/%s/smaps_rollup" % process, "Private_Clean", "Private_Dirty"))
    except (OSError, KeyError):
        return 0


# Training.

class Training(object):
    """The network, its optimizer and data, and what was measured of them."""

    def __init__(self, request, device, memory):
        self.request, self.device, self.memory = request, device, memory
        self.layout = torch.channels_last if request["channels_last"] else torch.contiguous_format
        self.data = data = Pets(request["data"], request["boxes"])
        if request["batch"] > len(data):
            raise Refused("a batch of %d images of a data set of %d" % (request["batch"], len(data)))
        self.network = detector(request).to(device, memory_format=self.layout).train()
        data.resizing = Resizing.of(self.network)
        weights = [weight for weight in self.network.parameters() if weight.requires_grad]
        if not weights:
            raise Refused("%s has no weight to train" % request["network"])
        self.optimizer = OPTIMIZERS[request["optimizer"]](weights, request["learning_rate"])
        self.cast, self.scaler = torch_worker.casting(request, device), torch_worker.scaler(request, device)
        schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, EPOCHS_A_RATE, RATE_FALLS_TO)
        self.timer = Timer(device, exact=True)
        self.trunk, self.neighbours = Trunk(self.network, self.timer), Neighbours(request["threads"])
        self.batches = Batches(request, data, schedule, self.timer)
        self.losses, self.disturbed, self.largest = [], [], None
        self.whole = request["warm_up"] + 2 * request["steps"]

    def moved(self, images, targets):
        def move(tensor, **layout):
            return tensor.to(self.device, non_blocking=self.request["pin_memory"], **layout)

        return [move(image) for image in images], [{key: move(value) for key, value in target.items()} for target in targets]

    def loss(self, images, targets):
        losses = self.network(images, targets)
        if not isinstance(losses, dict) or not losses:
            raise Refused("%s gives no dictionary of losses when it trains, as torchvision's detectors do" % self.request["network"])
        try:
            loss = sum(losses.values())
        except (TypeError, ValueError) as problem:
            raise Refused("the losses of %s cannot be added up: %s" % (self.request["network"], problem))
        if not (isinstance(loss, torch.Tensor) and loss.numel() == 1 and loss.requires_grad):
            raise Refused("the sum of the losses of %s is not a single number that has gradients" % self.request["network"])
        return loss.reshape(())

    def update(self):
        if self.scaler:
            self.scaler.unscale_(self.optimizer)
        if self.request["clip"] is not None:
            torch.nn.utils.clip_grad_norm_([weight for group in self.optimizer.param_groups for weight in group["params"]], self.request["clip"])
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()

    def step(self, batch=None):
        timer = self.timer
        images, targets = batch or self.batches.next()
        images, targets = self.moved(images, targets)
        timer.end("copy")
        with self.cast():
            loss = self.loss(images, targets)
        timer.end("forward")
        self.optimizer.zero_grad()  # as this PyTorch does where nobody says: before 2.0 gradients stay and are filled with zeros
        (self.scaler.scale(loss) if self.scaler else loss).backward()
        self.trunk.leave()
        timer.end("backward")
        self.update()
        timer.end("optimizer")
        self.losses.append(loss.detach())  # read when all are done: reading waits for the device
        self.memory.check_limit()
        self.disturbed += self.neighbours.step()
        tell(len(self.losses), self.whole, len(self.batches.starts))
        timer.end("other")
        if timer.exact:
            self.memory.watch_loaders()
            timer.skip()
        return timer.step()

    def run(self, steps, exact):
        """Some steps, in the time that a clock around them all measured, what epochs took to start and what watching took left out."""
        self.timer.synchronize()
        self.timer.exact = exact
        self.neighbours.disturbed()
        self.timer.skip()
        began, parts = self.timer.clock(), [self.step() for _ in range(steps)]
        self.timer.synchronize()
        seconds = self.timer.clock() - began
        self.disturbed += self.neighbours.disturbed()
        return {"parts": parts, "seconds": seconds, "disturbed": sum(self.disturbed[-steps:])}

    def warm_up(self):
        """The first steps, of which the last, when the optimizer has its state, takes the largest batch that there may be: it says what must fit."""
        first = self.run(self.request["warm_up"] - 1, exact=True)
        batch = None
        if self.data.resizing:  # else a network of the user's own that resizes otherwise
            indices, self.largest = Sizes(self.data.resizing, self.data).largest(self.request["batch"])
        self.timer.skip()
        began = self.timer.clock()
        if self.data.resizing:
            batch = self.batches.of(indices)
        first["parts"].append(self.step(batch))
        first["seconds"] += self.timer.clock() - began
        self.disturbed += self.neighbours.disturbed()
        first["disturbed"] += self.disturbed[-1]
        self.memory.settle()
        return first

    def measure(self):
        """Plain steps before and after exact ones, so that a machine that becomes slower meanwhile does not make either look so."""
        steps = self.request["steps"]
        first = self.warm_up()
        before, exact, after = self.run((steps + 1) // 2, False), self.run(steps, True), self.run(steps // 2, False)
        return {"first": first, "plain": {key: before[key] + after[key] for key in before}, "exact": exact}


def tell(done, of, epoch):
    """How far it is, for whoever watches."""
    print(json.dumps({"step": done, "of": of, "epoch": epoch}), file=sys.stderr, flush=True)


def traced(training, path, steps):
    """A trace of some more steps, as torch.profiler writes it."""
    from torch import profiler
    kinds = [profiler.ProfilerActivity.CPU] + [profiler.ProfilerActivity.CUDA] * (training.device.type == "cuda")
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < (1, 9):
        # It looks in a list for each of the calls that repeat another, which takes minutes; what is written holds them all anyway.
        torch.autograd.profiler.EventList._remove_dup_nodes = lambda events: None
    training.whole += 1 + steps
    # While the first of these steps runs, the profiler starts; it is not kept.
    # With the calls of Python, without which nobody knows what waits for it. Before 1.12 they are attached to each operation only, fill gigabytes
    # (1.8) or end the process (1.11 in Python 3.10).
    with profiler.profile(activities=kinds, with_stack=version >= (1, 12), schedule=profiler.schedule(wait=0, warmup=1, active=steps, repeat=1),
                          on_trace_ready=lambda profile: profile.export_chrome_trace(path)) as profile:
        for _ in range(1 + steps):
            training.step()
            profile.step()


# Graphs.

class Dense(torch.nn.Module):
    """What a detector runs on whole images: its backbone, and where it is asked for the head that reads all of its features."""

    def __init__(self, network, headed):
        super(Dense, self).__init__()
        self.backbone = network.backbone
        self.head = (network.rpn.head if hasattr(network, "rpn") else network.head) if headed else None
        pool = getattr(getattr(network, "roi_heads", None), "box_roi_pool", None)
        self.pooled = list(getattr(pool, "featmap_names", []))

    def forward(self, images):
        features = self.backbone(images)
        if not isinstance(features, dict):
            features = {"0": features}
        if self.head is None:
            return tuple(features.values())
        given = self.head(list(features.values()))
        given = list(given.values()) if isinstance(given, dict) else [tensor for tensors in given for tensor in tensors]
        return tuple([features[name] for name in self.pooled if name in features] + given)


class BoxHead(torch.nn.Module):
    """What it runs on each proposal."""

    def __init__(self, heads):
        super(BoxHead, self).__init__()
        self.head, self.predictor = heads.box_head, heads.box_predictor

    def forward(self, pooled):
        return self.predictor(self.head(pooled))


def exported(module, images, name):
    """The ONNX file of a module, without weights."""
    from perf4sight_reader import _copy, _exporter
    with _copy.undisturbed():
        onnx, _ = _exporter.export(_copy.stand_in(module).train(), (name,), (images,), False)
    return base64.b64encode(onnx).decode("ascii")


def graphs(request):
    """The network's parts as graphs, at the sizes that batches have which were measured or are asked about."""
    if sys.version_info < (3, 9):
        raise Refused("graphs of networks are read with Python 3.9 or newer, not %s" % sys.version.split()[0])
    from perf4sight_reader import _errors, _settings
    network, data = detector(dict(request, size=None)).train(), Pets(request["data"], request["boxes"])
    if not (hasattr(network, "backbone") and Resizing.of(network) and (hasattr(network, "rpn") or hasattr(network, "head"))):
        raise Refused("%s has no transform, backbone and head as torchvision's detectors have" % request["network"])
    asked = []
    for of in request["asked"]:
        resize(network, request["network"], of["size"])
        sizes = Sizes(Resizing.of(network), data)
        typical, area = sizes.typical(of["batch"], random.Random(request["seed"]))  # the same for the same batch
        asked.append({"typical": typical, "area": area, "largest": sizes.largest(of["batch"])[1]})
    shapes = {tuple(shape) for shape in request["shapes"]} | {tuple(one[key]) for one in asked for key in ("typical", "largest")}
    dense, trunk, heads = Dense(network, headed=True), Dense(network, headed=False), getattr(network, "roi_heads", None)
    measured = {tuple(shape) for shape in request["shapes"]}
    try:
        found = [{"shape": shape, "onnx": exported(dense, torch.zeros(2, 3, *shape), "images"),
                  "trunk": exported(trunk, torch.zeros(2, 3, *shape), "images") if shape in measured else None} for shape in sorted(shapes)]
        box_head = None
        if hasattr(heads, "box_head"):
            pooled = torch.zeros(2, network.backbone.out_channels, *heads.box_roi_pool.output_size)
            box_head = exported(BoxHead(heads), pooled, "pooled")
    except _errors.Error as problem:
        raise Refused(str(problem))
    return {"outcome": "described", "graphs": found, "box_head": box_head, "asked": asked, "trainable": _settings.trainable(dense),
            "images": len(data)}


# One request.

DEFAULTS = {"network": NETWORKS[0], "weights": False, "boxes": "trimap", "num_workers": 0, "prefetch_factor": 2, "size": None,
            "precision": "fp32", "channels_last": False, "pin_memory": False, "optimizer": "adamw", "learning_rate": LEARNING_RATE, "clip": None,
            "warm_up": 2, "steps": 10, "trace": None, "trace_steps": 3, "mem_limit": None}


def prepare(request):
    """The device that the request names, where all that it asks for is known."""
    if request["place"] not in places():
        raise Refused("PyTorch %s cannot train on %s; expected: %s" % (torch.__version__, request["place"], ", ".join(places())))
    device = torch.device(request["place"])
    precisions = [known for known in torch_worker.precisions(device) if known in PRECISIONS]
    for key, known in (("precision", precisions), ("optimizer", OPTIMIZERS), ("boxes", BOXES)):
        if request[key] not in known:
            raise Refused("%s = %s: expected on %s with PyTorch %s: %s" % (key, request[key], device, torch.__version__, ", ".join(known)))
    for key, least in (("batch", 1), ("steps", 2), ("warm_up", 2), ("num_workers", 0), ("prefetch_factor", 1), ("threads", 1), ("trace_steps", 1)):
        if type(request[key]) is not int or request[key] < least:
            raise Refused("%s = %s: expected a whole number of %d or more" % (key, request[key], least))
    return device


def out_of_memory(problem):
    """Words, for the CPU's allocator and NVIDIA's libraries, which ask the driver themselves, have no type of error for it."""
    phrases = ("can't allocate memory", "cuda out of memory", "hip out of memory", "error: out of memory", "status_alloc_failed")
    return isinstance(problem, MemoryError) or any(phrase in str(problem).lower() for phrase in phrases) and "shared memory" not in str(problem)


def workers_died(problem, codes):
    """What DataLoaders' workers die of most: the memory that processes share is a small file system in containers. Either the kernel's word
    for it reaches the DataLoader first, or that there is an exit code."""
    words = str(problem)
    if "DataLoader worker" not in words:
        return None
    if "Bus error" in words or "shared memory" in words or -signal.SIGBUS in codes:
        return ("a DataLoader's worker died of a bus error: /dev/shm, through which its batches go, is too small; start the container with "
                "--ipc=host or --shm-size=2g, or take fewer num_workers or a smaller prefetch_factor")
    return "a DataLoader's worker died: %s" % words


def measure(request):
    device = prepare(request)
    torch.set_num_threads(request["threads"])
    torch.manual_seed(request["seed"])
    memory = Memory(device, request["mem_limit"])
    began, start, training = time.perf_counter(), torch_worker.moment(), None
    try:
        training = Training(request, device, memory)
        measured = training.measure()
        counted, end = memory.reading(), torch_worker.moment()
        if request["trace"]:
            traced(training, request["trace"], request["trace_steps"])
    except (MemoryError, RuntimeError, IndexError) as problem:
        died = workers_died(problem, training.batches.codes() if training else [])
        if died:
            raise Refused(died)
        # What cross-entropy says of a label on a processor, and all that a GPU says.
        if "device-side assert" in str(problem) or isinstance(problem, IndexError) and str(problem).startswith("Target "):
            raise Refused("labels out of range, as it seems: boxes of the data have the label %d, and %s distinguishes fewer (%s)"
                          % (LABEL, request["network"], problem))
        if not out_of_memory(problem):
            raise
        return {"outcome": "out_of_memory", "memory": memory.reading(), "seconds": time.perf_counter() - began}
    losses = [float(loss) for loss in training.losses]
    batches = training.batches
    # JSON has no word for numbers that are none.
    return dict(measured, outcome="measured", losses=[loss if math.isfinite(loss) else None for loss in losses], memory=counted,
                images=len(batches.data), epoch_starts=batches.starts, damaged=batches.damaged, seconds=time.perf_counter() - began,
                batches=training.trunk.batches, largest=training.largest, conditions={"start": start, "end": end},
                weights=sum(weight.numel() for weight in training.network.parameters()))


def parse(line):
    try:
        asked = json.loads(line)
        protocol = asked["protocol"]
    except (ValueError, KeyError, TypeError) as problem:
        raise Refused("no request: %s: %s" % (type(problem).__name__, problem))
    if protocol != PROTOCOL:
        raise Refused("a request of protocol %s; this worker speaks protocol %d" % (protocol, PROTOCOL))
    if asked.get("task") not in TASKS:
        raise Refused("no request: this worker does not know the task %s, only %s" % (asked.get("task"), " and ".join(TASKS)))
    needed = ("place", "threads", "seed", "data") + (("batch",) if asked["task"] == TASKS[0] else ("shapes", "asked"))
    missing = [key for key in needed if key not in asked]
    if missing:
        raise Refused("no request: it lacks %s" % ", ".join(missing))
    # A module of the user's own may change the folder.
    paths = {key: os.path.abspath(asked[key]) for key in ("data", "trace") if asked.get(key)}
    return dict(DEFAULTS, **dict(asked, **paths))


def answer(line):
    try:
        request = parse(line)
        return measure(request) if request["task"] == TASKS[0] else graphs(request)
    except Refused as refused:
        return {"outcome": "failed", "reason": str(refused)}
    except Exception as problem:  # whatever went wrong belongs into the answer
        return {"outcome": "failed", "reason": torch_worker.unforeseen(problem)}
    except SystemExit as problem:
        return {"outcome": "failed", "reason": "%s ended the program: sys.exit(%s)" % (request["network"], problem)}


def about():
    """What torch_worker.py says of the machine, and what this one does there."""
    known = torch_worker.about()
    return dict(known, software=dict(known["software"], torchvision=torchvision.__version__), tasks=list(TASKS), settings=[])


def main():
    parser = argparse.ArgumentParser(description="perf4sight worker for detection training: one request on stdin, its answer on stdout")
    parser.add_argument("--about", action="store_true", help="write one line about this worker instead")
    only_about = parser.parse_args().about
    LIBC.prctl(PR_SET_PDEATHSIG, SIGKILL)  # ends with the process that started it, however that comes about
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a module of the user's own prints is not an answer
    print(json.dumps(about() if only_about else answer(sys.stdin.readline())), file=answers, flush=True)


if __name__ == "__main__":
    main()
