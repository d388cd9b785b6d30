"""The worker that trains detectors, where Python has torchvision."""
import base64
import contextlib
import importlib.util
import io
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORKER = os.path.join(ROOT, "crates", "detection", "worker", "detection_worker.py")
BESIDE = os.path.join(ROOT, "workers")  # torch_worker.py, which the program lays beside it
NETWORK = "fasterrcnn_mobilenet_v3_large_320_fpn"
PARTS = ("wait", "copy", "forward", "backward", "optimizer", "other")
torch.set_num_threads(1)

if not importlib.util.find_spec("torchvision"):
    print("the worker for detection was not run: this Python has no torchvision", file=sys.stderr)
    raise unittest.SkipTest("torchvision")

import torchvision

import pets

sys.path[:0] = [os.path.dirname(WORKER), BESIDE]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [BESIDE, os.environ.get("PYTHONPATH")]))
import detection_worker as worker
import torch_worker


def request(folder, **asked):
    return dict({"protocol": 2, "task": "detection", "place": "cpu", "threads": 1, "seed": 0, "data": folder, "network": NETWORK,
                 "size": 192, "batch": 1, "warm_up": 2, "steps": 9}, **asked)


def ask(line, folder=None, worker=WORKER):
    """What the worker answers, in a process of its own."""
    if not isinstance(line, str):
        line = json.dumps(line)
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    run = subprocess.run([sys.executable, "-W", "ignore", worker], input=line + "\n", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         universal_newlines=True, env=environment, cwd=folder, check=True)
    return json.loads(run.stdout)


# The same network with a sixteenth of the proposals, whose linear layers are most of a step.
SHORT = """
import torchvision

def detector():
    return torchvision.models.detection.%s(num_classes=2, min_size=192, max_size=384, box_batch_size_per_image=32, **%r)
""" % (NETWORK, worker.unweighted(torchvision.models.detection.__dict__[NETWORK], False))


class WithPets(unittest.TestCase):
    COUNT = 32

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = self.temporary.name
        self.boxes = pets.make(self.folder, self.COUNT)
        with open(self.path("short.py"), "w") as file:
            file.write(SHORT)

    def short(self, folder=None, **asked):
        """What the worker answers of steps of the short network."""
        answer = ask(request(folder or self.folder, network="short:detector", size=None, steps=2, **asked), folder=self.folder)
        self.assertEqual(answer["outcome"], "measured", answer)
        return answer

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def refused(self, **asked):
        answer = ask(request(self.folder, **asked))
        self.assertEqual(answer["outcome"], "failed", answer)
        return answer["reason"]


@unittest.skipIf(torch_worker.reference_blas(), "a step takes a quarter of a minute by the reference BLAS: apt-get install libopenblas0")
class Published(WithPets):
    """The network itself, at the time that its steps take."""

    def test_parts_add_up_and_the_loss_falls(self):
        began = time.monotonic()
        answer = ask(request(self.folder))
        self.assertEqual(answer["outcome"], "measured", answer)
        self.assertLess(time.monotonic() - began, 60)
        self.assertLess(answer["memory"]["resident"], 1.5 * 2**30)
        self.assertGreater(answer["memory"]["used"], 3 * 4 * 18e6)  # 19 million weights, their gradients, two moments of AdamW
        losses = answer["losses"]
        self.assertEqual(len(losses), 20)
        self.assertLess(statistics.mean(losses[-5:]), 0.7 * statistics.mean(losses[:5]))
        for mode in ("first", "plain", "exact"):
            parts = sum(step[part] for step in answer[mode]["parts"] for part in PARTS)
            self.assertAlmostEqual(parts / answer[mode]["seconds"], 1, delta=0.02, msg=mode)
        for step in answer["plain"]["parts"] + answer["exact"]["parts"]:
            self.assertEqual(set(step) - {"trunk_forward", "trunk_backward"}, set(PARTS))
        for step in answer["exact"]["parts"]:
            self.assertLess(step["trunk_forward"], step["forward"])
            self.assertLess(step["trunk_backward"], step["backward"])
        self.assertEqual([len(answer[mode]["parts"]) for mode in ("first", "plain", "exact")], [2, 9, 9])
        self.assertEqual((answer["images"], answer["damaged"], len(answer["epoch_starts"])), (32, {}, 1))

    def test_steps_take_no_longer_than_a_plain_loop(self):
        # Steps of both in turns, by the processor's time, which neighbours change less than the clock's.
        ours = worker.Training(dict(worker.DEFAULTS, **request(self.folder)), torch.device("cpu"),
                               worker.Memory(torch.device("cpu"), None))
        torch.manual_seed(0)
        data = worker.Pets(self.folder, "trimap")
        network = torchvision.models.detection.__dict__[NETWORK](
            num_classes=2, min_size=192, max_size=384, **worker.unweighted(torchvision.models.detection.__dict__[NETWORK], False)).train()
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, weight_decay=5e-4)

        def plain(name):
            image, target = data.read(name)
            loss = sum(network([image], [target]).values())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        # Both take the same image, since what a step takes depends on it.
        ours.batches.loader.dataset.names[:] = data.names[:1] * 32
        # Other programs make it noisy: where it is off, more turns tell whether it is by chance.
        ratios = []
        for turn in range(64):
            seconds = {}
            for step in (ours.step, lambda: plain(data.names[0]))[::1 - turn % 2 * 2]:
                began = time.process_time()
                with contextlib.redirect_stderr(io.StringIO()):
                    step()
                seconds[step == ours.step] = time.process_time() - began
            ratios.append(seconds[True] / seconds[False])
            if turn % 16 == 15 and abs(statistics.median(ratios[2:]) - 1) <= 0.05:
                return
        self.fail(ratios)


