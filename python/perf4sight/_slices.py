"""A module's weights with the positions that are left of them, and its layers' own numbers of channels after them."""
from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set

from ._errors import NetworkError

Left = Optional[Mapping[str, Any]]


class Slices:
    """Cuts layers of one module; a parameter that several layers share is cut once and stays shared."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.modules = dict(module.named_modules(remove_duplicate=False))
        self.cut: Dict[int, Any] = {}
        # What is left of parameters, by id.
        self.made: Set[int] = set()

    def apply(self, layer: Mapping[str, Any]) -> None:
        """Cuts one layer as the program says; NetworkError where the module has none that could be."""
        import torch

        name = layer["layer"]
        part = self.modules.get(name)
        if part is None or not any(True for _ in part.parameters(recurse=False)):
            return self._free(name, layer)
        nn = torch.nn
        if hasattr(part, "parametrizations") or isinstance(getattr(part, "weight", None), torch.Tensor) and "weight" not in part._parameters:
            raise NetworkError("the weight of %s is computed from others (%s), and cannot be cut" % (name, _computed(part)), name)
        for kinds, cut in (
            ((nn.modules.conv._ConvTransposeNd,), self._transposed), ((nn.modules.conv._ConvNd,), self._convolution), ((nn.Linear,), self._linear),
            ((nn.Embedding,), self._embedding), ((nn.modules.batchnorm._NormBase,), self._channels),
            ((nn.LayerNorm, getattr(nn, "RMSNorm", nn.LayerNorm)), self._layer_norm), ((nn.GroupNorm,), self._group_norm), ((nn.PReLU,), self._prelu),
        ):
            if isinstance(part, kinds):
                return cut(part, layer["inputs"], layer["outputs"])
        self._own(part, layer["outputs"])

    def _convolution(self, part: Any, inputs: Left, outputs: Left) -> None:
        kept = _kept(outputs, part.out_channels)
        each = part.in_channels // part.groups
        if each == 1 and part.groups > 1:
            # The filters of a depthwise convolution go with the channel that they see.
            self._set(part, "weight", [(0, kept)])
            part.groups = part.in_channels = part.in_channels if inputs is None else len(inputs["kept"])
        else:
            within = _of_group(inputs, part.in_channels, part.groups, 0)
            self._set(part, "weight", [(0, kept), (1, within)])
            part.in_channels = len(within) * part.groups
        self._set(part, "bias", [(0, kept)])
        part.out_channels = len(kept)

    def _transposed(self, part: Any, inputs: Left, outputs: Left) -> None:
        kept_in = _kept(inputs, part.in_channels)
        if part.groups == part.in_channels and part.groups > 1:
            each = part.out_channels // part.groups
            self._set(part, "weight", [(0, kept_in)])
            part.groups = len(kept_in)
            kept = _kept(outputs, each * part.in_channels)
        else:
            self._set(part, "weight", [(0, kept_in), (1, _of_group(outputs, part.out_channels, part.groups, 0))])
            kept = _kept(outputs, part.out_channels)
        self._set(part, "bias", [(0, kept)])
        part.in_channels, part.out_channels = len(kept_in), len(kept)

    def _linear(self, part: Any, inputs: Left, outputs: Left) -> None:
        kept, read = _kept(outputs, part.out_features), _kept(inputs, part.in_features)
        self._set(part, "weight", [(0, kept), (1, read)])
        self._set(part, "bias", [(0, kept)])
        part.out_features, part.in_features = len(kept), len(read)

    def _embedding(self, part: Any, _: Left, outputs: Left) -> None:
        kept = _kept(outputs, part.embedding_dim)
        self._set(part, "weight", [(1, kept)])
        part.embedding_dim = len(kept)

    def _channels(self, part: Any, _: Left, outputs: Left) -> None:
        kept = _kept(outputs, part.num_features)
        for name in ("weight", "bias", "running_mean", "running_var"):
            self._set(part, name, [(0, kept)])
        part.num_features = len(kept)

    def _layer_norm(self, part: Any, _: Left, outputs: Left) -> None:
        assert outputs is not None
        axis = len(part.normalized_shape) + outputs["axis"]
        for name in ("weight", "bias"):
            self._set(part, name, [(axis, outputs["kept"])])
        shape = list(part.normalized_shape)
        shape[axis] = len(outputs["kept"])
        part.normalized_shape = tuple(shape)

    def _group_norm(self, part: Any, _: Left, outputs: Left) -> None:
        kept = _kept(outputs, part.num_channels)
        if part.num_groups == part.num_channels:
            part.num_groups = len(kept)
        for name in ("weight", "bias"):
            self._set(part, name, [(0, kept)])
        part.num_channels = len(kept)

    def _prelu(self, part: Any, _: Left, outputs: Left) -> None:
        self._set(part, "weight", [(0, _kept(outputs, part.num_parameters))])
        part.num_parameters = part.weight.shape[0]

    def _free(self, name: str, layer: Mapping[str, Any]) -> None:
        """A parameter that is no layer's: a token, an embedding of places, a scale. The matrix that code of its own multiplies with may have the channels of
        what it reads on either axis."""
        home, _, own = name.rpartition(".")
        part, outputs = self.modules.get(home), layer["outputs"]
        if part is None or own not in part._parameters or layer["operation"] not in ("parameter", "embedding"):
            where = home_of(name)
            raise NetworkError("%s makes a weight of %s in its own code, which cannot be cut" % (where or "the module", name), where or name)
        weight = part._parameters[own]
        if id(weight) in self.made:
            return  # with the other parameters of its module
        axis = _axis(weight, outputs)
        if outputs and axis is None:
            raise NetworkError("%s has the shape %s, and of which of its axes channels go is not clear" % (name, tuple(weight.shape)), name)
        if outputs and axis is not None:
            self._along(part, own, axis, outputs)

    def _own(self, part: Any, outputs: Left) -> None:
        """The parameters of a module of the user's own, which lie along what it gives."""
        for name, weight in list(part.named_parameters(recurse=False)):
            axis = _axis(weight, outputs)
            if outputs is not None and axis is not None and id(weight) not in self.made:
                self._along(part, name, axis, outputs)

    def _along(self, part: Any, name: str, axis: int, outputs: Mapping[str, Any]) -> None:
        """Cuts a parameter of a module of the user's own, and the shapes that the module has noted to see it in, as layer scale does: (C, 1, 1)."""
        elements = part._parameters[name].numel()
        self._set(part, name, [(axis, outputs["kept"])])
        for key, shape in list(vars(part).items()):
            if _is_shape(shape) and math.prod(shape) == elements and list(shape).count(outputs["of"]) == 1:
                setattr(part, key, type(shape)(len(outputs["kept"]) if length == outputs["of"] else length for length in shape))

    def _set(self, part: Any, name: str, slices: "Sequence[tuple[int, Sequence[int]]]") -> None:
        """Puts what is left of a parameter or buffer where it was."""
        import torch

        whole = getattr(part, name, None)
        if whole is None:
            return
        if id(whole) not in self.cut:
            left = whole.detach()
            for axis, kept in slices:
                left = left.index_select(axis, torch.tensor(kept, device=left.device, dtype=torch.long))
            made = torch.nn.Parameter(left.clone(), whole.requires_grad) if isinstance(whole, torch.nn.Parameter) else left.clone()
            # What was cut is kept, so that nothing else gets its id.
            self.cut[id(whole)] = (whole, made)
            self.made.add(id(made))
        setattr(part, name, self.cut[id(whole)][1])


