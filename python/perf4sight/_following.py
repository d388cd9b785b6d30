"""The memory of a pass of the module itself, on tensors without contents: it holds what no graph has, such as what its own code keeps."""
from __future__ import annotations

import contextlib
import copy
import random
import sys
import warnings
import weakref
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from . import _changing, _copy, _inputs, _kernels, _settings
from ._exporter import unheard

# PyTorch keeps the Python object of a storage for as long as the storage is there since 2.1; without that nothing ends when memory is freed.
OLDEST = (2, 1)
# What is followed computes in one of these.
PRECISIONS = ("fp32", "amp_bf16")
# Steps that are followed at most, where each is another than the one before.
STEPS = 4


@dataclass(frozen=True)
class Pass:
    """What a step does to the samples of a pass."""

    stage: str
    # Whether every weight is trained, else those that require gradients.
    trains_all: bool
    precision: str
    # Names of normalisations that stay in evaluation.
    kept_statistics: Tuple[str, ...] = ()
    # Whether the loop keeps the outputs until the weights have changed.
    holds_outputs: bool = False


def passes(module: Any, given: _inputs.Inputs, settings: Mapping[str, Any], stage: str, batches: Sequence[int],
           holds_outputs: bool = False) -> "Optional[Dict[int, Alive]]":
    """What passes of some batch sizes take, by their samples.

    Empty where that is not found out: PyTorch is too old, or the module's code needs numbers that are not there; None for a step that is
    not followed.
    """
    import torch

    trainable, precision = _kind(settings)
    if precision not in PRECISIONS or not is_known(module, stage, trainable):
        return None
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < OLDEST:
        return {}
    kept = _kept_statistics(module) if settings.get("frozen_normalisation") == "eval" else ()
    one = Pass(stage, trainable == "all", precision, kept, holds_outputs)
    taken: Dict[int, Alive] = {}
    steps = STEPS
    for samples in sampled(batches, int(settings.get("accumulate") or 1)):
        alive = peaks(module, given, one, samples, steps)
        if alive is not None:
            taken[samples] = alive
            # Where the second step of so many samples is the first again, that of others is.
            steps = STEPS if alive.differs() else 1
    return taken


def kept(module: Any, inputs: Any, settings: Mapping[str, Any], stage: str, batch: int) -> int:
    """Bytes that a module of that batch keeps when a step is over, where its passes can be followed."""
    found = passes(module, _inputs.read(module.forward, inputs), settings, stage, [batch]) or {}
    return max((alive.kept for samples, alive in found.items() if samples <= batch), default=0)


def note(module: Any, given: _inputs.Inputs, settings: Mapping[str, Any], stage: str, found: "Mapping[int, Alive]",
         places: Optional[Mapping[str, Sequence[int]]] = None) -> str:
    """The note that carries to the program what passes take: the kind of the pass, the bytes of its trained weights in the order of an optimizer's loop,
    what is in `torch.channels_last`, by what convolutions borrow, then a line for each pass, with its operators, or those at some places among the
    ones of their kind."""
    trainable, precision = _kind(settings)
    first = next(iter(found.values()))
    weights = "weights " + ",".join(map(str, first.changed))
    convolutions = _chosen([one.borrows for one in first.ran.get("convolution", [])], "convolution", places)
    lines = ["%d %s" % (samples, alive.line(places)) for samples, alive in found.items()]
    return "\n".join([" ".join([stage, precision, trainable]), weights, _channels_last(module, given), "convolutions " + convolutions, *lines])


def _chosen(values: Sequence[int], kind: str, places: Optional[Mapping[str, Sequence[int]]]) -> str:
    """Numbers between commas, one for each operator of a kind, or for those at some places."""
    chosen = values if places is None else [values[place] for place in places.get(kind, ()) if place < len(values)]
    return ",".join(map(str, chosen))


def _kind(settings: Mapping[str, Any]) -> Tuple[str, str]:
    """Which weights a step trains, and in which precision."""
    return settings.get("trainable") or "all", settings.get("precision") or "fp32"


def _channels_last(module: Any, given: _inputs.Inputs) -> str:
    """The line that names which tensors are in `torch.channels_last`: filters, or images that are read."""
    import torch

    def is_so(tensor: Any) -> bool:
        return tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous()
    kinds = {"images": given.tensors, "filters": list(module.parameters())}
    return "channels_last " + ",".join(name for name, tensors in kinds.items() if any(map(is_so, tensors)))