class Threads(unittest.TestCase):
    def test_threads_may_end_while_their_waits_are_counted(self):
        """As a loader's: between the list of threads and what the kernel says of one it may be gone."""
        ends = threading.Event()

        def others():
            while not ends.is_set():
                thread = threading.Thread(target=int)
                thread.start()
                thread.join()

        beside = [threading.Thread(target=others) for _ in range(4)]
        for thread in beside:
            thread.start()
        try:
            waits = [torch_worker.Wall.waited() for _ in range(3000)]
        finally:
            ends.set()
        for thread in beside:
            thread.join()
        self.assertNotIn(None, waits)


class Watching(WithPets):
    def setUp(self):
        super().setUp()
        with open(self.path("own.py"), "w") as file:
            file.write(OWN)
        for name in self.boxes:  # of the size of photographs, which take some milliseconds to read
            for path in (self.path("images", name + ".jpg"), self.path("annotations", "trimaps", name + ".png")):
                with worker.Image.open(path) as image:
                    image.resize((600, 500), worker.Image.NEAREST).save(path)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)

    def test_watching_takes_nothing_from_what_loaders_deliver(self):
        """Images a second of free steps and of a plain loop over the same data, whose network does next to nothing, in turns."""
        for num_workers in (0, 2, 4):
            self.compare(num_workers)

    def compare(self, num_workers):
        asked = dict(worker.DEFAULTS, **request(self.folder, network="own:small", size=None, num_workers=num_workers))
        ours = worker.Training(asked, torch.device("cpu"), worker.Memory(torch.device("cpu"), None))
        data = worker.Pets(self.folder, "trimap")
        own = worker.detector(asked).train()
        optimizer = torch.optim.AdamW(own.parameters(), lr=1e-4, weight_decay=5e-4)
        loader = torch.utils.data.DataLoader(data, batch_size=1, shuffle=True, drop_last=True, collate_fn=worker.collate, num_workers=num_workers)

        def plain(images, targets):
            loss = sum(own(images, targets).values())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        def plain_epoch():
            batches = iter(loader)
            plain(*next(batches)[:2])
            began = time.perf_counter(), time.process_time()
            for images, targets, _ in batches:
                plain(images, targets)
            return time.perf_counter() - began[0], time.process_time() - began[1]

        def own_epoch():
            ours.batches.current = None
            ours.run(1, False)
            began = time.process_time()
            return ours.run(self.COUNT - 1, False)["seconds"], time.process_time() - began

        # Other programs only ever make an epoch slower: the quickest of each is what both can do. Where they leave none alone, processor time,
        # which they change less, tells what of an epoch is ours.
        epochs = {plain_epoch: [], own_epoch: []}
        for turn in range(16):
            for epoch in (plain_epoch, own_epoch)[::1 - turn % 2 * 2]:
                with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                    epochs[epoch].append(epoch())
            quickest = {epoch: min(wall for wall, _ in taken) for epoch, taken in epochs.items()}
            if turn >= 3 and abs(quickest[own_epoch] / quickest[plain_epoch] - 1) <= 0.05:
                return
        worked = {epoch: statistics.median(processor for _, processor in taken) for epoch, taken in epochs.items()}
        self.assertLessEqual((worked[own_epoch] - worked[plain_epoch]) / quickest[plain_epoch], 0.05, "%d loaders: %s" % (num_workers, epochs))

    def test_loaders_are_watched_in_exact_steps_alone_and_that_counts_for_none(self):
        ours = worker.Training(dict(worker.DEFAULTS, **request(self.folder, network="own:small", size=None)), torch.device("cpu"),
                               worker.Memory(torch.device("cpu"), None))
        watched = []
        ours.memory.watch_loaders = lambda: watched.append(time.sleep(1))
        with contextlib.redirect_stderr(io.StringIO()):
            ours.run(3, False)
            self.assertEqual(len(watched), 0)
            exact = ours.run(2, True)
        self.assertEqual(len(watched), 2)
        self.assertLess(exact["seconds"], 1)
        self.assertLess(sum(step["other"] for step in exact["parts"]), 1)


