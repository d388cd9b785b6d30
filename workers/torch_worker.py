#!/usr/bin/env python3
"""Measures one network where perf4sight's own worker cannot run: on boards whose PyTorch is too old for it.

One file, standard library and torch only, Python 3.6 on: copy it to the board. It speaks the worker protocol that
crates/step/src/protocol.rs describes: one JSON line in, one JSON line out, one measurement a process. With --about it writes one
JSON line about itself instead. Networks are ONNX files as perf4sight writes them.
"""
import argparse
import ctypes
import fnmatch
import functools
import glob
import inspect
import json
import math
import os
import platform
import resource
import struct
import sys
import threading
import time
import traceback

# They would change what a step on a GPU costs, and no row would show them: as crates/worker/src/cuda.rs. torch reads them.
for variable in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "NVIDIA_TF32_OVERRIDE",
                 "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"):
    os.environ.pop(variable, None)

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

PROTOCOL = 2
TASK = "step"  # the only one that this worker knows
SETTINGS = ["optimizer", "zero_grad", "precision", "trainable", "frozen_normalisation", "accumulate", "loss", "checkpoint"]  # what of a step it does otherwise than the published profiler where it is asked to
if "use_reentrant" not in inspect.signature(checkpoint).parameters:
    SETTINGS.remove("checkpoint")  # before PyTorch 1.11
# What weights and data are held in, and what autocast computes in, by the words of crates/step/src/workload/precision.rs.
PRECISIONS = {
    "fp32": (torch.float32, None), "amp_bf16": (torch.float32, torch.bfloat16), "amp_fp16": (torch.float32, torch.float16),
    "bf16": (torch.bfloat16, None),
}
LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 0.1, 0.9, 5e-4  # the published optimizer
RUNNING_MOMENTUM, EPSILON = 0.1, 1e-5  # PyTorch's defaults, and those of the published networks
TOLERATED_LOSS = 0.05  # share of a step's processor time that others may take: crates/step/src/sampling.rs
STILL_WARMING = 0.05  # share by which a step must undercut the quickest so far to count as still getting quicker: as above
LOOK = 0.002  # seconds between looks at a device's memory
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG, SIGKILL = 1, 9  # linux/prctl.h


class Refused(Exception):
    """A request that cannot be measured; its text goes into the answer."""


# ONNX files: protobuf messages are numbered fields, crates/onnx/proto/onnx.proto names them.

def varint(data, at):
    """A number of seven bits a byte, the lowest first, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def message(data):
    """The fields of a message: number -> values in order, numbers as int, everything else as bytes."""
    fields, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = varint(data, at)
        else:
            size, at = varint(data, at) if wire == 2 else ({1: 8, 5: 4}[wire], at)
            value, at = data[at:at + size], at + size
        fields.setdefault(number, []).append(value)
    return fields


def text(fields, number):
    return fields[number][0].decode() if number in fields else ""


def integers(fields, number):
    """A repeated integer, packed or not."""
    found = []
    for value in fields.get(number, []):
        packed, at = (value, 0) if isinstance(value, bytes) else (b"", 0)
        if not packed:
            found.append(value)
        while at < len(packed):
            one, at = varint(packed, at)
            found.append(one)
    return [value - (1 << 64) if value >> 63 else value for value in found]


def constant(data):
    """A small constant tensor: a number where it has no dimensions, else a list."""
    fields = message(data)
    if fields[2][0] == 1:
        packed = b"".join(fields[4])
        values = list(struct.unpack("<%df" % (len(packed) // 4), packed))
    else:
        values = integers(fields, 7) or integers(fields, 5)
    return values if 1 in fields else values[0]


def attribute(data):
    fields = message(data)
    kind = fields[20][0]
    readers = {
        1: lambda: struct.unpack("<f", fields[2][0])[0],
        2: lambda: integers(fields, 3)[0],
        3: lambda: text(fields, 4),
        4: lambda: constant(fields[5][0]),
        7: lambda: integers(fields, 8),
        8: lambda: [word.decode() for word in fields[9]],
    }
    return text(fields, 1), readers[kind]() if kind in readers else None


def declared(data):
    """Name, dimensions and type of a graph's input or output; a symbolic dimension, the batch, is 0."""
    fields = message(data)
    tensor = message(message(fields[2][0])[1][0])
    shape = message(tensor[2][0])
    kind = {7: torch.int64, 9: torch.bool}.get(tensor[1][0], torch.float32)
    return text(fields, 1), [message(dim).get(1, [0])[0] for dim in shape.get(1, [])], kind


class Node(object):
    """An operator, what it reads, and the names of its results."""

    def __init__(self, data):
        fields = message(data)
        self.inputs = [name.decode() for name in fields.get(1, [])]
        self.outputs = [name.decode() for name in fields[2]]
        self.output = self.outputs[0]
        self.kind = text(fields, 4)
        self.attributes = dict(attribute(one) for one in fields.get(5, []))


class Graph(object):
    """A network file: the inputs by name, the weights by name, and the nodes in the order they run."""

    def __init__(self, path):
        try:
            with open(path, "rb") as file:
                graph = message(message(file.read())[7][0])
            given = [declared(one) for one in graph[11]]
            self.nodes = joined([Node(one) for one in graph[1]])
            self.outputs = [declared(one) for one in graph[12]]  # name, dimensions, type
        except OSError as problem:
            raise Refused("%s cannot be read: %s" % (path, problem.strerror))
        except (KeyError, IndexError, ValueError, struct.error):
            raise Refused("%s is not a network as perf4sight writes them" % path)
        # Only data has a batch.
        self.inputs = {name: (dims, kind) for name, dims, kind in given if dims[:1] == [0]}
        self.weights = {name: dims for name, dims, _ in given if name not in self.inputs}
        unknown = sorted({node.kind for node in self.nodes if not hasattr(Network, "op_" + node.kind)})
        if unknown:
            raise Refused("%s has operations that cannot run: %s" % (path, ", ".join(unknown)))
        if not self.inputs:
            raise Refused("%s is not a network as perf4sight writes them" % path)
        self.uses = {}
        for name in [name for node in self.nodes for name in node.inputs] + [name for name, _, _ in self.outputs]:
            self.uses[name] = self.uses.get(name, 0) + 1


def smallest_table(graph, name):
    """Rows of the smallest table that integers are looked up in: the rule of crates/network/src/contents.rs; None where in none."""
    held, rows = {name}, []
    for node in graph.nodes:
        if node.kind == "Gather" and node.inputs[1] in held:
            rows.append(graph.weights[node.inputs[0]][0])
        elif node.kind in ("Flatten", "Reshape", "Transpose", "Identity", "Slice", "Expand", "Concat", "Gather") and held.intersection(node.inputs):
            held.add(node.output)
    return min(rows) if rows else None


# What a file notes at an attention and at a dropping of whole samples, by crates/onnx/src/write.
PARTS = ("scale", "query", "turned", "key", "scores", "sum", "weights",
         "drawn_batch", "ones", "rate", "keep", "shape", "one", "drawn", "above", "kept", "scaled")


