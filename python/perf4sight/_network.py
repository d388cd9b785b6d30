"""A module as a network file: what PyTorch's own exporter traces of a copy that has no weights, so that the module stays as it is."""
from __future__ import annotations

import contextlib
import os
import re
import warnings
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

from . import _changing, _checking, _copy, _exporter, _following, _inputs, _private, _settings
from ._errors import Error, NetworkError, ProgramError
from ._program import ask

# The note that names buffers to the program.
BUFFERS = "perf4sight.buffers"
# The note that this package exported the file, in a stage.
MODULE = "perf4sight.module"
# The note of what passes of the module itself take.
FOLLOWED = "perf4sight.followed"
UNFOLLOWED = ("what the module's own code keeps could not be followed on tensors without contents: memory is that of its graph alone, "
              "which may be less than the module takes")
# Steps of a module that take another amount of memory each; from which share on that is told, and what is known of later ones.
STEPS = ("the module does something else from one step to the next (state that it keeps, or chance): the memory told is that of step %d of the %d that were "
         "followed, one of which takes %.0f %% less%s")
NOTABLE = 0.005
SETTLED, UNSETTLED = "; later ones take as much as the last", "; others may take more"
ENDED = "the step after the first %d could not be followed: what the module takes from there on is not known (%s)"
# What a module does that draws numbers and decides by them, and how often it is traced to see that.
BY_CHANCE = "the module changes by chance: what it runs follows from numbers that it draws (%s), and it is taken as it ran once"
DRAWN = 6
# What hooks of the user's do is no part of an answer.
HOOKED = "hooks on these were not called, and what they keep or change is not counted, so that memory may be more: %s"
# How many parts a warning names.
NAMED = 3
# What remains open of passes, and the names of operators that are the reason.
OPEN = (
    ("how much these operators take depends on their numbers, which are not known: memory is without what they make within, and may be more: %s",
     lambda alive: alive.by_numbers),
    ("what these operators of other libraries borrow while they run is not known, so that memory may be more: %s", lambda alive: alive.foreign),
    ("PyTorch may run these by its fast path, which holds all scores of attention at once: memory is without it, as after "
     "torch.backends.mha.set_fastpath_enabled(False), and may be far more, or less where weights are asked for: %s", lambda alive: alive.fast),
)
# What the program advises of files, and this package has done where it could.
ADVICE = re.compile(r"(;|, and) perf4sight\.estimate_memory follows the module itself")
# Samples that are traced. With one, code for a single sample would be taken for the network.
SAMPLES = 2
# Heights of images that a network is tried on which says nothing of its inputs: ImageNet's, CIFAR's, MNIST's, Inception's.
HEIGHTS = (224, 32, 28, 299)
# What the program says of a network without operations.
NO_OPERATIONS = "only 0 of the 0 operations"
# Where an operation runs that the program refuses: `/encoder/attn/Reshape_4` in `attn`.
PLACE = re.compile(r"node \"(?:/[^\"/]*)*?/([^\"/]*)/[^\"/]*\"")
BATCH_SECOND = ("%s is a MultiheadAttention without batch_first, for which the second axis is the batch; the first axis of the inputs is the batch here, so that "
                "samples would attend to each other: %s\n  help: make it with batch_first=True, or give it x.transpose(0, 1)")
# Words of a text that is made up.
WORDS = 16
# What holds several modules' work together, and where it keeps the module.
WRAPPERS = {"DataParallel": "module", "DistributedDataParallel": "module", "OptimizedModule": "_orig_mod"}


