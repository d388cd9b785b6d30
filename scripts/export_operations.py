#!/usr/bin/env python3
"""Exports every operation that perf4sight is to understand, each in a network of a few layers, by both of PyTorch's exporters.

    python scripts/export_operations.py target/operations [NAME ...]
    cargo test --test suite operations -- --ignored --nocapture

Files and counts are those of export_networks.py, whose needs this has too; what an exporter cannot do is one of the results.
"""
import os
import sys

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations

import export_networks

IMAGE = (3, 16, 16)


class Between(nn.Module):
    """An operation between a layer and a classifier, so that there is something to train on both sides."""

    def __init__(self, first, operation, shape, part=None):
        super().__init__()
        self.first, self.part = first, part
        self.operation = operation
        with torch.no_grad():
            features = self.middle(torch.randn(2, *shape)).numel() // 2
        self.classify = nn.Linear(features, 10)

    def middle(self, x):
        x = self.first(x)
        return (self.operation(self.part, x) if self.part is not None else self.operation(x)).flatten(1)

    def forward(self, x):
        return self.classify(self.middle(x))


def image(operation, part=None, channels=8):
    """Behind a convolution that makes an image of 8 x 16 x 16."""
    return Between(nn.Conv2d(3, channels, 3, padding=1), operation, IMAGE, part), {"input": IMAGE}


def tokens(operation, part=None, width=16):
    """Behind a fully connected layer over 12 tokens."""
    return Between(nn.Linear(8, width), operation, (12, 8), part), {"input": (12, 8)}


def volume(operation, part=None):
    """Behind a convolution that makes a volume of 8 x 6 x 8 x 8."""
    return Between(nn.Conv3d(3, 8, 3, padding=1), operation, (3, 6, 8, 8), part), {"input": (3, 6, 8, 8)}


def layer(make, build=image):
    """A module between a layer and a classifier."""
    return lambda: build(lambda part, x: part(x), make())


def function(operation, build=image):
    """A function between a layer and a classifier."""
    return lambda: build(operation)


def heads(x, count=4):
    return x.reshape(x.shape[0], x.shape[1], count, -1).transpose(1, 2)


def attention(x):
    scores = torch.softmax(heads(x) @ heads(x).transpose(-2, -1) / 2.0, -1)
    return (scores @ heads(x)).transpose(1, 2).flatten(2)


def masked(x):
    mask = torch.tril(torch.ones(12, 12)) == 0
    scores = (heads(x) @ heads(x).transpose(-2, -1)).masked_fill(mask, float("-inf"))
    return torch.softmax(scores, -1) @ heads(x)


def windows(x):
    x = torch.roll(x, (-2, -2), (2, 3)).permute(0, 2, 3, 1)
    x = x.reshape(-1, 4, 4, 4, 4, 8).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 8)
    x = torch.softmax(x @ x.transpose(1, 2), -1) @ x
    return x.reshape(-1, 4, 4, 4, 4, 8).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 16, 8)


def sampled(x):
    grid = torch.tanh(x[:, :2]).permute(0, 2, 3, 1)
    return functional.grid_sample(x, grid, align_corners=False)


def turned(x):
    grid = functional.affine_grid(torch.tensor([[[0.8, 0.1, 0.0], [-0.1, 0.8, 0.0]]]).expand(x.shape[0], -1, -1), [x.shape[0], 8, 16, 16],
                                  align_corners=False)
    return functional.grid_sample(x, grid, align_corners=False)


def unpooled(x):
    x, places = functional.max_pool2d(x, 2, return_indices=True)
    return functional.max_unpool2d(x, places, 2)


class Standardised(nn.Conv2d):
    """A convolution whose filters are normalised."""

    def forward(self, x):
        weight = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
        return functional.conv2d(x, weight / (weight.std((1, 2, 3), keepdim=True) + 1e-5), self.bias, padding=1)


class Prelu(nn.Module):
    """Slopes for every channel."""

    def __init__(self):
        super().__init__()
        self.slopes = nn.PReLU(8)

    def forward(self, x):
        return self.slopes(x)