def joined(nodes):
    """The nodes with those that ONNX writes as several, and PyTorch runs as one, joined: SiLU, linear layers with a bias, attention, and
    whole samples that are dropped."""
    makers, kept = {node.output: node for node in nodes}, []
    for node in nodes:
        gate = makers.get(node.output + "/gate")
        product = makers.get(node.output + "/product")
        parts = {part: makers.get(node.output + "/" + part) for part in PARTS}
        if node.kind == "MatMul" and parts["weights"]:
            added = parts["sum"].inputs[1:] if parts["sum"] else []
            node.kind, node.inputs = "Attention", parts["query"].inputs[:1] + parts["turned"].inputs + node.inputs[1:] + added
            kept = [other for other in kept if other not in parts.values()]
        elif node.kind == "Mul" and parts["drawn"]:
            node.kind, node.inputs, node.attributes = "DropPath", node.inputs[:1], {"keep": parts["keep"].attributes["value"]}
            kept = [other for other in kept if other not in parts.values()]
        elif node.kind == "Mul" and gate:
            kept.remove(gate)
            node.kind, node.inputs = "Silu", gate.inputs
        elif node.kind == "Add" and product:
            kept.remove(product)
            node.kind, node.inputs = "Linear", product.inputs + node.inputs[1:]
        kept.append(node)
    return kept


# Networks in torch.

OVERWRITABLE = ("Conv", "Gemm", "MatMul", "BatchNormalization", "LayerNormalization", "GroupNormalization", "MaxPool", "AveragePool",
                "GlobalAveragePool", "AdaptiveAveragePool", "ReduceMean", "ReduceSum", "Add", "Sub", "Mul", "Div", "Max",
                "Min", "Mod", "Concat", "ConvTranspose", "Resize",
                "Pad", "Gather", "Where", "TopK", "CumSum", "Col2Im", "GridSample")


def in_place(graph):
    """Results of the rectifiers that overwrite their input: the rule of crates/network/src/in_place.rs."""
    makers = {node.output: node.kind for node in graph.nodes}

    def overwrites(name):
        return makers.get(name) in OVERWRITABLE and graph.uses[name] == 1

    return {node.output for node in graph.nodes if node.kind in ("Relu", "Clip") and overwrites(node.inputs[0])}


def windows(size, axis, attributes):
    """How many windows a convolution or pooling lays along an axis: the rule of crates/network/src/shape.rs."""
    before, after = attributes["pads"][axis], attributes["pads"][axis + 2]
    stride, reach = attributes["strides"][axis], (attributes["kernel_shape"][axis] - 1) * attributes["dilations"][axis] + 1
    ceil = attributes.get("ceil_mode", 0)
    count = (size + before + after - reach + (stride - 1 if ceil else 0)) // stride + 1
    return count - 1 if ceil and (count - 1) * stride >= size + before else count


def padded(x, attributes, value, pools):
    """The input and the padding torch is reply: the rule of crates/worker/src/ops.rs.

    torch pads both sides alike, pooling by half a kernel at most; any other padding is laid around the image first.
    """
    top, left, bottom, right = attributes["pads"]
    kernel, stride, dilation = (attributes[name] for name in ("kernel_shape", "strides", "dilations"))
    too_far = pools and (2 * top > kernel[0] or 2 * left > kernel[1])
    if (top, left) == (bottom, right) and not too_far:
        return x, (top, left)
    sides = []
    for axis, before in ((1, left), (0, top)):
        covered = (windows(x.shape[axis + 2], axis, attributes) - 1) * stride[axis] + (kernel[axis] - 1) * dilation[axis] + 1
        sides += [before, covered - x.shape[axis + 2] - before]
    return functional.pad(x, sides, value=value), (0, 0)


def truth(x):
    """Which numbers are not zero."""
    if not isinstance(x, torch.Tensor):
        return bool(x)
    return x if x.dtype == torch.bool else x != 0


def alike(x, other):
    """Both with axes of length 1 behind the batch, so that samples of different rank broadcast at their last axis; a single number that is
    trained has no axis at all."""
    if not isinstance(x, torch.Tensor) or not isinstance(other, torch.Tensor):
        return x, other
    while x.dim() < other.dim():
        x = x.unsqueeze(min(1, x.dim()))
    while other.dim() < x.dim():
        other = other.unsqueeze(min(1, other.dim()))
    return x, other


def prelu(x, slopes):
    """What functional.prelu calls itself, whose slopes are a vector; before PyTorch 2.0 others than a vector had no kernel of their own."""
    if hasattr(torch, "_prelu_kernel"):
        return torch._prelu_kernel(x, slopes)
    if slopes.numel() == 1 or slopes.dim() > 1 and slopes.shape[1] == slopes.numel() == x.shape[1]:
        return functional.prelu(x, slopes.flatten())
    return torch.where(x > 0, x, slopes * x)


class Fixed(object):
    """Equal numbers that nobody trains, which ONNX wants as the scale or shift of a normalisation without."""

    def __init__(self, shape):
        self.shape = shape


def trained(weight):
    """A scale or shift as torch takes it: None where it is none."""
    return None if isinstance(weight, Fixed) else weight


NORMALISATIONS = ("BatchNormalization", "LayerNormalization", "GroupNormalization")


def learned_weights(graph, names, trainable):
    """Which of the weights training changes: the rule of crates/network/src/frozen.rs."""
    owners = {}  # operations with weights, in the order they are last read, by the stems of their weights' names
    for node in graph.nodes:
        for name in node.inputs:
            if name in names:
                owners.pop(stem(name), None)
                owners[stem(name)] = node
    owners = list(owners)
    last = {"classifier": 1}.get(trainable, int(trainable[5:]) if trainable.startswith("last ") else 0)
    normalised = {name for node in graph.nodes if node.kind in NORMALISATIONS for name in node.inputs[1:3]}
    if trainable == "all":
        return set(names)
    if last:
        return {name for name in names if stem(name) in owners[-last:]}
    if trainable == "bias":
        return {name for name in names if name.endswith(".bias")}
    if trainable == "normalisation":
        return normalised.intersection(names)
    return {name for name in names if any(fnmatch.fnmatchcase(stem(name), pattern) for pattern in trainable.split(","))}


def stem(name):
    return name.rpartition(".")[0]


class Segment(object):
    """Nodes in a row, what they read from before, and what those behind read of them."""

    def __init__(self, graph, nodes, behind, again):
        self.nodes, self.again = nodes, again  # whether it keeps its inputs alone, and runs again in backward
        made = {name for node in nodes for name in node.outputs}
        names = [name for node in nodes for name in node.inputs if name and name not in graph.weights and name not in made]
        later = {name for node in behind for name in node.inputs} | {name for name, _, _ in graph.outputs}
        self.reads = list(dict.fromkeys(names))
        self.gives = [name for node in nodes for name in node.outputs if name in later]
        self.last = [name for name in self.reads if name not in later]


def segments(graph, cuts):
    """The graph cut behind the nodes of these names; what is behind the last of them runs once."""
    places = [place for place, node in enumerate(graph.nodes, 1) if node.output in cuts]
    if len(places) != len(cuts):
        raise Refused("cuts names what is no node of the network: %s" % ", ".join(cuts))
    bounds = [0] + places + [len(graph.nodes)]
    return [Segment(graph, graph.nodes[start:end], graph.nodes[end:], end in places) for start, end in zip(bounds, bounds[1:])]