class Training(WithPets):
    def test_workers_and_another_epoch(self):
        os.makedirs(self.path("few"))
        pets.make(self.path("few", "pets"), 5)
        answer = self.short(self.path("few", "pets"), batch=2, num_workers=1, boxes="head", clip=1.0, optimizer="sgd", learning_rate=1e-3)
        # Five steps of two images each and that of the largest batch, and one image of five left over in each epoch: epochs of two steps.
        self.assertEqual(len(answer["epoch_starts"]), 3)
        self.assertGreater(answer["memory"]["loaders"], 0)

    def test_a_trace_holds_its_steps(self):
        trace = self.path("trace.json")
        self.short(trace=trace, trace_steps=2)
        with open(trace) as file:
            events = json.load(file)
        events = events if isinstance(events, list) else events["traceEvents"]  # without Kineto, as in Debian, they are all
        self.assertEqual(len({event["name"] for event in events if event.get("name", "").startswith("ProfilerStep#")}), 2)

    def test_the_last_of_the_first_steps_takes_the_largest_batch(self):
        answer = self.short(batch=2)
        self.assertEqual([answer["batches"][1][side] for side in ("height", "width")], answer["largest"])
        for batch in answer["batches"]:
            self.assertLessEqual(batch["height"], answer["largest"][0])
            self.assertLessEqual(batch["width"], answer["largest"][1])
        self.assertEqual(answer["batches"][0]["proposals"], 2 * 32)  # torchvision samples so many of an image, where there are enough
        self.assertLessEqual(answer["memory"]["used"], answer["memory"]["heap"])

    def test_a_network_of_ones_own(self):
        with open(self.path("own.py"), "w") as file:
            file.write(OWN)
        for function, said in (
            ("few", "labels out of range: boxes of the data have the label 1"),
            ("none", "gives a NoneType, no torch.nn.Module"),
            ("wordless", "no dictionary of losses"),
            ("vector", "is not a single number that has gradients"),
            ("word", "cannot be added up"),
            ("broken", "ValueError: of its own (own.py, line "),
            ("index", "IndexError: index 7 is out of bounds"),
            ("slots", "RuntimeError: ran out of memory card slots"),
            ("quits", "own:quits ended the program: sys.exit(0)"),
            ("missing", "has no attribute"),
        ):
            answer = ask(request(self.folder, network="own:" + function, size=None, steps=2), folder=self.folder)
            self.assertIn(said, answer.get("reason", answer))
        # It prints and goes elsewhere, which is not an answer and changes no path.
        answer = ask(request(".", network="own:small", size=None, steps=2), folder=self.folder)
        self.assertEqual(answer["outcome"], "measured", answer)
        # It says nothing of the sizes of its images.
        self.assertEqual((answer["largest"], answer["batches"]), (None, []))


# Networks of a user's own: one that has too few classes, and what trains without being a detector of torchvision.
OWN = """
import os, sys, torch, torchvision

def few():
    return torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(num_classes=1, **WEIGHTS)

def none():
    return None

class Wordless(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))
    def forward(self, images, targets):
        return self.weight.sum()

class Small(Wordless):
    def forward(self, images, targets):
        return {"loss": (self.weight * sum(image.mean() for image in images) - 1) ** 2}

def small():
    print("made by hand")
    os.chdir("/")
    return Small()

def giving(forward):
    return lambda: type("Own", (Wordless,), {"forward": lambda self, images, targets: forward(self.weight)})()

def raising(error):
    def give(weight):
        raise error
    return giving(give)

wordless, quits = Wordless, lambda: sys.exit(0)
vector, word = giving(lambda weight: {"loss": weight.expand(2)}), giving(lambda weight: {"loss": "high"})
broken, index = raising(ValueError("of its own")), raising(IndexError("index 7 is out of bounds for dimension 0 with size 3"))
slots = raising(RuntimeError("ran out of memory card slots"))
""".replace("WEIGHTS", repr(worker.unweighted(torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn, False)))