@dataclass(frozen=True)
class Network:
    """A module on some inputs."""

    name: str
    onnx: bytes
    batch: int
    # What whoever asks about it should know.
    warnings: Tuple[str, ...] = ()
    # Whether the memory of the step is that of the module itself, not of its graph.
    followed: bool = False
    # Whether its operations are those of the module; else its memory alone is known.
    whole: bool = True
    # PyTorch's own attention that reads the batch as its second axis.
    batch_second: Tuple[str, ...] = ()

    @contextlib.contextmanager
    def file(self) -> Iterator[str]:
        """The network as a file, for as long as the program reads it."""
        with _private.folder() as folder:
            path = os.path.join(folder, self.name + ".onnx")
            with open(path, "wb") as file:
                file.write(self.onnx)
            yield path

    def ask(self, verb: str, *words: str) -> Any:
        """What the program answers about it."""
        told = [word for word in words if self.whole or not word.startswith("--trainable=")]
        with self.file() as path:
            try:
                reply = ask(verb, path, *told, known_as={path: self.name, os.path.dirname(path) + os.sep: ""})
            except ProgramError as problem:
                if str(problem).startswith(NO_OPERATIONS):
                    raise NetworkError("%s runs no operation\n  expected: a module that computes something" % self.name) from problem
                where = PLACE.search(str(problem))
                within = [name for name in self.batch_second if where and ("." + name).endswith("." + where.group(1))]
                if within:
                    raise NetworkError(BATCH_SECOND % (within[0], problem), within[0]) from problem
                raise
        if "warnings" in reply:
            reply["warnings"] = [ADVICE.sub("", warning) for warning in reply["warnings"]]
        return reply if self.whole else _without_operations(reply, self.name)

    def following(self, module: Any, inputs: Any, stage: str, settings: Dict[str, Any], batches: Sequence[int],
                  holds_outputs: bool = False) -> "Network":
        """The same with what passes of the module itself take, which holds more than a graph: where that cannot be found out, a warning."""
        given = _inputs.read(module.forward, inputs)
        _check_types(module, given, stage, settings)
        passes = _following.passes(module, given, settings, stage, batches, holds_outputs)
        if not passes:
            return self if passes is None else replace(self, warnings=(*self.warnings, UNFOLLOWED))
        return self.with_passes(passes, _following.note(module, given, settings, stage, passes), settings)

    def with_passes(self, passes: "Dict[int, _following.Alive]", note: str, settings: Dict[str, Any]) -> "Network":
        """The same with the note of what passes take, and what remains open of them."""
        reasons = [(text, sorted({name for alive in passes.values() for name in names(alive)})) for text, names in OPEN]
        warnings = [*_of_steps(max(passes.values(), key=lambda alive: alive.spread())), *(text % ", ".join(names) for text, names in reasons if names)]
        followed = (settings.get("checkpoint") or "none") == "none"
        return replace(self, onnx=self.onnx + _note(FOLLOWED, note), warnings=(*self.warnings, *warnings), followed=followed)

    def warned(self, *warnings: str) -> "Network":
        """The same with what else whoever asks should know, before the rest."""
        return replace(self, warnings=(*warnings, *self.warnings))

    def operations(self) -> Any:
        """What it runs, whatever the exporter called it; what is wrong with it, where it cannot be read."""
        try:
            return [{key: value for key, value in layer.items() if key != "layer"} for layer in self.ask("inspect")["layers"]]
        except ProgramError as error:
            return str(error)


def _of_steps(told: "_following.Alive") -> Iterator[str]:
    """What is to be known of steps that differ, about the one that is told."""
    count = len(told.steps)
    if told.spread() > NOTABLE:
        place = 1 + next(place for place, step in enumerate(told.steps) if step is told)
        yield STEPS % (place, count, 100 * told.spread(), SETTLED if told.is_settled() else UNSETTLED)
    if told.problem:
        yield ENDED % (count, told.problem)


def _without_operations(reply: Any, name: str) -> Any:
    """An answer without what it says of the operations of a file, which are none of the module's."""
    reply["warnings"] = [warning for warning in reply["warnings"] if not warning.startswith(name + ": ")]
    for device in reply.get("devices", [reply]):
        for network in device["networks"]:
            network["breakdown"] = None
            for point in network["predictions"]:
                point.update({key: None for key in point if key.startswith("latency") or key == "throughput_per_s"})
    return reply


def read(module: Any, inputs: Any, stage: str = "training", name: "str | None" = None, weights: bool = False) -> Network:
    """The network that `module` is on `inputs` in that stage; with its weights where they are asked for.

    Raises `NetworkError` where it is not a network that could be read.
    """
    module = unwrapped(module)
    if stage not in ("training", "inference"):
        raise Error("stage = %r\n  expected: \"training\" or \"inference\"" % (stage,))
    name = name_of(module, name)
    given = _inputs.read(module.forward, inputs)
    try:
        onnx, asks = _traced(module, given, stage, SAMPLES, lambda tensor: tensor, weights)
    except NetworkError as problem:
        if isinstance(problem, _exporter.Unsupported) or not _copy.hooked(module):
            raise
        # Its forward may need what its hooks do.
        raise NetworkError("%s; %s" % (problem.args[0], of_hooks(module)[0]), problem.layer, problem.expected) from problem
    attentions = (path for path, part in module.named_modules() if type(part).__name__ == "MultiheadAttention" and not part.batch_first)
    network = Network(name, onnx, given.batch, of_hooks(module), batch_second=tuple(attentions))
    places = _places(module, given, stage) if asks else []
    if not places:
        return network
    where = "; ".join(places[:3])
    if _draws(module, given, stage) and _is_by_chance(network, module, given, stage):
        return network.warned(BY_CHANCE % where)
    failed = _check_unchanging(network, module, given, stage, where)
    others = "%d others made no difference" % (len(_changing.OTHERS) - len(failed))
    unknown = "; it does not run on %d others that were tried, whose integers may mean nothing: %s" % (len(failed), failed[0]) if failed else ""
    return network.warned("its code asks what numbers are (%s): it is taken as it ran on inputs of these values, and %s%s" % (where, others, unknown))