def is_known(module: Any, stage: str, trainable: str) -> bool:
    """Whether the weights that are trained are all, or those that require gradients in the module."""
    if stage != "training" or trainable == "all":
        return True
    return any(weight.requires_grad for weight in module.parameters()) and trainable == _settings.trainable(module)


def _kept_statistics(module: Any) -> Tuple[str, ...]:
    """Names of normalisations that stay in evaluation: those with frozen weights."""
    return tuple(name for name, part in module.named_modules() if "BatchNorm" in type(part).__name__
                 and not any(weight.requires_grad for weight in part.parameters(recurse=False)))


def sampled(batches: Sequence[int], passes: int) -> List[int]:
    """Samples of a pass between and beyond which the others are found: of the smallest batch, of the largest, and twice as many."""
    fewest, most = (-(-batch // passes) for batch in (min(batches), max(batches)))
    return sorted({fewest, most, 2 * most})


def peaks(module: Any, given: _inputs.Inputs, one: Pass, samples: int, steps: int = 1) -> "Optional[Alive]":
    """Bytes of all tensors that are alive at once in a pass of so many samples, weights and data included, of the step that takes most of so many at most;
    None where it cannot be followed."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    with _copy.undisturbed(), unheard(), warnings.catch_warnings(), _unchecked():
        warnings.simplefilter("ignore")
        try:
            with FakeTensorMode(allow_non_fake_inputs=True):
                own = _prepared(_copy.without_numbers(module), module, one)
                tensors = tuple(_samples(tensor, samples) for tensor in given.tensors)
                return _followed(own, given, tensors, one, steps)
        except Exception:  # whatever its code does not do on tensors without contents
            return None


@contextlib.contextmanager
def _unchecked() -> Iterator[None]:
    """Distributions do not look whether their parameters are valid within: of tensors without contents nothing is."""
    from torch.distributions import Distribution

    checks = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(checks)


def _samples(tensor: Any, samples: int) -> Any:
    """An input of so many samples, of which nothing but integers and truths is known."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    if not _copy.is_integer(tensor.dtype):
        return _copy.empty(_inputs.few(tensor, samples))
    with unset_fake_temporarily():
        return _inputs.few(tensor, samples)


def _prepared(own: Any, module: Any, one: Pass) -> Any:
    """A module without contents as the step has it: what is trained, and what stays in evaluation."""
    own.train(one.stage == "training")
    for name in one.kept_statistics:
        own.get_submodule(name).eval()
    if one.trains_all:
        frozen = _settings.tables(module)
        for name, weight in own.named_parameters():
            weight.requires_grad_(weight.requires_grad or weight.is_floating_point() and name not in frozen)
    return own


def _followed(own: Any, given: _inputs.Inputs, tensors: Tuple[Any, ...], one: Pass, most: int) -> "Alive":
    """Steps of a module without contents, until one is the same as that before and draws nothing: the one that takes most."""
    alive, steps, problem = Alive(), [], ""
    first = _drawn(alive)
    for tensor in [*own.parameters(), *own.buffers(), *tensors]:
        alive.see(tensor)
    given_bytes = alive.bytes
    alive.begin()
    while len(steps) < most:
        before = _drawn(alive)
        try:
            _step(alive, own, given, tensors, one)
        except Exception as raised:  # whatever its code does not do with what it kept
            if not steps:
                raise
            problem = "%s: %s" % (type(raised).__name__, (str(raised).splitlines() or [""])[0])
            break
        for tensor in [*own.parameters(), *tensors]:
            tensor.grad = None
        steps.append(alive.step())
        if len(steps) > 1 and steps[-1].is_as(steps[-2]) and before == _drawn(alive):
            break
        alive.begin()
    told = max(reversed(steps), key=lambda step: step.most)
    told.kept = told.bytes - given_bytes
    told.steps, told.problem, told.by_chance = steps, problem, first != _drawn(alive)
    return told


def _drawn(alive: "Alive") -> Tuple[Any, ...]:
    """Where Python's and NumPy's generators of random numbers are, and how many single numbers PyTorch drew."""
    numpy = sys.modules.get("numpy")
    return random.getstate(), str(numpy.random.get_state()) if numpy else "", alive.drawn


def _step(alive: "Alive", own: Any, given: _inputs.Inputs, tensors: Tuple[Any, ...], one: Pass) -> None:
    """One pass of a module without contents: what a training loop does before its optimizer changes the weights. Autocast ends before backward, and
    casts of weights that it keeps with it."""
    import torch

    autocast = torch.autocast("cpu", torch.bfloat16, enabled=one.precision == "amp_bf16")
    if one.stage != "training":
        alive.fast = _by_fast_path(own)
        with torch.no_grad(), alive.counting(), autocast:
            given.call(own, tensors)
        return
    with autocast:
        with alive.counting():
            results = _inputs.results(given.call(own, tensors))
        targets = [_targets(result) for result in results if result.dim() > 0]
        alive.hold(targets)
        with alive.counting():
            loss = _loss(results, targets)
    if not one.holds_outputs:
        results.clear()
    # As the outermost autocast does: this one is within another (`undisturbed`).
    torch.clear_autocast_cache()
    with alive.counting():
        loss.backward()
    del loss
    alive.left = alive.bytes
    alive.changed = [weight.nbytes for weight in own.parameters() if weight.grad is not None]


def _by_fast_path(own: Any) -> Set[str]:
    """Parts that PyTorch may run as one kernel where nothing is trained (`torch.backends.mha`), but never where it is watched."""
    import torch

    mha = getattr(torch.backends, "mha", None)
    if mha is None or not mha.get_fastpath_enabled():
        return set()
    return {name or "the module" for name, part in own.named_modules() if isinstance(part, torch.nn.MultiheadAttention) and part.batch_first}


def _loss(results: List[Any], targets: List[Any]) -> Any:
    """The sum of what the results that are numbers lose against classes, or of the losses that they are."""
    total = None
    for loss in map(_cross_entropy, results, targets) if targets else results:
        total = loss if total is None else total + loss
    return total


def _cross_entropy(result: Any, target: Any) -> Any:
    """Classes lie on the second axis, those of a sequence on the last, as in crates/network/src/graph.rs."""
    import torch

    if result.dim() == 3:
        result = result.flatten(0, 1)
    result = result.unsqueeze(1) if result.dim() == 1 else result
    return torch.nn.functional.cross_entropy(result, target.flatten(0, 1) if target.dim() == 2 and result.dim() == 2 else target)


def _targets(result: Any) -> Any:
    """The classes of a result."""
    import torch

    return torch.empty(result.shape[:2] if result.dim() == 3 else [result.shape[0], *result.shape[2:]], dtype=torch.long)


# Operators whose kernels borrow memory that only the program knows of, by the words that it has for them (followed.rs); their backward ends so.
KERNELS = {
    "aten.convolution": "convolution", "aten.native_batch_norm": "batch_norm", "aten._native_batch_norm_legit": "batch_norm",
    "aten._scaled_dot_product_flash_attention_for_cpu": "attention", "aten.mkldnn_rnn_layer": "lstm",
}
OF_BACKWARD = "_backward"
# Operators that make as many tensors within as their numbers ask for (`compute_T18` and others of aten/src/ATen/native/LinearAlgebra.cpp).
BY_NUMBERS = ("aten.linalg_matrix_exp",)
# Where operators of PyTorch stand.
OF_PYTORCH = ("aten", "prim", "prims", "c10d", "profiler")
# Integers and truths in a tensor, at most, that are known.
KNOWN = 1 << 20


@dataclass(frozen=True)
class Ran:
    """An operator whose kernel borrows memory, as it ran."""

    # What it read, tensors as their sizes.
    operands: Tuple[Any, ...]
    # Whether there is a gradient of each.
    tracked: Tuple[bool, ...]
    # By what a convolution borrows.
    borrows: int

    @classmethod
    def of(cls, arguments: Tuple[Any, ...], is_convolution: bool) -> "Ran":
        import torch

        tensors = [isinstance(one, torch.Tensor) for one in arguments]
        operands = tuple(one.shape if is_tensor else one for one, is_tensor in zip(arguments, tensors))
        tracked = tuple(is_tensor and one.requires_grad for one, is_tensor in zip(arguments, tensors))
        return cls(operands, tracked, _kernels.borrows(arguments) if is_convolution else 0)


class Alive:
    """Bytes of the storages that are there: now, at most, behind the pass, and after every operator of those, forward and backward, in the order they run."""

    def __init__(self) -> None:
        self.bytes = 0
        # Operators that take what their numbers ask for, and those of other libraries than PyTorch, which may borrow anything.
        self.by_numbers: Set[str] = set()
        self.foreign: Set[str] = set()
        # Names of parts that may run otherwise where they are not watched.
        self.fast: Set[str] = set()
        self.known: Dict[int, Any] = {}
        # The steps that were followed, this one among them, and what the next one ended with.
        self.steps: List[Alive] = []
        self.problem = ""
        # Bytes that are there when a step is over and were not before the first.
        self.kept = 0
        # Whether numbers were drawn that code may decide by, and how many of these PyTorch drew.
        self.by_chance, self.drawn = False, 0
        self.begin()

    def begin(self) -> None:
        """Begins a step, with what is there."""
        self.start = self.most = self.bytes
        # What is made, freed or not.
        self.left = self.made = 0
        # Of the weights that an optimizer changes, in its order: those that have a gradient.
        self.changed: List[int] = []
        self.after: Dict[Tuple[str, bool], List[int]] = {}
        # Those that run forward, by their kind.
        self.ran: Dict[str, List[Ran]] = {}
        # Of a normalisation of instances that read copies, what there is at most with the gradients that the kernels of all normalisations make; and the last copy's memory.
        self.normalised, self.reads_copies, self.copied = 0, False, 0
        # Of each of them that runs forward, by its kind and sizes, the first place there.
        self.places: Dict[Tuple[str, str], int] = {}
        # Of each of them that runs forward, by its kind and the memory that it reads, its place; and the places of those that ran backward, in that order.
        self.reads: Dict[Tuple[Any, ...], int] = {}
        self.differentiated: Dict[str, List[Optional[int]]] = {}

    def step(self) -> "Alive":
        """What there is of the step that ends. The program would count the copies that normalisations of instances read once more: of such a step it is given no
        normalisation, and the peak with what their kernels make."""
        if self.reads_copies:
            self.most = max(self.most, self.normalised)
            self.after = {key: after for key, after in self.after.items() if key[0] != "batch_norm"}
        return copy.copy(self)

    def is_as(self, other: "Alive") -> bool:
        """Whether a step took the same as another, and found and made as much: of few samples, other steps may have the same peak."""
        def told(step: "Alive") -> Tuple[Any, ...]:
            return step.start, step.made, step.bytes, step.most, step.left, step.after
        return told(self) == told(other)

    def least(self) -> "Alive":
        """The step that takes least."""
        return min(self.steps, key=lambda step: step.most)

    def spread(self) -> float:
        """By which share of this step the least one takes less."""
        return 1 - self.least().most / max(self.most, 1)

    def is_settled(self) -> bool:
        """Whether all steps take as much as the last that was followed, from the one before that on."""
        last = self.steps[-1]
        others = self.steps if self.by_chance else self.steps[-2:]
        return not self.problem and all((step.most, step.left) == (last.most, last.left) for step in others)

    def differs(self) -> bool:
        """Whether steps were followed that are not the same, or the next could not be."""
        return bool(self.problem) or not all(self.is_as(step) for step in self.steps)

    def line(self, places: Optional[Mapping[str, Sequence[int]]]) -> str:
        """What there is of them for the program: `MOST LEFT SPREAD convolution=FORWARD,FORWARD/BACKWARD,BACKWARD`; of some of each kind where their places are given."""
        def of(kind: str) -> str:
            after = [self.after.get((kind, False), []), self._backward(kind)]
            return "%s=%s" % (kind, "/".join(_chosen(one, kind, places) for one in after))
        spread = 0 if self.is_settled() else self.most - self.least().most
        return " ".join([str(self.most), str(self.left), str(spread), *map(of, sorted({kind for kind, _ in self.after}))])

    def _backward(self, kind: str) -> List[int]:
        """What is there after operators of a kind in backward, in the order of forward: nothing of those without one, such as under `torch.no_grad`."""
        after, places = self.after.get((kind, True), []), self.differentiated.get(kind, [])
        forward = len(self.after.get((kind, False), []))
        if len(after) in (0, forward) or None in places or len(set(places)) < len(after):
            return after[::-1]
        taken = dict(zip(places, after))
        return [taken.get(place, 0) for place in range(forward)]

    def see(self, tensor: Any) -> None:
        """Counts a tensor's memory until it is freed, unless it is counted already."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.known:
            return
        taken = storage.nbytes()
        self.known[key] = weakref.finalize(storage, self._gone, key, taken)
        self.known[key].atexit = False
        self.bytes += taken
        self.made += taken
        self.most = max(self.most, self.bytes)

    def hold(self, tensors: List[Any]) -> None:
        """Counts tensors that were there from the start, such as the classes of samples."""
        before, most = self.bytes, self.most
        for tensor in tensors:
            self.see(tensor)
        held = self.bytes - before
        self.most = most + held
        self.after = {key: [taken + held for taken in after] for key, after in self.after.items()}

    def _gone(self, key: int, taken: int) -> None:
        self.bytes -= taken
        del self.known[key]

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Counts what operations make within."""
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.utils._pytree import tree_leaves

        alive, alone = self, _alone()

        layers = _layers()

        class Watch(TorchDispatchMode):  # type: ignore[misc]
            def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                if layers.adds_bias(function):
                    return args[0].add_(args[1])
                # A checkpoint's segment runs in backward, too, with gradients on.
                is_backward = torch._C._current_graph_task_id() != -1 and not torch.is_grad_enabled()
                if str(function) in IN_PLACE and is_backward and _counts(args[0]) == alone.get(str(function)):
                    made = getattr(torch.ops.aten, function._schema.name.rpartition("::")[2] + "_")(*args, **(kwargs or {}))
                    alive.note(str(function), args, kwargs or {}, made)
                    return made
                alive.drawn += _changing.is_drawn(function, args)
                made = _kernels.laid_out(function, args, _kernels.with_workspace(function, args, _made(function, args, kwargs or {})))
                for tensor in tree_leaves(made):
                    if isinstance(tensor, torch.Tensor):
                        alive.see(tensor)
                alive.note(str(function), args, kwargs or {}, made)
                return made

        with layers, Watch(), self._generators():
            yield

    @contextlib.contextmanager
    def _generators(self) -> Iterator[None]:
        """Counts states of the random generator, which checkpoints keep and no operator makes (`preserve_rng_state` in torch/utils/checkpoint.py)."""
        import torch

        own = torch.get_rng_state

        def state() -> Any:
            made = own()
            self.see(made)
            return made

        torch.get_rng_state = torch.random.get_rng_state = state
        try:
            yield
        finally:
            torch.get_rng_state = torch.random.get_rng_state = own

    def note(self, function: str, arguments: Tuple[Any, ...], named: Dict[str, Any], made: Any) -> None:
        """Notes what is there within an operator, and after one whose kernel borrows memory that only the program knows of."""
        name = function.rpartition(".")[0]
        self.by_numbers.update({name}.intersection(BY_NUMBERS))
        self.foreign.update({name} if name.partition(".")[0] not in OF_PYTORCH else ())
        backward = name.endswith(OF_BACKWARD)
        kind = KERNELS.get(name[:-len(OF_BACKWARD)] if backward else name)
        taken = self.bytes + _kernels.copies(name, arguments, named, made)
        self.most = max(self.most, taken)
        if name == "aten.clone":
            self.copied = made.untyped_storage()._cdata
        if kind == "batch_norm":
            self._normalise(arguments, backward, taken - _kernels.uncopied(name, arguments))
        if kind:
            if backward:
                first = 0 if name == _kernels.LSTM_BACKWARD else 1
                self.differentiated.setdefault(kind, []).append(self.reads.get((kind, *_memory(arguments[first:first + 2]))))
            place = self._run(kind, backward, taken - _kernels.uncopied(name, arguments), Ran.of(arguments, kind == "convolution" and not backward))
            if not backward:
                self.reads[(kind, *_memory(arguments[:2]))] = place

    def _normalise(self, arguments: Tuple[Any, ...], backward: bool, taken: int) -> None:
        """Notes a normalisation. One of instances is that of a single sample (`instance_norm` in Normalization.cpp), and copies what is not contiguous first."""
        read = arguments[1 if backward else 0]
        self.reads_copies |= read.shape[0] == 1 and arguments[0].untyped_storage()._cdata == self.copied
        if backward:
            self.normalised = max(self.normalised, taken + int(read.nbytes))

    def _run(self, kind: str, backward: bool, taken: int, ran: "Ran") -> int:
        """Notes one more operator of a kind, or again one of the same sizes, as segments of a checkpoint run in backward: what its kernel borrows is the same.
        Its place among them."""
        import torch

        after = self.after.setdefault((kind, backward), [])
        runs_again = not backward and torch._C._current_graph_task_id() != -1
        place = self.places.setdefault((kind, str(ran.operands)), len(after)) if not backward else len(after)
        if runs_again and place < len(after):
            after[place] = max(after[place], taken)
            self.ran[kind][place] = ran
            return place
        after.append(taken)
        if not backward:
            self.ran.setdefault(kind, []).append(ran)
        return len(after) - 1


def _memory(tensors: Sequence[Any]) -> Tuple[Any, ...]:
    """Which memory tensors lie in."""
    return tuple(one.untyped_storage()._cdata if one is not None else None for one in tensors)


def _made(function: Any, arguments: Tuple[Any, ...], named: Dict[str, Any]) -> Any:
    """What an operator gives. Integers and truths that follow from nothing else are known, and single numbers, drawn ones too: code asks them what it is to do, such
    as masks whether they hide anything, or how much to pad from a division rounded up."""
    import torch
    from torch._subclasses.fake_tensor import unset_fake_temporarily
    from torch.utils._pytree import tree_leaves

    def tensors(values: Any) -> List[Any]:
        return [one for one in tree_leaves(values) if isinstance(one, torch.Tensor)]

    def are_known(found: List[Any]) -> bool:
        most = [KNOWN if _copy.is_integer(one.dtype) else 1 for one in found]
        return all(type(one) is torch.Tensor and one.numel() <= known and not one.requires_grad for one, known in zip(found, most))

    read, kind = tensors((arguments, named)), named.get("dtype")
    follows = _copy.is_integer(kind) if kind else bool(read) or str(function).startswith("aten.arange")
    if (follows or _changing.is_drawn(function, arguments)) and are_known(read):
        with unset_fake_temporarily():
            made = function(*arguments, **named)
        if are_known(tensors(made)):
            return made
    return function(*arguments, **named)


# What backward does in place, but never where PyTorch is watched, to what nobody but autograd holds: adding to a gradient another one that it meets
# (`isTensorSubclassLike` in torch/csrc/autograd/input_buffer.cpp), and filling zeros with a gradient (`value_selecting_reduction_backward` of
# aten/src/ATen/native/ReduceOps.cpp, `gather_backward` of TensorAdvancedIndexing.cpp, `index_backward` of torch/csrc/autograd/FunctionsManual.cpp, and others), and hiding
# the smaller of two numbers (`maximum` of tools/autograd/derivatives.yaml).
IN_PLACE = ("aten.add.Tensor", "aten.scatter.src", "aten.scatter_add.default", "aten.index_add.default", "aten.index_put.default", "aten.masked_fill.Scalar")


def _layers() -> Any:
    """What the module calls that PyTorch computes otherwise where it is watched (`areAnyTensorSubclassLike`): a linear layer adds its bias in place to products of
    what is not contiguous (`linear` of aten/src/ATen/native/Linear.cpp), the gradient of a product is that of numbers none of which is zero, and that of
    a cross-entropy with logits is computed in place."""
    import torch
    from torch.overrides import TorchFunctionMode

    products, entropy = _products(), _entropy()

    class Layers(TorchFunctionMode):  # type: ignore[misc]
        is_linear = False

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function in products and "dtype" not in (kwargs or {}) and args and args[0].is_floating_point():
                return products[function](*args, **(kwargs or {}))
            if function is torch.nn.functional.binary_cross_entropy_with_logits:
                return entropy(*args, **(kwargs or {}))
            self.is_linear = function is torch._C._nn.linear
            try:
                return function(*args, **(kwargs or {}))
            finally:
                self.is_linear = False

        def adds_bias(self, function: Any) -> bool:
            return self.is_linear and str(function) == "aten.add.Tensor"

    return Layers()


def _products() -> Dict[Any, Any]:
    """Products and products so far, by what calls them."""
    import torch

    product, so_far = _product(), _product_so_far()
    return {torch.prod: product, torch.Tensor.prod: product, torch.cumprod: so_far, torch.Tensor.cumprod: so_far}


def _product_so_far() -> Any:
    """`torch.cumprod`, with the gradient that it has where no number is zero (`cumprod_backward` of torch/csrc/autograd/FunctionsManual.cpp)."""
    import torch

    class ProductSoFar(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, read: Any, dim: int) -> Any:
            result = torch.cumprod(read, dim)
            context.save_for_backward(read, result)
            context.dim = dim
            return result

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            read, result = context.saved_tensors
            if read.numel() <= 1 or read.shape[context.dim] == 1:
                return gradient, None
            # C++ looks for zeros in a tensor of their own, which lies there until the end.
            weighed, zeros = result * gradient, read == 0
            # C++ keeps what a chain of calls makes until the whole is there (`reversed_cumsum`).
            turned = weighed.flip(context.dim)
            sums = turned.cumsum(context.dim)
            back = sums.flip(context.dim)
            del turned, sums
            return back.div(read), None

    return lambda input, dim: ProductSoFar.apply(input, dim)


def _entropy() -> Any:
    """`binary_cross_entropy_with_logits` of torch.nn.functional, whose gradient is computed in place (`binary_cross_entropy_with_logits_backward` of
    torch/csrc/autograd/FunctionsManual.cpp)."""
    import torch

    whole = torch.nn.functional.binary_cross_entropy_with_logits

    class Entropy(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, read: Any, target: Any, weight: Any, pos_weight: Any, reduction: str) -> Any:
            context.save_for_backward(read, target, weight, pos_weight)
            context.is_mean = reduction == "mean"
            return whole(read, target, weight, reduction=reduction, pos_weight=pos_weight)

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            read, target, weight, pos_weight = context.saved_tensors
            if pos_weight is None:
                made = read.sigmoid().sub_(target)
            else:
                weighed = pos_weight.mul(target)
                made = weighed.add(1).sub_(target).mul_(read.sigmoid()).sub_(weighed)
                del weighed
            made.mul_(gradient)
            if weight is not None:
                made.mul_(weight)
            return made.div_(read.numel()) if context.is_mean else made, None, None, None, None

    def entropy(input: Any, target: Any, weight: Any = None, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
                pos_weight: Any = None) -> Any:
        others = [one for one in (target, weight, pos_weight) if one is not None]
        if any(one.requires_grad for one in others) or size_average is not None or reduce is not None:
            return whole(input, target, weight, size_average, reduce, reduction, pos_weight)
        return Entropy.apply(input, target, weight, pos_weight, reduction)

    return entropy


def _product() -> Any:
    """`torch.prod`, with the gradient that it has where no number is zero (`prod_backward` of torch/csrc/autograd/FunctionsManual.cpp)."""
    import torch

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, read: Any, dim: Any, keepdim: bool) -> Any:
            result = torch.prod(read) if dim is None else torch.prod(read, dim, keepdim)
            context.save_for_backward(read, result)
            context.dim, context.is_dropped = dim, dim is not None and not keepdim and read.dim() > 0
            return result

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            read, result = context.saved_tensors
            if context.is_dropped:
                gradient, result = gradient.unsqueeze(context.dim), result.unsqueeze(context.dim)
            # Which numbers are zero, and of an axis how many are, is there until the gradient is.
            zeros = read == 0
            zeros = None if context.dim is None else (zeros, zeros.sum(context.dim, True))
            return gradient * (result / read), None, None

    return lambda input, dim=None, keepdim=False: Product.apply(input, dim, keepdim)


def _counts(tensor: Any) -> Tuple[int, int]:
    """How many hold a tensor, and its memory."""
    import torch

    return tensor._use_count(), torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)


def _alone() -> Dict[str, Tuple[int, int]]:
    """The counts of what backward may change in place, by operators that do: from tensors that nobody but autograd holds."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    found: Dict[str, Tuple[int, int]] = {}

    class Watch(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if str(function) in IN_PLACE:
                found.setdefault(str(function), _counts(args[0]))
            return function(*args, **(kwargs or {}))

    with torch.enable_grad():
        first, *others = (torch.empty(1, requires_grad=True).sin() for _ in range(6))
        place = torch.zeros(1, dtype=torch.long)
        results = [first * 2.0 + first * 3.0, others[0].max(0)[0], others[1].gather(0, place), others[2].index_select(0, place), others[3][place],
                   torch.maximum(others[4], torch.zeros(1))]
        totals = [result.sum() for result in results]
    del first, others, results
    for total in totals:
        with Watch():
            total.backward()
    return found
