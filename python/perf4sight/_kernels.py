"""What kernels of a processor do that the rules of PyTorch for tensors without contents leave out: copies, layouts, workspaces."""
from __future__ import annotations

from typing import Any, Sequence, Tuple

# Operators that copy those of their first operands that are not contiguous while they run, and how many these are (`contiguous` in Col2Im.cpp, Im2Col.cpp,
# SoftMax.cpp, layer_norm.cpp, Embedding.cpp and UpSampleKernel.cpp of aten/src/ATen/native).
COPYING = {
    "aten.im2col": 1, "aten.col2im": 1, "aten._softmax": 1, "aten._log_softmax": 1, "aten.embedding_dense_backward": 1,
    "aten.native_layer_norm": 1, "aten.native_layer_norm_backward": 2,
    "aten.upsample_bilinear2d_backward": 1, "aten.upsample_nearest2d_backward": 1, "aten._upsample_nearest_exact2d_backward": 1,
}
# Operators that add up halves at places in a `float` copy of their result (`create_acc_buffer` in ScatterGatherKernel.cpp).
ADDING = ("aten.scatter", "aten.scatter_add", "aten.scatter_reduce", "aten.index_add", "aten.gather_backward")
# Operators that resize images of up to so many pixels of height and width together channel by channel, in copies of what they read and make
# (`_use_vectorized_kernel_cond_2d` in UpSampleKernel.cpp).
RESIZING, SMALL_IMAGE = ("aten.upsample_bilinear2d", "aten.upsample_nearest2d", "aten._upsample_nearest_exact2d"), 128
# Arithmetic on operands of two types, which a processor casts first (`cast_common_dtype_to_outputs` in TensorIterator.cpp).
CASTING = ("aten.mul", "aten.div", "aten.add", "aten.sub")
# The types with half the bits of a `float`.
HALVES = ("torch.bfloat16", "torch.float16")
LSTM, LSTM_BACKWARD = "aten.mkldnn_rnn_layer", "aten.mkldnn_rnn_layer_backward"
# Arguments of an LSTM's backward: states and results of forward, and the gradients of those (native_functions.yaml).
OF_FORWARD, GRADIENTS = slice(7, 10), slice(10, 13)


def copies(name: str, arguments: Tuple[Any, ...], made: Any) -> int:
    """Bytes that an operator copies within its kernel."""
    import torch

    first = arguments[0] if arguments else None
    name = name.rstrip("_")
    if name in RESIZING and sum(made.shape[-2:]) <= SMALL_IMAGE and not first.is_contiguous(memory_format=torch.channels_last):
        return int(first.nbytes + made.nbytes)
    if name in COPYING:
        replaced = int(first.nbytes) if name == "aten.im2col" and made.nbytes > first.nbytes else 0
        return replaced + sum(int(one.nbytes) for one in arguments[:COPYING[name]] if not one.is_contiguous())
    if name in CASTING:
        return _cast(arguments, made)
    if name in ADDING:
        return 4 * int(made.numel()) if str(made.dtype) in HALVES else 0
    if name == "aten.sum":
        return _summed(first, made)
    if name == "aten._safe_softmax":
        # Which scores are minus infinity (`_safe_softmax` in transformers/attention.cpp).
        return int(first.numel())
    if name == "aten.convolution_backward":
        # A gradient that is one number seen in many places, such as that of a sum (`contiguous` in Convolution.cpp of aten/src/ATen/native).
        return int(first.nbytes) if 0 in first.stride() else 0
    if name == "aten.max_pool2d_with_indices_backward":
        return _in_other_format(first, [arguments[-1], made])
    if name == "aten.mean":
        # Halves are summed up as `float` (`mean_kernel_impl` in ReduceOps.cpp).
        return 4 * int(first.numel()) if str(first.dtype) in HALVES else 0
    return _gradients_of_lstm(arguments) if name == LSTM_BACKWARD else 0


def _cast(arguments: Tuple[Any, ...], made: Any) -> int:
    """Bytes of the copies of operands, and of a result that is written into one of them, in the type that both operands have in common."""
    import torch

    tensors = [one for one in arguments if isinstance(one, torch.Tensor) and one.dim()]
    kind = torch.result_type(*tensors) if len(tensors) == 2 else None
    return sum(one.numel() * kind.itemsize for one in [*tensors, made] if one.dtype != kind) if kind else 0