def home_of(layer: str) -> str:
    """The module that an operation runs in: `/blocks/blocks.0/MatMul` in `blocks.0`."""
    return layer.strip("/").rpartition("/")[0].rpartition("/")[2] if "/" in layer else layer.rpartition(".")[0]


def _kept(left: Left, all_of_it: int) -> List[int]:
    return list(range(all_of_it)) if left is None else list(left["kept"])


def _of_group(left: Left, channels: int, groups: int, group: int) -> List[int]:
    """Positions that stay within one group; all groups keep the same."""
    each = channels // groups
    return [place - group * each for place in _kept(left, channels) if place // each == group]


def _axis(weight: Any, outputs: Left) -> Optional[int]:
    """The axis of a parameter that channels go from: that which the program says, where axes that it lacks in front count as 1; else the only one
    that is as long, for code brings parameters into other shapes, such as (C,) to (1, C, 1, 1). None where there is none."""
    if outputs is None:
        return None
    said = weight.dim() + outputs["axis"]
    if said >= 0 and weight.shape[said] == outputs["of"]:
        return int(said)
    as_long = [axis for axis, length in enumerate(weight.shape) if length == outputs["of"]]
    return as_long[0] if len(as_long) == 1 else None


def _is_shape(value: Any) -> bool:
    import torch

    return type(value) in (tuple, list, torch.Size) and all(type(length) is int for length in value)


def _computed(part: Any) -> str:
    """The parameters that the weight of a layer is computed from: of a parametrization, else of the older functions, which call them `weight_g`, `weight_v`."""
    made = getattr(part, "parametrizations", None)
    if made is not None:
        return ", ".join("parametrizations.%s" % name for name, _ in made.named_parameters())
    return ", ".join(name for name in part._parameters if name.startswith("weight")) or "its own code"