class Network(object):
    """A graph with weights, run node by node; a result is let go as soon as its last reader ran."""

    def __init__(self, graph, request, device):
        training = request["stage"] == "training"
        self.graph, self.training = graph, training
        self.numbers = held(request)
        self.overwriting = in_place(graph)
        self.segments = segments(graph, request.get("cuts", []) if training else [])
        if training and (len(self.segments) == 1) != (request.get("checkpoint", "none") == "none"):
            raise Refused("checkpoint = %s without the nodes that the network is cut behind, or the other way round" % request.get("checkpoint"))
        self.values = {name: weight(name, dims, device, self.numbers) for name, dims in graph.weights.items()}
        running = {name for node in graph.nodes if node.kind == "BatchNormalization" for name in node.inputs[3:]}
        kept = {name for name in self.values if name in running or name.endswith(".buffer")}
        kept |= {name for name in self.values if name.endswith(".places")}
        trainable = request.get("trainable", "all")
        learned = learned_weights(graph, [name for name in self.values if name not in kept], trainable)
        if training and not learned:
            raise Refused("trainable = %s leaves nothing to train" % trainable)
        for name in {name for node in graph.nodes if node.kind in RECURRENT for name in node.inputs[1:]}:
            self.values[name] = of_directions(self.values[name])
        self.parameters = [part for name, value in self.values.items() if name in learned for part in parts(value)]
        for parameter in self.parameters:
            parameter.requires_grad_()  # by which attention chooses its kernel where nothing is trained, too
        keeps = setting(request, "frozen_normalisation", ("train", "eval"), "train") == "eval"
        # Names of the outputs of those whose statistics stay as they are.
        self.evaluating = {node.output for node in graph.nodes if node.kind == "BatchNormalization"
                           and (not training or keeps and not learned.intersection(node.inputs[1:3]))}

    def forward(self, batch, watch):
        values = dict(batch)
        for segment in self.segments:
            given = {name: values.pop(name) if name in segment.last else values[name] for name in segment.reads}
            if segment.again:
                again = functools.partial(self.again, segment, watch)
                results = checkpoint(again, *given.values(), use_reentrant=False)
                del again
            else:
                results = self.run(segment, watch, given)
            values.update(zip(segment.gives, results))
            del given, results
        return [values[name] for name, _, _ in self.graph.outputs]

    def again(self, segment, watch, *given):
        return self.run(segment, watch, dict(zip(segment.reads, given)))

    def run(self, segment, watch, values):
        """What later segments read of this one; each of the values goes with its last reader."""
        values.update(self.values)
        values[""] = None  # optional inputs that are left out have no name
        left = dict(self.graph.uses)
        for node in segment.nodes:
            inputs = [values[name] for name in node.inputs]
            for name in node.inputs:
                left[name] -= 1
                if left[name] == 0:
                    del values[name]
            results = getattr(self, "op_" + node.kind)(node, *inputs)
            results = results if isinstance(results, tuple) else (results,)
            values.update((name, result) for name, result in zip(node.outputs, results) if name in self.graph.uses)
            del inputs, results
            watch()
        return [values[name] for name in segment.gives]

    # One method an operator, by its name in ONNX.

    def op_Constant(self, node):
        return node.attributes["value"]

    def op_Shape(self, node, x):
        return list(x.shape[node.attributes["start"]:node.attributes["end"]])

    def op_Expand(self, node, x, shape):
        return x.expand([size if have == 1 else have for size, have in zip(shape, x.shape)])

    def op_Conv(self, node, x, weight, bias=None):
        attributes = node.attributes
        if x.dim() == 5:  # a volume, whose sides are padded alike
            return functional.conv3d(x, weight, bias, attributes["strides"], attributes["pads"][:3], attributes["dilations"],
                                     attributes["group"])
        x, padding = padded(x, attributes, 0.0, False)
        return functional.conv2d(x, weight, bias, attributes["strides"], padding, attributes["dilations"], attributes["group"])

    def op_ConvTranspose(self, node, x, weight, bias=None):
        attributes = node.attributes
        top, left, bottom, right = attributes["pads"]
        more = [extra + near - far for extra, near, far in zip(attributes["output_padding"], (top, left), (bottom, right))]
        return functional.conv_transpose2d(x, weight, bias, attributes["strides"], (top, left), more, attributes["group"],
                                           attributes["dilations"])

    def op_Gemm(self, node, x, weight, bias=None):
        return functional.linear(x, weight, bias)

    def op_Linear(self, node, x, weight, bias):
        return functional.linear(x, weight.t(), bias)

    def op_MatMul(self, node, x, other):
        return torch.matmul(x, other)

    def op_BatchNormalization(self, node, x, weight, bias, mean, variance):
        return functional.batch_norm(x, mean, variance, weight, bias, node.output not in self.evaluating, RUNNING_MOMENTUM,
                                     EPSILON)

    def op_ConstantOfShape(self, node, shape):
        return Fixed(shape)

    def op_LSTM(self, node, x, matrices, hidden, biases=None):
        return self.remembered(node, torch.lstm, 2, x, matrices, hidden, biases)

    def op_GRU(self, node, x, matrices, hidden, biases=None):
        return self.remembered(node, torch.gru, 1, x, matrices, hidden, biases)

    def op_RNN(self, node, x, matrices, hidden, biases=None):
        run = torch.rnn_relu if node.attributes.get("activations", ["Tanh"])[0] == "Relu" else torch.rnn_tanh
        return self.remembered(node, run, 1, x, matrices, hidden, biases)

    def remembered(self, node, run, states, x, matrices, hidden, biases):
        """A recurrent layer in one direction or both, which begins with zeros: the states of all time steps, and the last."""
        size, directions = node.attributes["hidden_size"], len(matrices)
        of_directions = zip(matrices, hidden, *([biases[0::2], biases[1::2]] if biases else []))
        zeros = x.new_zeros([directions, x.shape[1], size])
        begin = zeros if states == 1 else (zeros,) * states
        weights = [weight for one in of_directions for weight in one]
        results = run(x, begin, weights, biases is not None, 1, 0.0, self.training, directions == 2, False)
        return results[0].reshape(x.shape[0], x.shape[1], directions, size).transpose(1, 2), results[1]

    def op_LayerNormalization(self, node, x, scale, shift=None):
        return functional.layer_norm(x, list(scale.shape), trained(scale), trained(shift), EPSILON)

    def op_GroupNormalization(self, node, x, scale, shift):
        return functional.group_norm(x, node.attributes["num_groups"], trained(scale), trained(shift), EPSILON)

    def op_Relu(self, node, x):
        return torch.relu_(x) if node.output in self.overwriting else torch.relu(x)

    def op_Clip(self, node, x, low, high):
        if high != 6:
            return torch.clamp(x, low, high)
        return functional.hardtanh(x, low, high, node.output in self.overwriting)

    def op_LeakyRelu(self, node, x):
        return functional.leaky_relu(x)

    def op_Elu(self, node, x):
        return functional.elu(x)

    def op_Sigmoid(self, node, x):
        return torch.sigmoid(x)

    def op_HardSigmoid(self, node, x):
        return functional.hardsigmoid(x)

    def op_Tanh(self, node, x):
        return torch.tanh(x)

    def op_Silu(self, node, x):
        return functional.silu(x)

    def op_HardSwish(self, node, x):
        return functional.hardswish(x)

    def op_Gelu(self, node, x):
        return functional.gelu(x)

    def op_Mish(self, node, x):
        return functional.mish(x)

    def op_Softplus(self, node, x):
        return functional.softplus(x)

    def op_Selu(self, node, x):
        return functional.selu(x)

    def op_Celu(self, node, x):
        return functional.celu(x)

    def op_Abs(self, node, x):
        return torch.abs(x)

    def op_Neg(self, node, x):
        return torch.neg(x)

    def op_Exp(self, node, x):
        return torch.exp(x)

    def op_Log(self, node, x):
        return torch.log(x)

    def op_Sqrt(self, node, x):
        return torch.sqrt(x)

    def op_Reciprocal(self, node, x):
        return torch.reciprocal(x)

    def op_Erf(self, node, x):
        return torch.erf(x)

    def op_Sin(self, node, x):
        return torch.sin(x)

    def op_Cos(self, node, x):
        return torch.cos(x)

    def op_Sign(self, node, x):
        return torch.sign(x)

    def op_Floor(self, node, x):
        return torch.floor(x)

    def op_Ceil(self, node, x):
        return torch.ceil(x)

    def op_Round(self, node, x):
        return torch.round(x)

    def op_Cast(self, node, x):
        # Of what comparisons give, torch separates numbers from truths where it matters: see number and truth.
        if node.inputs[0].endswith("/said") or not isinstance(x, torch.Tensor):
            return x
        return x.to({7: torch.int64, 9: torch.bool}.get(node.attributes["to"], self.numbers))

    def op_Not(self, node, x):
        return ~truth(x)

    def op_And(self, node, x, other):
        x, other = alike(truth(x), truth(other))
        return x & other

    def op_Or(self, node, x, other):
        x, other = alike(truth(x), truth(other))
        return x | other

    def op_Xor(self, node, x, other):
        x, other = alike(truth(x), truth(other))
        return x ^ other

    def op_Equal(self, node, x, other):
        x, other = alike(x, other)
        return x == other

    def op_Less(self, node, x, other):
        x, other = alike(x, other)
        return x < other

    def op_LessOrEqual(self, node, x, other):
        x, other = alike(x, other)
        return x <= other

    def op_Greater(self, node, x, other):
        x, other = alike(x, other)
        return x > other

    def op_GreaterOrEqual(self, node, x, other):
        x, other = alike(x, other)
        return x >= other

    def op_Where(self, node, condition, x, other):
        x, other = alike(x, other)
        condition, x = alike(truth(condition), x)
        return torch.where(condition, x, alike(other, x)[0])

    def op_Pow(self, node, x, other):
        x, other = alike(x, other)
        return torch.pow(x, other)

    def op_Max(self, node, x, other):
        x, other = alike(x, other)
        return torch.max(x, other) if isinstance(other, torch.Tensor) else torch.clamp(x, min=other)

    def op_Min(self, node, x, other):
        x, other = alike(x, other)
        return torch.min(x, other) if isinstance(other, torch.Tensor) else torch.clamp(x, max=other)

    def op_Mod(self, node, x, other):
        x, other = alike(x, other)
        return torch.fmod(x, other)

    def op_PRelu(self, node, x, slopes):
        x, slopes = alike(x, slopes)
        # Autocast knows prelu alone: what it would do to the slopes.
        return prelu(x, slopes.to(x.dtype) if isinstance(slopes, torch.Tensor) else x.new_full((1,), slopes))

    def op_MaxPool(self, node, x):
        attributes = node.attributes
        if x.dim() == 5:
            return functional.max_pool3d(x, attributes["kernel_shape"], attributes["strides"], attributes["pads"][:3],
                                         attributes["dilations"], bool(attributes["ceil_mode"]))
        x, padding = padded(x, attributes, -math.inf, True)
        return functional.max_pool2d(x, attributes["kernel_shape"], attributes["strides"], padding, attributes["dilations"],
                                     bool(attributes["ceil_mode"]))

    def op_AveragePool(self, node, x):
        attributes = node.attributes
        if x.dim() == 5:
            return functional.avg_pool3d(x, attributes["kernel_shape"], attributes["strides"], attributes["pads"][:3],
                                         bool(attributes["ceil_mode"]), bool(attributes["count_include_pad"]))
        x, padding = padded(x, attributes, 0.0, True)
        return functional.avg_pool2d(x, attributes["kernel_shape"], attributes["strides"], padding,
                                     bool(attributes["ceil_mode"]), bool(attributes["count_include_pad"]))

    def op_GlobalAveragePool(self, node, x):
        return functional.adaptive_avg_pool2d(x, 1)

    def op_AdaptiveAveragePool(self, node, x):
        return functional.adaptive_avg_pool2d(x, node.attributes["output_size"])

    def number(self, x, other):
        """What a comparison says, of which torch subtracts none, as numbers like those of the other operand, or as they are held."""
        if not (isinstance(x, torch.Tensor) and x.dtype == torch.bool):
            return x
        is_number = isinstance(other, torch.Tensor) and other.is_floating_point()
        return x.to(other.dtype if is_number else self.numbers)

    def op_Add(self, node, x, other):
        x, other = alike(self.number(x, other), self.number(other, x))
        return x + other

    def op_Sub(self, node, x, other):
        x, other = alike(self.number(x, other), self.number(other, x))
        return x - other

    def op_Mul(self, node, x, other):
        x, other = alike(self.number(x, other), self.number(other, x))
        return x * other

    def op_Div(self, node, x, other):
        x, other = alike(self.number(x, other), self.number(other, x))
        return x / other

    def op_Concat(self, node, *inputs):
        if isinstance(inputs[0], list):  # of sizes, for Expand
            return sum(inputs, [])
        return torch.cat(inputs, node.attributes["axis"])

    def op_Flatten(self, node, x):
        return torch.flatten(x, 1)

    def op_Reshape(self, node, x, shape):
        return x.reshape([size or x.shape[axis] for axis, size in enumerate(shape)])

    def op_Transpose(self, node, x):
        return x.permute(node.attributes["perm"])

    def op_Identity(self, node, x):  # a copy in the order of axes that it has here: crates/onnx/src/write/sizing.rs
        return x.contiguous()

    def op_Slice(self, node, x, starts, ends, axes, steps=None):
        if not steps:
            return x.narrow(axes[0], starts[0], ends[0] - starts[0])
        return x[tuple([slice(None)] * axes[0] + [slice(starts[0], None, steps[0])])]

    def op_Gather(self, node, x, places):
        if node.inputs[0] in self.graph.weights:
            return functional.embedding(places % x.shape[0] if node.inputs[1] in self.graph.weights else places, x)
        if not isinstance(places, list):  # the file does not say which: the first ones, over and over
            places = [place % x.shape[node.attributes["axis"]] for place in range(len(places))]
        return x.index_select(node.attributes["axis"], torch.tensor(places, device=x.device))

    def op_Pad(self, node, x, pads, number=0.0):
        half, mode = len(pads) // 2, node.attributes["mode"]
        pairs = list(zip(pads[:half], pads[half:]))
        # torch names the last axis first; its other modes know images, whose last two axes they pad.
        first = next(axis for axis, pair in enumerate(pairs) if pair != (0, 0)) if mode == "constant" else max(2, half - 2)
        sides = [side for pair in reversed(pairs[first:]) for side in pair]
        return functional.pad(x, sides, {"edge": "replicate", "wrap": "circular"}.get(mode, mode), number)

    def op_Resize(self, node, x, _, __, size):
        mode = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}[node.attributes["mode"]]
        corners = node.attributes["coordinate_transformation_mode"] == "align_corners"
        return functional.interpolate(x, size, mode=mode, align_corners=None if mode == "nearest" else corners)

    def op_Softmax(self, node, x):
        return torch.softmax(x, node.attributes["axis"])

    def op_ReduceSum(self, node, x, axes=None):
        return x.sum() if axes is None else x.sum(axes, bool(node.attributes["keepdims"]))

    def op_ReduceMax(self, node, x, axes):
        return torch.amax(x, axes, bool(node.attributes["keepdims"]))

    def op_ReduceMin(self, node, x, axes):
        return torch.amin(x, axes, bool(node.attributes["keepdims"]))

    def op_ReduceL1(self, node, x, axes):
        return torch.norm(x, 1, axes, bool(node.attributes["keepdims"]))

    def op_ReduceL2(self, node, x, axes):
        return torch.norm(x, 2, axes, bool(node.attributes["keepdims"]))

    def op_ReduceProd(self, node, x, axes):
        for axis in sorted(axes, reverse=True):
            x = x.prod(axis, bool(node.attributes["keepdims"]))
        return x

    def op_ReduceLogSumExp(self, node, x, axes):
        return torch.logsumexp(x, axes, bool(node.attributes["keepdims"]))

    def op_ReduceMean(self, node, x, axes):
        return x.mean(axes, bool(node.attributes["keepdims"]))

    def op_ArgMax(self, node, x):
        return torch.argmax(x, node.attributes["axis"], bool(node.attributes["keepdims"])).to(x.dtype)

    def op_ArgMin(self, node, x):
        return torch.argmin(x, node.attributes["axis"], bool(node.attributes["keepdims"])).to(x.dtype)

    def op_TopK(self, node, x, count):
        values, places = torch.topk(x, count[0], node.attributes["axis"], bool(node.attributes["largest"]))
        return values, places.to(x.dtype)

    def op_CumSum(self, node, x, axis):
        return torch.cumsum(x, axis)

    def op_Col2Im(self, node, x, image, block):
        attributes = node.attributes
        return functional.fold(x, image, block, attributes["dilations"], attributes["pads"][:2], attributes["strides"])

    def op_GridSample(self, node, x, grid):
        mode = {"linear": "bilinear", "cubic": "bicubic"}.get(node.attributes["mode"], node.attributes["mode"])
        return functional.grid_sample(x, grid, mode, node.attributes["padding_mode"], bool(node.attributes["align_corners"]))

    def op_Attention(self, node, query, key, value, added=None):
        if hasattr(functional, "scaled_dot_product_attention"):
            return functional.scaled_dot_product_attention(query, key, value, added)
        # Before PyTorch 2.0 there was none.
        scores = torch.matmul(query / math.sqrt(query.shape[-1]), key.transpose(-2, -1))
        return torch.matmul(torch.softmax(scores if added is None else scores + added, -1), value)

    def op_DropPath(self, node, x):
        keep = node.attributes["keep"]
        if not self.training or keep == 1:
            return x
        kept = x.new_empty([x.shape[0]] + [1] * (x.dim() - 1)).bernoulli_(keep)
        return x * (kept.div_(keep) if keep > 0 else kept)

    def op_Dropout(self, node, x, rate, _):
        return functional.dropout(x, rate, self.training)