def _summed(read: Any, made: Any) -> int:
    """Bytes of a copy of what is summed up: of truths and short integers as the integers of the result (`make_reduction` in ReduceOpsUtils.h), of halves as `float`
    where axes are summed that do not lie one behind the other (`should_use_acc_buffer` in ReduceOps.cpp)."""
    if made.dtype != read.dtype and not made.dtype.is_floating_point:
        return int(read.numel() * made.dtype.itemsize)
    if str(read.dtype) not in HALVES or made.dim() != read.dim():
        return 0
    axes = sorted((stride, size) for stride, size, left in zip(read.stride(), read.shape, made.shape) if left == 1 < size)
    are_apart = any(after != stride * size for (stride, size), (after, _) in zip(axes, axes[1:]))
    return 4 * int(read.numel()) if are_apart else 0


def _in_other_format(gradient: Any, tensors: Sequence[Any]) -> int:
    """Bytes of what a kernel copies into the format of the gradient that comes in, channels-last or not (`max_pool2d_backward_kernel_impl` of MaxPoolKernel.cpp)."""
    import torch

    is_last = gradient.is_contiguous(memory_format=torch.channels_last) and not gradient.is_contiguous()
    wanted = torch.channels_last if is_last else torch.contiguous_format
    return sum(one.nbytes for one in tensors if not one.is_contiguous(memory_format=wanted))


def _gradients_of_lstm(arguments: Tuple[Any, ...]) -> int:
    """Bytes of gradients that an LSTM copies: those that are not contiguous, zeros for those that there are none of, and halves as `float`
    (`mkldnn_rnn_layer_backward` of aten/src/ATen/native/mkldnn/RNN.cpp)."""
    taken = 0
    for result, gradient in zip(arguments[OF_FORWARD], arguments[GRADIENTS]):
        is_made = gradient is None or not gradient.is_contiguous()
        taken += result.nbytes if is_made else 0
        taken += 4 * result.numel() if str(result.dtype) in HALVES else 0
    return int(taken)


def laid_out(function: Any, arguments: Tuple[Any, ...], made: Any) -> Any:
    """What an operator gives, as its kernel lays it out: a fold makes its image in memory as large as its columns, and columns at least as large as
    their image (`empty_like` in Col2Im.cpp and Im2Col.cpp), a layer norm the gradient of what it reads contiguous (layer_norm.cpp), so that no view of it is a copy."""
    import torch

    name = str(function)
    if name in ("aten.col2im.default", "aten.im2col.default") and made.numel() < arguments[0].numel():
        return torch.empty_like(arguments[0], memory_format=torch.contiguous_format).resize_(made.shape)
    if name == "aten.native_layer_norm_backward.default" and made[0] is not None:
        return (made[0].contiguous(), *made[1:])
    if name == LSTM_BACKWARD + ".default":
        # As `float`, whatever the layer computes in.
        return tuple(one.float() if one is not None else None for one in made)
    return made


# Time steps of an LSTM that are run to learn what it takes for each.
STEPS = (8, 16)


def with_workspace(function: Any, arguments: Tuple[Any, ...], made: Any) -> Any:
    """What an operator gives, with what oneDNN's LSTM keeps for backward: of that alone a tensor without contents has no size."""
    import torch

    keeps = str(function) == LSTM + ".default" and torch.is_grad_enabled()
    return (*made[:3], torch.empty(_kept_by_lstm(function, arguments), dtype=torch.uint8)) if keeps else made


def _kept_by_lstm(function: Any, arguments: Tuple[Any, ...]) -> int:
    """Bytes, from the layer itself on zeros: they grow with the number of time steps, which is kept small."""
    import torch
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    steps = arguments[0].shape[0]

    def kept(few: int) -> int:
        real = [torch.zeros(one.shape, dtype=one.dtype) if isinstance(one, torch.Tensor) else one for one in arguments[1:]]
        with torch.utils._python_dispatch._disable_current_modes(), torch.enable_grad():
            return int(function(torch.zeros(few, *arguments[0].shape[1:], dtype=arguments[0].dtype), *real)[3].nbytes)

    with unset_fake_temporarily():
        if steps <= max(STEPS):
            return kept(steps)
        fewer, more = map(kept, STEPS)
        return more + (more - fewer) * (steps - STEPS[1]) // (STEPS[1] - STEPS[0])