class Graphs(WithPets):
    COUNT = 6

    def test_its_graphs_are_told_at_the_sizes_that_batches_have(self):
        if sys.version_info < (3, 9):
            self.skipTest("graphs are read with Python 3.9 or newer")
        beside = self.path("worker")
        os.makedirs(os.path.join(beside, "perf4sight_reader"))
        for file in (WORKER, os.path.join(BESIDE, "torch_worker.py")):
            shutil.copy(file, beside)
        with open(os.path.join(ROOT, "crates", "detection", "src", "trainer.rs")) as file:
            names = re.findall(r'\("perf4sight_reader/(\w+\.py)"', file.read())
        for name in names:
            shutil.copy(os.path.join(ROOT, "python", "perf4sight", name), os.path.join(beside, "perf4sight_reader"))
        asked = {"protocol": 2, "task": "detection_graphs", "place": "cpu", "threads": 1, "seed": 0, "data": self.folder, "network": NETWORK,
                 "shapes": [[192, 256]], "asked": [{"batch": 2, "size": 192}, {"batch": 1, "size": 256}]}
        answer = ask(asked, worker=os.path.join(beside, "detection_worker.py"))
        if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (1, 13):
            self.assertIn("PyTorch 1.13 or newer", answer["reason"])
            return
        self.assertEqual(answer["outcome"], "described", answer)
        shapes = [tuple(graph["shape"]) for graph in answer["graphs"]]
        self.assertEqual([graph["trunk"] is not None for graph in answer["graphs"]], [shape == (192, 256) for shape in shapes])
        for one, batch in zip(answer["asked"], (2, 1)):
            self.assertTrue({tuple(one["typical"]), tuple(one["largest"])} <= set(shapes))
            self.assertTrue(all(side % 32 == 0 for side in one["typical"] + one["largest"]))
        # ONNX files begin with their version, field 1 of a protobuf message.
        for onnx in [answer["box_head"]] + [graph["onnx"] for graph in answer["graphs"]]:
            self.assertEqual(base64.b64decode(onnx)[0], 0x08)


