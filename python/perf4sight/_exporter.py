"""PyTorch's TorchScript exporter, without the package onnx, without a word, and with a few operators more."""
from __future__ import annotations

import contextlib
import importlib
import io
import logging
import os
import re
import sys
import traceback
import warnings
from typing import Any, Callable, Iterator, List, Sequence, Tuple

from . import _private, _symbols, _updating
from ._errors import Error, NetworkError

# ONNX's layer normalisation is an operator since 17, which PyTorch 1.13 is the first to write and every later one still does.
OPSET = 17
OLDEST = (1, 13)
# Where PyTorch has kept the one step of its exporter that needs the package onnx: to add functions of ONNX Script, which no network here has.
# The packages that the default exporter writes files with.
PACKAGES = ("onnxscript", "onnx_ir")
INSTALL = "install onnx and onnxscript, which the default exporter needs"
PLAIN_WEIGHTS = "torch.nn.utils.parametrize.remove_parametrizations of %s leaves a plain weight, which takes the same but for what makes it"
PADDED = "where sequences are packed (pack_padded_sequence), give padded ones to the layer: that takes the most that packed ones can"
OTHERWISE = "write what it names with operators that ONNX has"
OF_ANY_BATCH = "\n  expected: a module that runs on inputs of these sizes, however long their first axis is, which is the batch: it was called with %d samples"
# How PyTorch names an operator that it cannot export (`UnsupportedOperatorError`), or not of these sizes (`SymbolicValueError`).
MISSING = re.compile(r"operator (?:'aten::(\w+)'|(\w+),)")
# What PyTorch adds to its words about a value of the graph.
OF_VALUE = "[Caused by the value"
# A line of PyTorch's may list the whole graph.
LONGEST_LINE = 300
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
ADDS_FUNCTIONS = ("torch.onnx._internal.torchscript_exporter.onnx_proto_utils", "torch.onnx._internal.onnx_proto_utils", "torch.onnx.utils")


class Unsupported(NetworkError):
    """The module's own code runs, and no exporter writes what it does."""


def export(module: Any, names: Tuple[str, ...], tensors: Tuple[Any, ...], weights: bool) -> Tuple[bytes, bool]:
    """The ONNX file of a module from tensors to tensors, whose inputs are called `names` and have a batch, and whether code outside of PyTorch
    asked what is in a tensor, be it only how many there are.

    Raises `Unsupported` for what it cannot do, and `NetworkError` where the module's own code does not run.
    """
    import torch

    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < OLDEST:
        raise Error("networks are read with PyTorch 1.13 or newer, not %s" % torch.__version__)
    with warnings.catch_warnings(record=True) as heard, unheard(), _without_onnx(), _without_checkpoints(), _bags_as_lookups(), _windows_by_axis(), \
            _sizes_checked(), _updating.unwritten(module):
        warnings.simplefilter("always")
        try:
            onnx = _exported(module, names, tensors, weights)
        except Unsupported as problem:
            try:
                return _exported_otherwise(problem, module, names, tensors, weights), False
            except Unsupported as other:
                onnx = _exported_by_name(problem, other, lambda known: _exported(module, names, tensors, weights, known))
    own = os.path.dirname(torch.__file__) + os.sep
    return onnx, any(issubclass(one.category, torch.jit.TracerWarning) and not one.filename.startswith(own) for one in heard)


def _exported_by_name(problem: NetworkError, other: NetworkError, exported: "Callable[[Sequence[str]], bytes]") -> bytes:
    """The same of the TorchScript exporter, with operators that ONNX has none for by their names.

    Raises `other` where that is not the problem.
    """
    known: List[str] = []
    while True:
        missing = MISSING.search(str(problem.__cause__))
        operator = "aten::%s" % (missing.group(1) or missing.group(2)) if missing else ""
        if not operator or operator in known:
            raise other
        known.append(operator)
        try:
            return exported(known)
        except Unsupported as following:
            problem = following
        except NetworkError:
            raise other from None


def _exported(module: Any, names: Tuple[str, ...], tensors: Tuple[Any, ...], weights: bool, known: Sequence[str] = ()) -> bytes:
    import torch

    classic = {} if "dynamo" not in torch.onnx.export.__code__.co_varnames else {"dynamo": False}
    with _private.folder() as folder, _symbols.known(OPSET, tensors[0].shape[0], known):
        path = os.path.join(folder, "network.onnx")
        try:
            torch.onnx.export(
                module, tensors, path, export_params=weights, training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
                keep_initializers_as_inputs=True, opset_version=OPSET, input_names=list(names),
                dynamic_axes={name: {0: "batch"} for name in names}, **classic)
        except Error:
            raise
        except Exception as problem:  # whatever the module's own code or the exporter does not take
            raise _failed(problem, module, tensors) from problem
        with open(path, "rb") as file:
            return file.read()