class Slopes(nn.Module):
    """The offsets of a deformable convolution, and the convolution."""

    def __init__(self):
        super().__init__()
        from torchvision.ops import DeformConv2d
        self.offsets, self.conv = nn.Conv2d(8, 18, 3, padding=1), DeformConv2d(8, 8, 3, padding=1)

    def forward(self, x):
        return self.conv(x, self.offsets(x))


class Recurrent(nn.Module):
    """What a recurrent layer gives for every token."""

    def __init__(self, kind):
        super().__init__()
        self.layer = kind(16, 12, batch_first=True)

    def forward(self, x):
        return self.layer(x)[0]


class SelfAttention(nn.Module):
    """PyTorch's own module."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


SIGNS = {"greater": torch.gt, "greater_or_equal": torch.ge, "less": torch.lt, "less_or_equal": torch.le, "equal": torch.eq}
ACTIVATIONS = {
    "relu": nn.ReLU, "relu6": nn.ReLU6, "leaky_relu": nn.LeakyReLU, "elu": nn.ELU, "selu": nn.SELU, "celu": nn.CELU, "sigmoid": nn.Sigmoid,
    "hard_sigmoid": nn.Hardsigmoid, "tanh": nn.Tanh, "silu": nn.SiLU, "hard_swish": nn.Hardswish, "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU("tanh"), "mish": nn.Mish, "softplus": nn.Softplus, "hardtanh": nn.Hardtanh, "prelu": nn.PReLU,
    "prelu_of_channels": Prelu, "softsign": nn.Softsign, "log_sigmoid": nn.LogSigmoid, "hard_shrink": nn.Hardshrink, "glu": lambda: nn.GLU(1),
    "softmax": lambda: nn.Softmax(1), "log_softmax": lambda: nn.LogSoftmax(1),
}
FUNCTIONS = {
    "abs": torch.abs, "neg": torch.neg, "exp": torch.exp, "log": lambda x: torch.log(x.abs() + 1), "sqrt": lambda x: torch.sqrt(x.abs()),
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 1), "reciprocal": lambda x: torch.reciprocal(x.abs() + 1), "erf": torch.erf, "sin": torch.sin,
    "cos": torch.cos, "sign": lambda x: torch.sign(x) * x, "floor": lambda x: torch.floor(x) + x, "ceil": lambda x: torch.ceil(x) + x,
    "round": lambda x: torch.round(x) + x, "square": torch.square, "pow": lambda x: x ** 3, "pow_of_two": lambda x: x.abs() ** torch.sigmoid(x),
    "clamp": lambda x: torch.clamp(x, -0.3, 0.7), "clamp_min": lambda x: torch.clamp(x, min=0.1), "maximum": lambda x: torch.maximum(x, x * 2),
    "minimum": lambda x: torch.minimum(x, x * 2), "fmod": lambda x: torch.fmod(x, 0.5), "div": lambda x: x / (x.abs() + 1),
    "silu_spelled_out": lambda x: x * torch.sigmoid(x), "gelu_spelled_out": lambda x: 0.5 * x * (1 + torch.erf(x / 2 ** 0.5)),
    "hard_swish_spelled_out": lambda x: x * functional.relu6(x + 3) / 6, "mish_spelled_out": lambda x: x * torch.tanh(functional.softplus(x)),
    "where": lambda x: torch.where(x > 0, x, x * 0.1), "not": lambda x: x * (~(x > 0)).float(),
    "and": lambda x: x * ((x > 0) & (x < 1)).float(), "or": lambda x: x * ((x > 1) | (x < 0)).float(),
    "xor": lambda x: x * torch.logical_xor(x > 0, x < 1).float(),
}
FUNCTIONS.update({name: lambda x, sign=sign: x * sign(x, x.mean(1, keepdim=True)).float() for name, sign in SIGNS.items()})
REDUCTIONS = {
    "mean": lambda x: x.mean((2, 3)), "mean_kept": lambda x: x * x.mean(1, keepdim=True), "sum": lambda x: x.sum(1), "max": lambda x: x.amax((2, 3)),
    "min": lambda x: x.amin(1, keepdim=True), "norm": lambda x: torch.norm(x, 2, 1), "normalize": lambda x: functional.normalize(x, dim=1),
    "norm_1": lambda x: torch.norm(x, 1, 1, keepdim=True), "prod": lambda x: x.prod(1), "variance": lambda x: x.var(1, keepdim=True),
    "log_sum_exp": lambda x: torch.logsumexp(x, 1), "arg_max": lambda x: x.mean((2, 3)) * x.flatten(2).argmax(2).float(),
    "arg_min_kept": lambda x: x + torch.argmin(x, 1, keepdim=True).float(), "top_k": lambda x: torch.topk(x.flatten(2), 5, 2)[0],
    "top_k_places": lambda x: x.flatten(2)[:, :, :5] * torch.topk(x.flatten(2), 5, 2)[1].float(), "cum_sum": lambda x: torch.cumsum(x, 2),
}
MOVES = {
    "concat": lambda x: torch.cat([x, x * 2], 1), "split": lambda x: torch.split(x, [2, 6], 1)[1], "chunk": lambda x: x.chunk(2, 1)[0],
    "slice": lambda x: x[:, 1:5, ::2], "flip": lambda x: torch.flip(x, (3,)), "roll": lambda x: torch.roll(x, (1, 2), (2, 3)),
    "index_select": lambda x: torch.index_select(x, 2, torch.tensor([3, 1, 1])),
    "gather_by_tuples": lambda x: x[:, :, torch.tensor([0, 5, 9]), torch.tensor([2, 2, 7])],
    "stack": lambda x: torch.stack([x, x], 2), "expand": lambda x: x[:, :, :1].expand(-1, -1, 16, -1), "repeat": lambda x: x.repeat(1, 2, 1, 1),
    "pixel_shuffle": lambda x: functional.pixel_shuffle(x, 2), "pixel_unshuffle": lambda x: functional.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda x: functional.channel_shuffle(x, 2), "unfold": lambda x: functional.unfold(x, 3, padding=1, stride=2),
    "windows": windows,
    "grid_sample": sampled, "affine_grid": turned, "nearest": lambda x: functional.interpolate(x, scale_factor=2),
    "bilinear": lambda x: functional.interpolate(x, (20, 24), mode="bilinear", align_corners=True),
    "bicubic": lambda x: functional.interpolate(x, scale_factor=0.5, mode="bicubic"),
    "pad": lambda x: functional.pad(x, (1, 2, 0, 1)), "pad_constant": lambda x: functional.pad(x, (1, 2), value=3.0),
    "pad_reflect": lambda x: functional.pad(x, (1, 2, 3, 0), "reflect"), "pad_edge": lambda x: functional.pad(x, (1, 2, 3, 0), "replicate"),
    "pad_wrap": lambda x: functional.pad(x, (1, 2, 3, 0), "circular"),
}
LAYERS = {
    "conv_dilated": lambda: nn.Conv2d(8, 6, 3, dilation=2), "conv_grouped": lambda: nn.Conv2d(8, 6, 3, groups=2),
    "conv_depthwise": lambda: nn.Conv2d(8, 8, 5, padding=2, groups=8), "conv_transpose": lambda: nn.ConvTranspose2d(8, 6, 2, 2),
    "conv_transpose_padded": lambda: nn.ConvTranspose2d(8, 6, 3, 2, padding=1, output_padding=1),
    "conv_padded_same": lambda: nn.Conv2d(8, 6, 4, padding="same"), "weight_norm": lambda: parametrizations.weight_norm(nn.Conv2d(8, 6, 3)),
    "weight_standardisation": lambda: Standardised(8, 6, 3), "max_pool": lambda: nn.MaxPool2d(3, 2, 1),
    "max_pool_dilated": lambda: nn.MaxPool2d(2, 2, dilation=2), "average_pool": lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True),
    "adaptive_pool": lambda: nn.AdaptiveAvgPool2d((4, 8)), "lp_pool": lambda: nn.LPPool2d(2, 3, 2), "batch_norm": lambda: nn.BatchNorm2d(8),
    "instance_norm": lambda: nn.InstanceNorm2d(8), "instance_norm_affine": lambda: nn.InstanceNorm2d(8, affine=True),
    "group_norm": lambda: nn.GroupNorm(2, 8), "group_norm_of_one": lambda: nn.GroupNorm(1, 8), "local_response_norm": lambda: nn.LocalResponseNorm(5),
    "layer_norm_of_images": lambda: nn.LayerNorm([8, 16, 16]), "dropout": lambda: nn.Dropout(0.2), "dropout_2d": lambda: nn.Dropout2d(0.2),
    "deformable": Slopes,
}
OF_TOKENS = {
    "linear": lambda: nn.Linear(16, 8), "layer_norm": lambda: nn.LayerNorm(16), "rms_norm": lambda: nn.RMSNorm(16), "self_attention": SelfAttention,
    "lstm": lambda: Recurrent(nn.LSTM), "gru": lambda: Recurrent(nn.GRU),
}
TOKEN_FUNCTIONS = {
    "attention": attention, "attention_masked": masked,
    "attention_fused": lambda x: functional.scaled_dot_product_attention(heads(x), heads(x), heads(x)),
    "attention_causal": lambda x: functional.scaled_dot_product_attention(heads(x), heads(x), heads(x), is_causal=True),
    "einsum": lambda x: torch.einsum("bhid,bhjd->bhij", heads(x), heads(x)),
    "einsum_mixed": lambda x: torch.einsum("bnd,bmd->bnm", x, x.tanh()), "matmul_stretched": lambda x: heads(x) @ x[:, None, :, :4].transpose(2, 3),
    "mean_of_tokens": lambda x: x.mean(1),
}
OF_VOLUMES = {
    "conv_3d": lambda: nn.Conv3d(8, 6, 3, stride=(1, 2, 2), padding=1), "conv_3d_grouped": lambda: nn.Conv3d(8, 8, (3, 1, 1), groups=2),
    "conv_3d_depthwise": lambda: nn.Conv3d(8, 8, 3, groups=8), "max_pool_3d": lambda: nn.MaxPool3d(2),
    "average_pool_3d": lambda: nn.AvgPool3d(3, 2, 1), "batch_norm_3d": lambda: nn.BatchNorm3d(8), "mean_3d": lambda: nn.AdaptiveAvgPool3d(1),
}

OPERATIONS = {name: layer(make) for name, make in ACTIVATIONS.items()}
OPERATIONS.update({name: function(make) for table in (FUNCTIONS, REDUCTIONS, MOVES) for name, make in table.items()})
OPERATIONS.update({name: layer(make) for name, make in LAYERS.items()})
OPERATIONS.update({name: layer(make, tokens) for name, make in OF_TOKENS.items()})
OPERATIONS.update({name: function(make, tokens) for name, make in TOKEN_FUNCTIONS.items()})
OPERATIONS.update({name: layer(make, volume) for name, make in OF_VOLUMES.items()})
OPERATIONS.update({
    "max_unpool": function(unpooled),
    "fold": lambda: image(lambda x: functional.fold(x.flatten(2)[:, :, :25], (4, 5), (2, 3), padding=1), channels=12),
    "conv_1d": lambda: tokens(lambda part, x: part(x.transpose(1, 2)), nn.Conv1d(16, 8, 3, padding=1)),
    "batch_norm_of_tokens": lambda: tokens(lambda part, x: part(x.flatten(0, 1)).reshape_as(x), nn.BatchNorm1d(16)),
})


def main(folder, *names):
    torch.manual_seed(0)
    made = {}

    def build(name):
        if name not in made:
            made.clear()
            made[name] = OPERATIONS[name]()
        return made[name]

    os.makedirs(folder, exist_ok=True)
    export_networks.build = build
    export_networks.export(folder, names or sorted(OPERATIONS))


if __name__ == "__main__":
    main(*sys.argv[1:])