# Recurrent layers, whose weights a file holds for both directions together, biases of input and hidden state behind each other.
RECURRENT = ("LSTM", "GRU", "RNN")


def of_directions(weights):
    """The weights of a recurrent layer as PyTorch keeps them: each direction's matrix, or its two biases."""
    found = [part for one in weights for part in ([one] if one.dim() > 1 else one.chunk(2))]
    return tuple(part.clone().requires_grad_(weights.requires_grad) for part in found)


def parts(value):
    return value if isinstance(value, tuple) else (value,)


def weight(name, dims, device, numbers):
    """Values such as PyTorch starts from; which ones does not change what a step costs."""
    if name.endswith(".places"):  # the file does not say which rows: the first ones
        return torch.empty(dims, dtype=torch.int64, device=device).flatten().fill_(1).cumsum(0).sub_(1).reshape(dims)
    value = torch.empty(dims, dtype=numbers, device=device)
    if len(dims) > 1:
        bound = 1 / math.sqrt(max(1, value[0].numel()))
        return value.uniform_(-bound, bound)
    return value.fill_(0 if name.endswith((".bias", ".running_mean")) else 1)


def filled(graph, name, batch, device, numbers):
    """A batch of an input: numbers at random, ids within the smallest table, masks that keep everything."""
    (_, *dims), kind = graph.inputs[name]
    if kind == torch.float32:
        return torch.rand([batch] + dims, dtype=numbers, device=device)
    rows = smallest_table(graph, name) if kind == torch.int64 else None
    return torch.ones([batch] + dims, dtype=kind, device=device) if rows is None else torch.randint(rows, [batch] + dims, device=device)