def of_hooks(module: Any) -> Tuple[str, ...]:
    """What is to be known of hooks that are not called."""
    parts = _copy.hooked(module)
    more = ["%d more" % (len(parts) - NAMED)] if len(parts) > NAMED else []
    return (HOOKED % ", ".join([*parts[:NAMED], *more]),) if parts else ()


def name_of(module: Any, asked: "str | None") -> str:
    """What a network is called."""
    asked = _checking.network_name(asked)
    return re.sub(r"/", "-", asked) if asked else re.sub(r"[^A-Za-z0-9.]", "-", type(module).__name__)


def unwrapped(module: Any) -> Any:
    """The module itself, of one that was wrapped or compiled.

    Raises `NetworkError` for what is no module of plain numbers.
    """
    try:
        import torch
    except ImportError as problem:
        raise Error("PyTorch cannot be imported here: %s\n  expected: a Python that has torch (pip install torch)" % problem) from problem
    while type(module).__name__ in WRAPPERS and isinstance(module, torch.nn.Module):
        module = getattr(module, WRAPPERS[type(module).__name__])
    _copy.check(module)
    return module


def guessed(module: Any) -> Any:
    """Inputs for a module that says nothing of them, by its first layer: an image of the first usual size that it runs on, a vector, words.

    Raises `NetworkError` where nothing fits.
    """
    import torch

    first = next((part for part in module.modules() if any(True for _ in part.parameters(recurse=False))), None)
    if isinstance(first, torch.nn.Conv2d):
        tried = [torch.zeros(SAMPLES, first.in_channels, height, height) for height in HEIGHTS]
    elif isinstance(first, torch.nn.Linear):
        tried = [torch.zeros(SAMPLES, first.in_features)]
    elif isinstance(first, torch.nn.Embedding):
        tried = [torch.zeros(SAMPLES, WORDS, dtype=torch.long)]
    else:
        tried = []
    for inputs in tried:
        if _runs(module, inputs):
            return inputs
    raise NetworkError("nothing says what %s reads\n  help: give inputs, as to predict" % type(module).__name__)


def _runs(module: Any, inputs: Any) -> bool:
    import torch

    with _copy.undisturbed(), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _copy.stand_in(module)(inputs)
            return True
        except Exception:  # whatever its code says to inputs that are not its own
            return False


def _check_types(module: Any, given: _inputs.Inputs, stage: str, settings: Dict[str, Any]) -> None:
    """Refuses inputs of other types than `float32`, in which a module is read, where the module itself does not take them."""
    import torch

    numbers = {tensor.dtype for tensor in given.tensors if tensor.is_floating_point()} - {torch.float32}
    precision = settings.get("precision") or "fp32"
    if not numbers or precision not in _following.PRECISIONS or any(weight.dtype != torch.float32 for weight in module.parameters()):
        return

    def raised(tensors: Sequence[Any]) -> "Exception | None":
        try:
            given.call(_copy.stand_in(module).train(stage == "training"), tuple(tensors))
            return None
        except Exception as problem:  # whatever its code says to them
            return problem

    few = given.few(SAMPLES)
    with _copy.undisturbed(), torch.no_grad(), _exporter.unheard(), warnings.catch_warnings(), \
            torch.autocast("cpu", torch.bfloat16, enabled=precision == "amp_bf16"):
        warnings.simplefilter("ignore")
        found = raised([tensor.to(own.dtype) for tensor, own in zip(few, given.tensors)])
        if found and not raised(few):
            names = ", ".join(sorted(str(kind).replace("torch.", "") for kind in numbers))
            raise NetworkError("its weights are in float32, and it does not run on inputs in %s: %s: %s\n  expected: inputs in float32"
                               % (names, type(found).__name__, (str(found).splitlines() or [""])[0])) from found


