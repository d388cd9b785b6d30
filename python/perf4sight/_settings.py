"""What a step does in addition to its stage: from keywords, an optimizer and the module itself to the options of the program."""
from __future__ import annotations

import itertools
from typing import Any, Dict, List, Mapping

from ._errors import NetworkError

# The values for which optimizers are what the program knows by the name; others keep more between steps, or borrow more during one.
PLAIN: Dict[str, Dict[str, Any]] = {
    "Adam": {"amsgrad": False, "weight_decay": 0},
    "AdamW": {"amsgrad": False},
    "RMSprop": {"momentum": 0, "centered": False, "weight_decay": 0},
    "SGD": {"nesterov": False},
    "SGD without momentum": {"weight_decay": 0},
    "SGD without weight decay": {"nesterov": False},
}
BY_NAME = "give the optimizer by its name, such as optimizer=\"adam\", for its defaults"
LIKE_IT = ("give one that keeps as many tensors for each weight by its name: two \"adam\", one \"rmsprop\" or \"sgd\" (with momentum), "
           "none \"sgd_without_momentum\"")


def words(settings: Mapping[str, Any]) -> List[str]:
    """Options of the program; what is None is left out."""
    named = [(name, value) for name, value in settings.items() if value is not None]
    return ["--%s=%s" % (name.replace("_", "-"), value) for name, value in named]


def keys(settings: Mapping[str, Any]) -> List[str]:
    """The same as keys of a configuration, whose words stand in quotes."""
    named = [(name, value) for name, value in settings.items() if value is not None]
    return ["%s= %r" % (name, value) for name, value in named]


def of(module: Any, stage: str, optimizer: Any, settings: Mapping[str, Any]) -> Dict[str, Any]:
    """What keywords say, and of what they leave open what the optimizer and the module say: which weights are trained, how
    batch normalisations work, whether the weights are in bfloat16.

    Raises `NetworkError` for what no step that the program knows does.
    """
    answer = dict(settings)
    numbers = _numbers(module)
    if "bfloat16" in numbers:
        answer.setdefault("precision", "bf16")
    if stage == "inference":
        return answer
    answer.setdefault("optimizer", _optimizer(optimizer))
    if _is_optimizer(optimizer):
        _check_complete(module, optimizer)
        answer.setdefault("zero_grad", "free")
    if answer.get("trainable") is None:
        answer["trainable"] = trainable(module)
    if answer.get("frozen_normalisation") is None:
        answer["frozen_normalisation"] = "eval" if _keeps_statistics(module) else "train"
    return answer


def _numbers(module: Any) -> "set[str]":
    numbers = {str(weight.dtype).replace("torch.", "") for weight in module.parameters() if weight.is_floating_point()}
    if numbers <= {"float32"} or numbers == {"bfloat16"}:
        return numbers
    raise NetworkError("the weights are in %s\n  expected: all in float32, or all in bfloat16\n  help: give the module before it was cast, and "
                       "say precision= where it is trained in another one" % " and ".join(sorted(numbers)))


def _is_optimizer(optimizer: Any) -> bool:
    return optimizer is not None and not isinstance(optimizer, (str, type))


def _optimizer(optimizer: Any) -> Any:
    """The program's word for an optimizer; for one that it does not know the optimizer's own, which it refuses."""
    if optimizer is None or isinstance(optimizer, str):
        return optimizer
    kind = (optimizer if isinstance(optimizer, type) else type(optimizer)).__name__
    if kind not in PLAIN:
        known = ", ".join(name for name in PLAIN if " " not in name)
        raise NetworkError("the update of %s is not known\n  expected: %s\n  help: %s" % (kind, known, LIKE_IT))
    groups = optimizer.param_groups if _is_optimizer(optimizer) else [{}]
    if any(group.get("foreach") and all(weight.device.type == "cpu" for weight in group["params"]) for group in groups):
        raise NetworkError("%s with foreach = True changes all weights at once, which needs more memory than one after the other, as on a processor by "
                           "default\n  expected: foreach = None\n  help: %s" % (kind, BY_NAME))
    # PyTorch's own default of momentum is none.
    momenta = {bool(group.get("momentum")) for group in groups}
    if kind == "SGD" and len(momenta) > 1:
        raise NetworkError("some groups of SGD have momentum and others have none\n  expected: all of them, or none\n  help: %s" % BY_NAME)
    plain = _plain_sgd(momenta == {True}, groups) if kind == "SGD" else kind
    for (name, value), group in itertools.product(PLAIN.get(plain, {}).items(), groups):
        if group.get(name, value) != value:
            raise NetworkError("%s with %s = %r needs more memory than %s without\n  expected: %s = %r\n  help: %s, which take less" % (
                plain, name, group[name], plain, name, value, BY_NAME))
    return plain.lower().replace(" ", "_")