class PublishedSgd(torch.optim.SGD):
    """The published optimizer: one weight after the other, as in every PyTorch before 2.0, and gradients filled with zeros in place."""

    def __init__(self, parameters):
        torch.optim.SGD.__init__(self, parameters, LEARNING_RATE, MOMENTUM, 0, WEIGHT_DECAY)
        for group in self.param_groups:
            group["foreach"] = False


# As PyTorch runs them where nothing is said; numbers that older versions require are its later defaults.
OPTIMIZERS = {
    "sgd": PublishedSgd,
    "sgd_without_weight_decay": lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=MOMENTUM),
    "sgd_without_momentum": lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
}


def formats(request):
    """What weights and data are held in, and what autocast computes in."""
    return PRECISIONS[request.get("precision") or "fp32"]


def held(request):
    """What weights and data are held in."""
    return formats(request)[0]


class FullPrecision(object):
    """No autocast, which keeps nothing and scales nothing."""

    def __enter__(self):
        pass

    def __exit__(self, *failure):
        pass


def casting(request, device):
    """Makes what forward and loss run within: PyTorch's autocast, whose casts of weights go when it ends."""
    _, low = formats(request)
    return (lambda: torch.autocast(device.type, dtype=low)) if low else FullPrecision


def scaler(request, device):
    """What keeps gradients within the range of half precision, as PyTorch's users have it; None where nothing has to."""
    if formats(request)[1] != torch.float16:
        return None
    amp = getattr(torch, "amp", None)  # before 1.12 there is none
    return amp.GradScaler(device.type) if hasattr(amp, "GradScaler") else torch.cuda.amp.GradScaler()