def _traced(
    module: Any, given: _inputs.Inputs, stage: str, samples: int, changed: Callable[[Any], Any], weights: bool = False,
) -> Tuple[bytes, bool]:
    """The file of a network on so many samples of changed inputs, and whether its code asks what is in a tensor."""
    with _copy.undisturbed():
        tensors = tuple(changed(tensor) for tensor in given.few(samples))

        def exported(own: bool) -> Tuple[bytes, bool]:
            stand_in = _copy.stand_in(module, own).train(stage == "training")
            held = _held(stand_in)
            stand_in.forward = _flat(stand_in.forward, given)
            onnx, asks = _exporter.export(stand_in, given.names, tensors, weights)
            return onnx + _note(MODULE, stage) + untrained(held), asks

        try:
            return exported(weights)
        except NetworkError as problem:
            if weights or isinstance(problem, _exporter.Unsupported):
                raise
        # Code that reads the strides of its weights, or writes to them, does not run on one number that is seen in their shapes. What goes wrong with
        # tensors of their own is what the module itself does.
        return exported(True)


def _held(module: Any) -> List[Tuple[str, int]]:
    """What the module holds and nobody trains in addition to the weights of layers, by name, and as how many numbers of four bytes: its buffers, and tables
    that ask for no gradient."""
    tensors = [*module.named_buffers(), *_settings.tables(module).items()]
    return [(name, tensor.numel() * tensor.element_size() // 4) for name, tensor in tensors if tensor.numel() > 1 or tensor.is_floating_point()]


def untrained(held: Sequence[Tuple[str, int]]) -> bytes:
    """The note of what nobody trains."""
    return _note(BUFFERS, "\n".join("%s %d" % one for one in held))


def _note(key: str, value: str) -> bytes:
    """What stands behind a file to be one of its notes: an entry of `metadata_props` of ONNX's ModelProto."""
    def field(number: int, content: bytes) -> bytes:
        length, size = len(content), []
        while True:
            size.append(length & 127 | (128 if length > 127 else 0))
            length >>= 7
            if not length:
                return bytes([number << 3 | 2, *size]) + content
    return field(14, field(1, key.encode()) + field(2, value.encode())) if value else b""


def _flat(forward: Callable[..., Any], given: _inputs.Inputs) -> Callable[..., Any]:
    """The same, from tensors to tensors."""
    def flat(*tensors: Any) -> Any:
        results = _inputs.results(given.call(forward, tensors))
        if not results:
            raise NetworkError("its result holds no tensor of numbers")
        return tuple(results)
    return flat


def _draws(module: Any, given: _inputs.Inputs, stage: str) -> bool:
    """Whether it draws single numbers, by which it may decide."""
    with _copy.undisturbed():
        stand_in = _copy.stand_in(module, True).train(stage == "training")
        return _changing.draws(lambda: given.call(stand_in, given.few(SAMPLES)))


def _places(module: Any, given: _inputs.Inputs, stage: str) -> List[str]:
    """Where its code asks what numbers are."""
    def places(own: bool) -> List[str]:
        stand_in = _copy.stand_in(module, own).train(stage == "training")
        return _changing.places(lambda: given.call(stand_in, given.few(SAMPLES)))

    with _copy.undisturbed():
        try:
            return places(False)
        except RuntimeError:  # kernels that read the strides of weights, as where it was traced
            return places(True)


def _check_unchanging(network: Network, module: Any, given: _inputs.Inputs, stage: str, where: str) -> List[str]:
    """Refuses a module that is another network on other samples: those of other values, and more of them. What went wrong with integers that look up what is not there,
    which says nothing of it."""
    failed = []
    for changed in _changing.OTHERS:
        problem = None
        try:
            onnx, _ = _traced(module, given, stage, SAMPLES + 1, changed)
            if network.operations() != replace(network, onnx=onnx).operations():
                problem = "what it runs differs between two inputs of the same sizes"
        except NetworkError as error:
            if isinstance(error.__cause__, IndexError) and any(_copy.is_integer(tensor.dtype) for tensor in given.tensors):
                failed.append(str(error.args[0]))
                continue
            problem = "it does not run on other samples of the same sizes: %s" % error
        if problem:
            raise NetworkError("%s changes with its input: %s\n  expected: a module that does the same to every sample\n  help: look at %s"
                               % (network.name, problem, where))
    return failed


def _is_by_chance(network: Network, module: Any, given: _inputs.Inputs, stage: str) -> bool:
    """Whether it is another network on the same inputs, too, by what it draws."""
    import torch

    def drawing(tensor: Any, seed: int) -> Any:
        torch.manual_seed(seed)
        return tensor

    for seed in range(DRAWN):
        with contextlib.suppress(NetworkError), torch.random.fork_rng(devices=[]):
            onnx, _ = _traced(module, given, stage, SAMPLES, lambda tensor: drawing(tensor, seed))
            if network.operations() != replace(network, onnx=onnx).operations():
                return True
    return False