def _plain_sgd(has_momentum: bool, groups: List[Mapping[str, Any]]) -> str:
    """What of SGD's is left out. Where a group has weight decay, a copy of the largest weight is borrowed."""
    if not has_momentum:
        return "SGD without momentum"
    return "SGD" if any(group["weight_decay"] for group in groups) else "SGD without weight decay"


def _check_complete(module: Any, optimizer: Any) -> None:
    """Refuses an optimizer that leaves weights alone for which gradients are computed all the same."""
    changed = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
    left = [name for name, weight in module.named_parameters() if weight.requires_grad and id(weight) not in changed]
    if left:
        raise NetworkError("the optimizer changes none of %s, which require gradients\n  help: requires_grad_(False) for what is not trained, or "
                           "give the optimizer by its name" % _some(left))


def trainable(module: Any) -> str:
    """Which weights require gradients, as the program says it."""
    kept = tables(module)
    trained = {name: weight.requires_grad for name, weight in module.named_parameters() if name not in kept}
    if all(trained.values()):
        return "all"
    if not any(trained.values()):
        raise NetworkError("no weight requires a gradient\n  expected: some that are trained\n  help: ask for stage=\"inference\", or say trainable=\"all\"")
    if all(name.endswith("bias") == learns for name, learns in trained.items()):
        return "bias"
    found: List[str] = []
    _patterns(module, "", found)
    return ",".join(found)


def tables(module: Any) -> Dict[str, Any]:
    """Parameters that ask for no gradient and are no layer's; they are reported as buffers are."""
    return {name: weight for name, weight in module.named_parameters()
            if not weight.requires_grad and name.rpartition(".")[2] not in ("weight", "bias")}


def _patterns(module: Any, name: str, found: List[str]) -> None:
    """Patterns of the layers below a module that are trained."""
    weights = [weight.requires_grad for weight in module.parameters()]
    children = list(module.named_children())
    if not any(weights):
        return
    if name and all(weights):
        found.extend([name, name + ".*"] if children or _lonely(module) else [name])
        return
    own = [(of, weight.requires_grad) for of, weight in module.named_parameters(recurse=False)]
    layer = [learns for of, learns in own if of in ("weight", "bias")]
    if len(set(layer)) > 1:
        raise NetworkError("of %s only a part is trained\n  expected: layers whose weight and bias are both trained or both frozen, or all biases"
                           % (name or "the module"))
    for of in [of for of, learns in own if learns and of not in ("weight", "bias")]:
        whole = "%s.%s" % (name, of) if name else of
        # The layer of `attn.in_proj_weight` is `attn.in_proj` to the program.
        found.extend([whole, whole[:-len("_weight")]] if name and of.endswith("_weight") else [whole])
    for child, part in children:
        _patterns(part, "%s.%s" % (name, child) if name else child, found)


def _lonely(module: Any) -> bool:
    """Whether it has weights that are no layer's, which are known by names of their own."""
    return any(name not in ("weight", "bias") for name, _ in module.named_parameters(recurse=False))


def _keeps_statistics(module: Any) -> bool:
    """Whether normalisations of a module in training are held in evaluation, as those with frozen weights are."""
    norms = [part for part in module.modules() if "BatchNorm" in type(part).__name__]
    return module.training and any(not part.training for part in norms)


def _some(names: List[str]) -> str:
    return ", ".join(names[:3]) + (" and %d more" % (len(names) - 3) if len(names) > 3 else "")