def _exported_otherwise(problem: Unsupported, module: Any, names: Tuple[str, ...], tensors: Tuple[Any, ...], weights: bool) -> bytes:
    """What PyTorch's default exporter writes of a module that the other cannot; it refuses code that asks what is in a tensor by itself.

    Raises the problem of the other where this one cannot either.
    """
    import torch

    if "dynamo" not in torch.onnx.export.__code__.co_varnames:
        raise problem
    try:
        samples = torch.export.Dim("batch", min=2)
        # The module is called with tensors alone, all of which have the batch: its forward takes any number of them.
        shapes = (tuple({0: samples} for _ in tensors),)
        with _unlogged():
            program = torch.onnx.export(module, tensors, dynamo=True, dynamic_shapes=shapes, input_names=list(names), optimize=False, verbose=False)
        with _private.folder() as folder:
            path = os.path.join(folder, "network.onnx")
            if not weights:
                _without_weights(program.model.graph, module)
            program.save(path, include_initializers=True, keep_initializers_as_inputs=weights)
            with open(path, "rb") as file:
                return file.read()
    except Exception as other:  # whatever this exporter does not take
        cause = _first_cause(other)
        raise Unsupported("%s\n  its default exporter cannot either: %s: %s\n  help: %s" % (
            problem, type(cause).__name__, _line(cause), _help(cause, problem, module)), problem.layer) from other


def _without_weights(graph: Any, module: Any) -> None:
    """Makes inputs of the initializers that are weights; the others are constants that the exporter made, such as the places of a lookup."""
    held = {name for name, _ in [*module.named_parameters(), *module.named_buffers()]}
    for name, value in list(graph.initializers.items()):
        if name in held:
            del graph.initializers[name]
            graph.inputs.append(value)


def _is_of_exporter(problem: Exception, module: Any, tensors: Tuple[Any, ...]) -> bool:
    """Whether the exporter failed, and not the module's own code: then that runs where it is not traced."""
    last = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(problem.__traceback__)][-1]
    import torch

    home = os.path.dirname(torch.__file__)
    if any(last.startswith(os.path.join(home, part) + os.sep) for part in ("onnx", "jit")):
        return True
    try:
        # With gradients, which the module's code may ask for itself.
        with torch.enable_grad():
            module(*tensors)
        return True
    except Exception:  # whatever its code says to these inputs
        return False


def _failed(problem: Exception, module: Any, tensors: Tuple[Any, ...]) -> NetworkError:
    """What went wrong, and in which part of the module, which was called with these tensors."""
    names = {id(part): name for name, part in module.named_modules()}
    frames = [frame for frame, _ in traceback.walk_tb(problem.__traceback__)]
    running = [names[id(frame.f_locals["self"])] for frame in frames if id(frame.f_locals.get("self")) in names]
    where = running[-1] if running else ""
    lines = [line for line in traceback.extract_tb(problem.__traceback__) if not line.filename.startswith(homes())]
    place = " (%s:%d)" % (lines[-1].filename, lines[-1].lineno or 0) if lines else ""
    answer = "%s%s: %s%s" % ("in %s: " % where if where else "", type(problem).__name__, _line(problem), place)
    message = "PyTorch cannot export %s: %s" % (type(module).__name__, answer)
    is_of_exporter = _is_of_exporter(problem, module, tensors)
    return Unsupported(message, where) if is_of_exporter else NetworkError(message, where, OF_ANY_BATCH % tensors[0].shape[0])


def homes() -> Tuple[str, str]:
    """The folders of PyTorch and of this package, whose lines of code are not the module's."""
    import torch

    return os.path.dirname(torch.__file__) + os.sep, os.path.dirname(os.path.abspath(__file__)) + os.sep


def _first_cause(problem: BaseException) -> BaseException:
    return _first_cause(problem.__cause__) if problem.__cause__ else problem


def _line(problem: BaseException) -> str:
    """The first line of what a problem says."""
    lines = [line.strip() for line in COLOURS.sub("", str(problem)).splitlines() if line.strip()] or ["no word why"]
    line = lines[0].partition(OF_VALUE)[0].rstrip()
    return line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE].rstrip() + " ..."