class Reading(WithPets):
    COUNT = 3

    def test_a_box_is_around_the_pet(self):
        data = worker.Pets(self.folder, "trimap")
        for name, box in self.boxes.items():
            self.assertEqual(data.read(name)[1]["boxes"].tolist(), [[float(side) for side in box]])

    def damaged(self, boxes="trimap"):
        """What is said of pet_0, and that another sample is taken instead of it."""
        pixels, _, damaged = worker.Pets(self.folder, boxes)[0]
        self.assertIsNotNone(pixels)
        self.assertEqual(list(damaged), ["pet_0"])
        return damaged["pet_0"]

    def trimap(self, image):
        image.save(self.path("annotations", "trimaps", "pet_0.png"))
        return self.damaged()

    def test_what_is_damaged_is_named_and_replaced(self):
        with worker.Image.open(self.path("images", "pet_0.jpg")) as image:
            size = image.size
        new = worker.Image.new
        self.assertIn("no pet in its trimap", self.trimap(new("L", size, 2)))
        self.assertIn("its trimap has 7 x 9 pixels", self.trimap(new("L", (7, 9), 1)))
        self.assertIn("pixels of mode RGB", self.trimap(new("RGB", size)))
        with open(self.path("annotations", "trimaps", "pet_0.png"), "r+b") as file:
            file.truncate(40)
        self.damaged()
        os.remove(self.path("annotations", "trimaps", "pet_0.png"))
        self.assertIn("there is no ", self.damaged())
        with open(self.path("images", "pet_0.jpg"), "w") as file:
            file.write("no image")
        self.assertIn("cannot identify image file", self.damaged())
        os.remove(self.path("images", "pet_0.jpg"))
        self.assertIn("there is no ", self.damaged())

    def test_boxes_of_heads_are_checked(self):
        for text, said in (
            ("<annotation/>", "no box in its xml file"),
            ("<annotation>", "cannot be read"),
            (pets.XML % (5, 5, 5, 9), "does not lie in"),
            (pets.XML % (0, 0, 9999, 9), "does not lie in"),
            (pets.XML.replace("%d", "x"), "cannot be read"),
            ('<?xml version="1.0" encoding="nonsense-8"?>', "unknown encoding"),
        ):
            with open(self.path("annotations", "xmls", "pet_0.xml"), "w") as file:
                file.write(text)
            self.assertIn(said, self.damaged("head"))

    def test_lists_are_read_as_other_programs_write_them(self):
        with open(self.path("annotations", "trainval.txt"), "w", newline="") as file:
            file.write("\ufeffpet_0 1 1 1\r\npet_\0 1 1 1\r\n")
        data = worker.Pets(self.folder, "trimap")
        self.assertEqual((len(data), data[0][2]), (2, {}))
        self.assertIn("null", data[1][2]["pet_\0"])

    def test_images_that_vanish_are_damaged(self):
        worker.Image.new("RGB", (3000, 1)).save(self.path("images", "pet_0.jpg"))
        worker.Image.new("L", (3000, 1), 1).save(self.path("annotations", "trimaps", "pet_0.png"))
        data = worker.Pets(self.folder, "trimap")
        self.assertEqual(data[0][2], {})
        data.resizing = worker.Resizing(torchvision.models.detection.transform.GeneralizedRCNNTransform(320, 640, [0.5] * 3, [0.5] * 3))
        self.assertIn("none of its 3000 x 1 pixels", data[0][2]["pet_0"])

    def test_losing_a_batch_ends_the_process_that_loads(self):
        for problem, signal in (
            ("unable to allocate shared memory(shm) for file </torch_1>: Resource temporarily unavailable (11)", 7),
            ("cannot pickle", 15),
        ):
            script = "import detection_worker, sys; detection_worker.end_without_a_batch(RuntimeError(sys.argv[1]), None)"
            run = subprocess.run([sys.executable, "-W", "ignore", "-c", script, problem], stderr=subprocess.PIPE, universal_newlines=True,
                                 cwd=os.path.dirname(WORKER))
            self.assertEqual(run.returncode, -signal)
            self.assertIn(problem, run.stderr)

    def test_nothing_left_is_an_error(self):
        for name in self.boxes:
            os.remove(self.path("images", name + ".jpg"))
        self.assertIn("none of the 3 images", self.refused(steps=2))

    def test_what_cannot_be_asked_is_said(self):
        has_ssd = hasattr(torchvision.models.detection, "ssd300_vgg16")  # since torchvision 0.10
        for asked, said in (
            ({"batch": 4}, "a batch of 4 images of a data set of 3"),
            ({"batch": 0}, "batch = 0"),
            ({"steps": True}, "steps = True"),
            ({"place": "cuda:7"}, "cannot train on cuda:7"),
            ({"network": "yolo"}, "expected: fasterrcnn_resnet50_fpn,"),
            ({"network": "no_module:make"}, "the network no_module:make"),
            ({"network": "ssd300_vgg16", "size": 192}, "made for images of 300 pixels" if has_ssd else "has no network ssd300_vgg16"),
            ({"precision": "int8"}, "precision = int8"),
            ({"boxes": "tail"}, "boxes = tail"),
            ({"data": self.path("nowhere")}, "cannot be read"),
            ({"protocol": 1}, "protocol 1"),
            ({"task": "step"}, "the task step"),
        ):
            self.assertIn(said, self.refused(**asked))
        self.assertIn("no request", ask("not JSON")["reason"])
        with open(self.path("annotations", "trainval.txt"), "w") as file:
            file.write("# a comment\n\n")
        self.assertIn("lists no image", self.refused())

    def test_memory_that_ends_is_an_outcome(self):
        answer = ask(request(self.folder, mem_limit=64 << 20))
        self.assertEqual(answer["outcome"], "out_of_memory", answer)

    def test_dead_workers_are_told_apart(self):
        unexpected = RuntimeError("DataLoader worker (pid(s) 7) exited unexpectedly")
        for problem, codes, full in (
            (RuntimeError("DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that ..."), [], True),
            (unexpected, [-7], True),
            (unexpected, [-9, 0], False),
        ):
            self.assertEqual("--shm-size" in worker.workers_died(problem, codes), full)
        self.assertIsNone(worker.workers_died(RuntimeError("shapes"), [-7]))


if __name__ == "__main__":
    unittest.main()