class Step(object):
    """A step, on random data that is already in place: what crates/worker/src/step.rs does."""

    def __init__(self, graph, request, device):
        self.training, self.passes = request["stage"] == "training", request.get("accumulate", 1)
        if self.passes > request["batch"]:
            raise Refused("accumulate = %d leaves passes without a sample at batch size %d" % (self.passes, request["batch"]))
        self.samples = request["batch"]
        batch = -(-self.samples // self.passes)  # of the largest pass
        self.network = Network(graph, request, device)
        self.casting, self.scaler = casting(request, device), None
        self.batch = {name: filled(graph, name, batch, device, self.network.numbers) for name in graph.inputs}
        if self.training:
            self.squares = setting(request, "loss", ("cross_entropy", "mean_squared_error"), "cross_entropy") == "mean_squared_error"
            self.compared = [place for place, (_, _, kind) in enumerate(graph.outputs) if kind == torch.float32]
            self.targets = [self.targets_of(graph.outputs[place][1][1:], batch, device) for place in self.compared]
            self.optimizer = OPTIMIZERS[setting(request, "optimizer", OPTIMIZERS, "sgd")](self.network.parameters)
            self.frees = setting(request, "zero_grad", ("keep", "free"), "keep") == "free"
            self.scaler = scaler(request, device)

    MOST_LEFT_OUT = 40  # halvings of a scale that leave nothing of it

    def begin(self, watch=lambda: None):
        """The first step that changes the weights, from which on the optimizer holds its state: a scaler begins where gradients may be no
        numbers, and leaves updates out until they are."""
        for _ in range(self.MOST_LEFT_OUT):
            before = self.scaler.get_scale() if self.scaler else 1.0
            self.run(watch)
            if self.scaler is None or self.scaler.get_scale() >= before:
                return
        raise RuntimeError("after %d steps gradients are still no numbers in half precision" % self.MOST_LEFT_OUT)

    def targets_of(self, result, batch, device):
        """What a result is compared with: as many numbers, or classes at its places."""
        if self.squares:
            return torch.rand([batch] + result, dtype=self.network.numbers, device=device)
        # Classes lie on the first axis, those of a sequence on the last: the rule of crates/network/src/graph.rs.
        classes = result.pop(1 if len(result) == 2 else 0) if result else 1
        return torch.randint(classes, [batch] + result, device=device)

    def run(self, watch=lambda: None):
        """One step; `watch` is called after every operation forward, and before and after the optimizer."""
        if not self.training:
            with torch.no_grad(), self.casting():
                self.network.forward(self.batch, watch)
            return
        if self.frees:  # by hand, for zero_grad fills them in older versions
            for parameter in self.network.parameters:
                parameter.grad = None
        for number in range(self.passes):
            # As in a program's loop, a loss goes when the next one is there.
            loss = self.backward(watch, number)
        watch()
        self.optimize()
        watch()

    def optimize(self):
        if self.scaler is None:
            self.optimizer.step()
            return
        self.scaler.step(self.optimizer)  # not where a gradient is not a number
        self.scaler.update()

    def backward(self, watch, number):
        """Forward and backward of a pass; before the first backward gradients that are kept are filled with zeros."""
        samples = self.samples // self.passes + (number < self.samples % self.passes)  # the first have one more where some are left
        with self.casting():
            loss = self.loss(samples, watch)
        if self.passes > 1:  # gradients add up to those of the mean of the losses
            loss = loss / self.passes
        # In place, as the published tool's PyTorch did; later ones free gradients by default.
        for parameter in self.network.parameters if number == 0 else []:
            if parameter.grad is not None:
                parameter.grad.zero_()  # none where they were freed
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()
        return loss

    def loss(self, samples, watch):
        """The losses of all results that are numbers, one after the other, and their sum."""
        results = self.network.forward({name: batch[:samples] for name, batch in self.batch.items()}, watch)
        total = None
        for place, targets in zip(self.compared, self.targets):
            loss = self.loss_of(results[place], targets[:samples])
            total = loss if total is None else total + loss
        return total

    def loss_of(self, result, targets):
        if self.squares:
            return functional.mse_loss(result, targets)
        if result.dim() == 3:  # of a sequence every place counts as a sample
            result, targets = result.flatten(0, 1), targets.flatten()
        return functional.cross_entropy(result.unsqueeze(1) if result.dim() == 1 else result, targets)


def setting(request, key, known, published):
    """What a request says of a step, or what is published."""
    word = request.get(key, published)
    if word not in known:
        raise Refused("%s = %s is unknown; this worker knows %s" % (key, word, ", ".join(known)))
    return word


# What the kernel and torch say of memory.

def kernel_bytes(path, *names):
    """Counters in kB of a file like /proc/meminfo, in bytes, in the order of `names`."""
    with open(path) as file:
        lines = dict(line.split(":", 1) for line in file if ":" in line)
    return [int(lines[name].split()[0]) * 1024 for name in names]


class Heap(object):
    """glibc's, as crates/worker/src/allocator.cpp has it: large blocks mapped while memory is read, so that the resident set is what
    a step needs; all of them kept while steps are timed, since pages that are given back cost time when they are needed again."""

    M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4  # glibc's malloc.h
    MAPPED = 128 << 10  # the threshold glibc starts with

    @staticmethod
    def set(option, value):
        mallopt = getattr(LIBC, "mallopt", None)  # glibc's alone
        if mallopt:
            mallopt(option, value)

    @classmethod
    def map_large(cls):
        cls.set(cls.M_MMAP_THRESHOLD, cls.MAPPED)
        cls.set(cls.M_TRIM_THRESHOLD, 2 * cls.MAPPED)

    @classmethod
    def keep(cls):
        cls.set(cls.M_MMAP_MAX, 0)
        cls.set(cls.M_TRIM_THRESHOLD, -1)


class ProcessMemory(object):
    """A CPU's: the peak of the process's resident set, and what torch's profiler saw its allocator do."""

    def __init__(self, limit, counts=True):
        self.limit, self.allocated = limit, 0
        Heap.map_large()
        if counts:
            with self.profile():
                torch.empty(1)  # what the profiler loads is not the step's: 150 MiB in PyTorch 2.15
        self.forget_peak()
        self.resident, = kernel_bytes("/proc/self/status", "VmRSS")
        self.idle = kernel_bytes("/proc/meminfo", "MemAvailable", "MemFree")

    @staticmethod
    def forget_peak():
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")  # VmHWM starts anew (Linux, Documentation/filesystems/proc.rst)
        except OSError:
            pass  # then the peak is that of the whole process, loading torch included

    def peak(self):
        return max(0, kernel_bytes("/proc/self/status", "VmHWM")[0] - self.resident)

    def watch(self):
        """Refuses to go on past the limit. Python cannot cap torch's allocator, and a process that the kernel caps does not
        live to tell: libraries it calls do not look at what malloc gives them."""
        if self.limit is not None and self.peak() > self.limit:
            raise MemoryError("past mem_limit")

    @staticmethod
    def profile():
        from torch import profiler
        return profiler.profile(activities=[profiler.ProfilerActivity.CPU], profile_memory=True)

    def count(self, run):
        """Runs `run` and finds the peak of what its tensors take; torch reports every allocation to a running profiler."""
        profile = self.profile()
        try:
            with profile:
                run()
        finally:
            used = 0
            for event in profile.profiler.kineto_results.events():
                if event.name() == "[memory]":
                    used += event.nbytes()
                    self.allocated = max(self.allocated, used)
        if self.allocated == 0:
            raise Refused("the profiler of PyTorch %s does not report allocations; measure latency only" % torch.__version__)

    def refused(self):
        """Torch's allocator for the CPU does not count what it refuses."""
        return False

    def reading(self):
        return reading(self.allocated, self.allocated, self.peak(), self.idle)

    def timing(self):
        """From here on memory is what a process takes that keeps what it has."""
        Heap.keep()
        self.forget_peak()

    def heap(self):
        return self.peak()


class DeviceMemory(object):
    """A CUDA device's: torch's counters, and what the device or, where it shares main memory, the kernel says is used."""

    def __init__(self, device, limit):
        self.device, self.limit = device, limit
        torch.zeros(1, device=device)  # the context exists before anything is counted, as in the published profiler
        properties = torch.cuda.get_device_properties(device)
        self.unified = bool(properties.is_integrated)
        if not self.unified and not hasattr(torch.cuda, "mem_get_info"):
            raise Refused("reading the memory of %s needs PyTorch 1.11 or newer, not %s" % (properties.name, torch.__version__))
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        self.highest = self.idle_used = self.used()
        self.idle = kernel_bytes("/proc/meminfo", "MemAvailable", "MemFree") if self.unified else 2 * self.device_bytes()[:1]
        if limit is not None:
            torch.cuda.set_per_process_memory_fraction(min(1.0, limit / properties.total_memory), device)
        self.done = threading.Event()

    def device_bytes(self):
        """Free and total, by cudaMemGetInfo."""
        return list(torch.cuda.mem_get_info(self.device))

    def used(self):
        if self.unified:
            # The published profiler's formula.
            total, *left = kernel_bytes("/proc/meminfo", "MemTotal", "MemFree", "Buffers", "Cached")
            return total - sum(left)
        free, total = self.device_bytes()
        return total - free

    def look(self):
        while not self.done.wait(LOOK):
            self.highest = max(self.highest, self.used())

    def watch(self):
        """Nothing to do: torch's own allocator keeps the limit."""

    def count(self, run):
        threading.Thread(target=self.look, daemon=True).start()
        run()
        torch.cuda.synchronize(self.device)

    def reading(self):
        self.done.set()
        self.highest = max(self.highest, self.used())
        counted = reading(torch.cuda.max_memory_allocated(self.device), torch.cuda.max_memory_reserved(self.device),
                          max(0, self.highest - self.idle_used), self.idle)
        stats = torch.cuda.memory_stats(self.device)
        return dict(counted, retries=stats["num_alloc_retries"], refusals=stats["num_ooms"])

    def refused(self):
        return torch.cuda.memory_stats(self.device)["num_ooms"] > 0

    def timing(self):
        """torch's caching allocator is the same in both phases."""

    def heap(self):
        return None


def reading(allocated, reserved, used, idle):
    available, free = idle
    return {"allocated": allocated, "reserved": reserved, "used": used, "available": available, "free": free, "heap": None}


# Time.

class Wall(object):
    """A CPU's clock, and whether others had the processors meanwhile: the rule of crates/step/src/sampling.rs."""

    def __init__(self, threads):
        self.threads = threads

    @staticmethod
    def waited():
        """Seconds that threads stood ready without a processor: the second number of each one's schedstat; None if not counted. A thread that ends takes
        its own with it, as one that pins a loader's batches."""
        waits = [int(text.split()[1]) for text in texts("/proc/self/task/*/schedstat").values()]
        return sum(waits) / 1e9 if waits else None

    def time(self, run):
        before, waited, start = resource.getrusage(resource.RUSAGE_SELF), self.waited(), time.perf_counter()
        run()
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
        whole = wall * self.threads
        lost = max(0.0, whole - (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
        if waited is not None:
            lost = min(lost, max(0.0, self.waited() - waited))
        return wall, after.ru_nivcsw > before.ru_nivcsw and lost > TOLERATED_LOSS * whole


class Events(object):
    """A CUDA device's own clock; its queue is empty before and after."""

    def __init__(self, device):
        self.device = device

    def time(self, run):
        start, end = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        torch.cuda.synchronize(self.device)
        start.record()
        run()
        end.record()
        torch.cuda.synchronize(self.device)
        return start.elapsed_time(end) / 1e3, False


def summary(seconds):
    """Median in ms, and the half-width of its 95 % interval between order statistics relative to it (Conover, 3.2)."""
    seconds, count = sorted(seconds), len(seconds)
    median = (seconds[(count - 1) // 2] + seconds[count // 2]) / 2
    rank = max(1, int(math.floor(count / 2 - 0.98 * math.sqrt(count) + 0.5)))
    return median * 1e3, (seconds[count - rank] - seconds[rank - 1]) / 2 / median


def warm_up(rule, clock, run):
    """Runs steps until they do not get quicker any more: the rule of crates/step/src/sampling.rs."""
    quickest = spent = clock.time(run)[0]
    while spent < rule["maximum_seconds"]:
        wall = clock.time(run)[0]
        if wall > (1 - STILL_WARMING) * quickest:
            break
        quickest, spent = wall, spent + wall


def time_steps(rule, clock, run):
    """Takes samples until the request's rule is content; disturbed ones are replaced as long as there is time."""
    clean, disturbed = [], []

    def enough(samples):
        return len(samples) >= max(1, rule["minimum"]) and sum(samples) >= rule["minimum_seconds"]

    while True:
        wall, bad = clock.time(run)
        (disturbed if bad else clean).append(wall)
        late = sum(clean) + sum(disturbed) >= rule["maximum_seconds"]
        if enough(clean):
            median, spread = summary(clean)
            if spread <= rule["spread"] or late:
                return {"median": median, "spread": spread, "steps": len(clean), "discarded": len(disturbed),
                        "disturbed": False}
        elif enough(disturbed) and sum(disturbed) >= rule["maximum_seconds"]:
            median, spread = summary(clean + disturbed)
            return {"median": median, "spread": spread, "steps": len(clean + disturbed), "discarded": 0,
                    "disturbed": True}


# The machine: the files that crates/machine/src/linux.rs reads, for the rules of crates/machine/src/conditions.rs.

CORES, THERMAL = "/sys/devices/system/cpu/cpu[0-9]*/", "/sys/class/thermal/"
GPUS = ("gpu", "gp10b", "gv11b", "ga10b")  # ends of a Jetson GPU's folder, from TX1 to Orin
BRAKES = ("cpufreq", "devfreq", "Processor", "balanced", "throttle")  # in the names of cooling devices that are no fans


def texts(*patterns):
    """The files of the patterns by path, without those that cannot be read."""
    found = {}
    for path in sorted(path for pattern in patterns for path in glob.glob(pattern)):
        try:
            with open(path) as file:
                found[path] = file.read().strip()
        except (OSError, UnicodeDecodeError):
            pass
    return found


def numbers(*patterns):
    return {path: float(text) for path, text in texts(*patterns).items() if text.lstrip("-").isdigit()}


def sibling(path, name):
    return texts(os.path.join(os.path.dirname(path), name)).popitem()[1]


def highest(name, clocks, unit):
    return [(name, max(clocks.values()) / unit)] if clocks else []


def processors():
    """Seconds worked and seconds stolen by a hypervisor since the start, of all processors: /proc/stat counts hundredths."""
    ticks = [int(count) for count in texts("/proc/stat").get("/proc/stat", "cpu").splitlines()[0].split()[1:9]]
    return {"busy": (sum(ticks[:3]) + ticks[5] + ticks[6]) / 1e2, "stolen": ticks[7] / 1e2} if len(ticks) == 8 else {}


def moment():
    """Clocks in MHz, temperatures in degrees, what slows clocks down; what the machine does not report is left out."""
    cores, allowed = numbers(CORES + "cpufreq/scaling_cur_freq"), numbers(CORES + "cpufreq/scaling_max_freq")
    base, nominal = numbers(CORES + "cpufreq/base_frequency"), numbers(CORES + "acpi_cppc/nominal_freq")
    gpus = {path: clock for path, clock in numbers("/sys/class/devfreq/*/cur_freq").items() if os.path.dirname(path).endswith(GPUS)}
    zones = {sibling(path, "type"): degrees / 1e3 for path, degrees in numbers(THERMAL + "thermal_zone*/temp").items()}
    brakes = [sibling(path, "type") for path, state in numbers(THERMAL + "cooling_device*/cur_state").items() if state > 0]
    throttles = numbers(CORES + "thermal_throttle/*_throttle_count")
    reply = processors()
    reply["clocks"] = dict(highest("cpu", cores, 1e3) + highest("gpu", gpus, 1e6))
    promised = highest("cpu", base, 1e3) or highest("cpu", nominal, 1)
    reply["promised"] = dict(min(pair) for pair in zip(promised, highest("cpu", allowed, 1e3)))
    reply["temperatures"] = {zone: degrees for zone, degrees in zones.items() if degrees > -100}  # below: switched off
    reply["held_by"] = [name for name in brakes if any(brake in name for brake in BRAKES)]
    if throttles:
        reply["throttles"] = int(sum(throttles.values()))
    return reply


# One request.

def out_of_memory(problem, memory):
    """Running out of memory: what the CUDA allocator counted, else words, for the CPU's allocator and NVIDIA's libraries, which ask
    the driver themselves, have no type of error for it."""
    words = str(problem).lower()
    reply = ("can't allocate memory", "cuda error: out of memory", "status_alloc_failed")  # the CPU's, the driver's, cuDNN's
    return isinstance(problem, MemoryError) or memory.refused() or any(phrase in words for phrase in reply)


def prepare(request):
    """The device that the request names, set up with its arithmetic and its choice of algorithms."""
    name = request["place"]
    if name not in places():
        raise Refused("PyTorch %s cannot run networks on %s; expected: %s" % (torch.__version__, name, ", ".join(places())))
    device = torch.device(name)
    setting(request, "precision", PRECISIONS, "fp32")
    setting(request, "precision", precisions(device), "fp32")
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = request.get("cudnn_benchmark", False)
        if hasattr(torch.backends.cuda.matmul, "allow_tf32"):
            torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = request.get("tf32", False)
    return device


def readings(graph, request, device, memory):
    """Memory in the first two steps, of which the second has optimizer state; then the timed ones."""
    steps = []

    def first_steps():
        steps.append(Step(graph, request, device))
        steps[0].begin(memory.watch)
        steps[0].run(memory.watch)

    if request["memory"]:
        memory.count(first_steps)
    else:
        first_steps()
    counted = memory.reading() if request["memory"] else None
    if not request["latency"]:
        return None, counted
    memory.timing()
    clock = Events(device) if device.type == "cuda" else Wall(request["threads"])
    warm_up(request["steps"], clock, steps[0].run)
    latency = time_steps(request["steps"], clock, steps[0].run)
    if counted:
        counted["heap"] = memory.heap()
    return latency, counted


def measure(request):
    if request["layers"]:
        raise Refused("this worker does not time single operations; leave layers out of profile_variables")
    device, graph = prepare(request), Graph(request["network"])
    torch.set_num_threads(request["threads"])
    torch.manual_seed(request["seed"])
    limit = request["mem_limit"]
    memory = DeviceMemory(device, limit) if device.type == "cuda" else ProcessMemory(limit, request["memory"])
    began, start = time.perf_counter(), moment()
    try:
        latency, counted = readings(graph, request, device, memory)
    except (MemoryError, RuntimeError) as problem:
        if not out_of_memory(problem, memory):
            raise
        return {"outcome": "out_of_memory", "memory": memory.reading(), "seconds": time.perf_counter() - began}
    return {"outcome": "measured", "latency": latency, "memory": counted, "seconds": time.perf_counter() - began,
            "conditions": {"start": start, "end": moment()}}


def parse(line):
    try:
        request = json.loads(line)
        protocol = request["protocol"]
    except (ValueError, KeyError, TypeError) as problem:
        raise Refused("no request: %s: %s" % (type(problem).__name__, problem))
    if protocol != PROTOCOL:
        raise Refused("a request of protocol %s; this worker speaks protocol %d" % (protocol, PROTOCOL))
    task = request.get("task", TASK)  # requests were of steps before there were other tasks
    if task != TASK:
        raise Refused("no request: this worker does not know the task %s, only %s" % (task, TASK))
    return request


def unforeseen(problem):
    """A problem that nobody foresaw, and the line that it came from."""
    place = traceback.extract_tb(problem.__traceback__)[-1]
    return "%s: %s (%s, line %d)" % (type(problem).__name__, problem, os.path.basename(place.filename), place.lineno)


def answer(line):
    try:
        return measure(parse(line))
    except Refused as refused:
        return {"outcome": "failed", "reason": str(refused)}
    except Exception as problem:  # whatever went wrong belongs into the answer
        return {"outcome": "failed", "reason": unforeseen(problem)}


def about():
    """What runs networks here, and what this worker can do."""
    software = {"python": platform.python_version(), "torch": torch.__version__}
    known = {"protocol": PROTOCOL, "software": software, "places": places(), "tasks": [TASK], "settings": SETTINGS,
             "precisions": {place: precisions(torch.device(place)) for place in places()}, "layers": False, "gpus": gpus()}
    return known if known["gpus"] else dict(known, no_gpu=no_gpu())


def precisions(device):
    """What numbers steps can compute with there."""
    if not hasattr(torch, "autocast"):  # before PyTorch 1.10
        return ["fp32"]
    if device.type == "cuda":
        # Brain floats came with compute capability 8.0; PyTorch would emulate them before, at a fraction of the speed.
        knows = {torch.float32: True, torch.float16: True, torch.bfloat16: torch.cuda.get_device_capability(device) >= (8, 0)}
    else:
        # Autocast on processors knew bfloat16 alone at first; the scaler came in PyTorch 2.3.
        knows = {torch.float32: True, torch.float16: hasattr(getattr(torch, "amp", None), "GradScaler"), torch.bfloat16: True}
    return [word for word, formats in PRECISIONS.items() if all(number is None or knows.get(number, False) for number in formats)]


def gpus():
    """The GPUs by place, with their address on the bus where this PyTorch knows it."""
    found = {}
    for gpu in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        properties = torch.cuda.get_device_properties(gpu)
        address = [getattr(properties, "pci_%s_id" % part, None) for part in ("domain", "bus", "device")]
        found["cuda:%d" % gpu] = {
            "name": properties.name, "memory": properties.total_memory, "unified": bool(properties.is_integrated),
            "bus": "" if None in address else "%04X:%02X:%02X.0" % tuple(address),
        }
    return found


def no_gpu():
    """Why there is none, in PyTorch's words."""
    try:
        torch.cuda.init()
        return "PyTorch %s sees no GPU" % torch.__version__
    except Exception as problem:  # AssertionError of a build without CUDA, RuntimeError of a driver that does not fit
        return "PyTorch %s: %s" % (torch.__version__, problem)


def places():
    """What networks can run on, each with what measurements there depend on."""
    found = {"cpu": {"blas": "reference"} if reference_blas() else {}}
    for gpu in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        properties = torch.cuda.get_device_properties(gpu)
        found["cuda:%d" % gpu] = {
            "gpu": properties.name, "gpu_memory": "%d MiB" % (properties.total_memory >> 20), "cuda": str(torch.version.cuda),
            "cudnn": str(torch.backends.cudnn.version()),
        }
    return found


def reference_blas():
    """Whether PyTorch multiplies matrices by the reference BLAS, a tenth as fast as others: what Debian installs with its PyTorch,
    in the folder blas of its alternatives."""
    try:
        with open("/proc/self/maps") as maps:
            return any("/blas/libblas.so" in line for line in maps)
    except OSError:
        return False


def main():
    parser = argparse.ArgumentParser(description="perf4sight worker for any PyTorch: one request on stdin, one answer on stdout")
    parser.add_argument("--about", action="store_true", help="write one line about this worker instead")
    tells = parser.parse_args().about
    LIBC.prctl(PR_SET_PDEATHSIG, SIGKILL)  # ends with the process that started it, however that comes about
    print(json.dumps(about() if tells else answer(sys.stdin.readline())))


if __name__ == "__main__":
    main()