def _help(cause: BaseException, problem: BaseException, module: Any) -> str:
    """What may help where no exporter can read a module."""
    import torch

    parametrised = [name for name, part in module.named_modules() if torch.nn.utils.parametrize.is_parametrized(part)]
    if isinstance(cause, ImportError):
        return INSTALL
    if "_M_range_check" in str(problem):  # of PyTorch's passes over packed sequences
        return PADDED
    return PLAIN_WEIGHTS % parametrised[0] if parametrised and parametrised[0] else OTHERWISE


@contextlib.contextmanager
def _without_checkpoints() -> Iterator[None]:
    """Segments that run again in backward, in PyTorch's older way (`use_reentrant=True`), are traced as what they run: the exporter ends with nothing but
    "unordered_map::at" on them."""
    import torch.utils.checkpoint as checkpoint

    class Once:
        @staticmethod
        def apply(function: Any, _: bool, *inputs: Any) -> Any:
            return function(*inputs)

    before, checkpoint.CheckpointFunction = checkpoint.CheckpointFunction, Once
    try:
        yield
    finally:
        checkpoint.CheckpointFunction = before


@contextlib.contextmanager
def _bags_as_lookups() -> Iterator[None]:
    """Bags of as many entries for every sample are exported as a lookup and a mean, a sum or a maximum: the exporter writes a loop over samples."""
    import torch

    whole = torch.nn.functional.embedding_bag

    def bag(input: Any, weight: Any, offsets: Any = None, *others: Any, **named: Any) -> Any:
        mode = named.get("mode", others[3] if len(others) > 3 else "mean")
        has_weights = (others[5] if len(others) > 5 else named.get("per_sample_weights")) is not None
        if input.dim() != 2 or has_weights:
            return whole(input, weight, offsets, *others, **named)
        entries = torch.nn.functional.embedding(input, weight)
        return entries.amax(1) if mode == "max" else getattr(entries, mode)(1)

    torch.nn.functional.embedding_bag = bag
    try:
        yield
    finally:
        torch.nn.functional.embedding_bag = whole


@contextlib.contextmanager
def _windows_by_axis() -> Iterator[None]:
    """Windows along an axis that is counted from the last are those along the same counted from the first: the exporter, whose windows have an axis more,
    puts them together along another."""
    import torch

    whole, is_own = torch.Tensor.unfold, "unfold" in vars(torch.Tensor)

    def unfold(tensor: Any, dimension: int, size: int, step: int) -> Any:
        return whole(tensor, dimension + tensor.dim() if dimension < 0 else dimension, size, step)

    torch.Tensor.unfold = unfold
    try:
        yield
    finally:
        if is_own:
            torch.Tensor.unfold = whole
        else:
            del torch.Tensor.unfold


@contextlib.contextmanager
def _sizes_checked() -> Iterator[None]:
    """PyTorch's own checks of sizes, which are tensors while a module is traced, and which these checks do not take (`MaxUnpool2d`)."""
    import torch

    whole = getattr(torch, "_check_with", None)

    def check(error: Any, condition: Any, message: Any) -> None:
        with warnings.catch_warnings():  # PyTorch's code asks, not the module's
            warnings.simplefilter("ignore")
            condition = bool(condition) if isinstance(condition, torch.Tensor) else condition
        whole(error, condition, message)

    if whole:
        torch._check_with = check
    try:
        yield
    finally:
        if whole:
            torch._check_with = whole


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Without what the module's code prints, and PyTorch's library: on errors all of the graph."""
    sys.stdout.flush()
    with contextlib.redirect_stdout(io.StringIO()), open(os.devnull, "w") as nowhere:
        stdout = os.dup(1)
        os.dup2(nowhere.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(stdout, 1)
            os.close(stdout)


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """Without what the packages of the default exporter log about each other."""
    loggers = [logging.getLogger(name) for name in PACKAGES]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before):
            logger.setLevel(level)


@contextlib.contextmanager
def _without_onnx() -> Iterator[None]:
    """PyTorch's exporter without the step that needs the package onnx."""
    homes = [home for home in map(_module, ADDS_FUNCTIONS) if hasattr(home, "_add_onnxscript_fn")]
    before = [home._add_onnxscript_fn for home in homes]
    for home in homes:
        home._add_onnxscript_fn = lambda proto, *_: proto
    try:
        yield
    finally:
        for home, adds in zip(homes, before):
            home._add_onnxscript_fn = adds


def _module(name: str) -> Any:
    """A module, where this PyTorch has it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
