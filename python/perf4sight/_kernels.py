"""What kernels of a processor do that the rules of PyTorch for tensors without contents leave out: copies, layouts, workspaces."""
from __future__ import annotations

import math
from typing import Any, List, Mapping, Sequence, Tuple

# Operators that copy those of their first operands that are not contiguous while they run, and how many these are (`contiguous` in Col2Im.cpp, Im2Col.cpp,
# SoftMax.cpp, layer_norm.cpp, Embedding.cpp, UpSampleKernel.cpp, ReflectionPad.cpp, PaddingKernel.cpp, GridSampler.cpp, AveragePool3d.cpp and Distance.cpp
# of aten/src/ATen/native).
COPYING = {
    "aten.im2col": 1, "aten.col2im": 1, "aten._softmax": 1, "aten._log_softmax": 1, "aten.embedding_dense_backward": 1,
    "aten._softmax_backward_data": 2, "aten._log_softmax_backward_data": 2, "aten.log_sigmoid_forward": 1, "aten.rrelu_with_noise": 1, "aten.median": 1,
    "aten.native_layer_norm": 1, "aten.native_layer_norm_backward": 2, "aten._cdist_forward": 2, "aten._cdist_backward": 3,
    "aten.reflection_pad1d": 1, "aten.reflection_pad1d_backward": 1, "aten.replication_pad1d": 1, "aten.replication_pad1d_backward": 1,
    "aten.avg_pool3d": 1, "aten.avg_pool3d_backward": 1, "aten._adaptive_avg_pool3d_backward": 1,
    "aten.fractional_max_pool2d": 1, "aten.fractional_max_pool2d_backward": 1, "aten.grid_sampler_2d_backward": 1, "aten.grid_sampler_3d_backward": 1,
    "aten.upsample_linear1d_backward": 1, "aten.upsample_nearest1d_backward": 1, "aten._upsample_nearest_exact1d_backward": 1,
    "aten.upsample_bicubic2d_backward": 1, "aten._upsample_bilinear2d_aa_backward": 1, "aten._upsample_bicubic2d_aa_backward": 1,
}
# The same of operators whose operands may also be in `torch.channels_last`, as the first one is (`suggest_memory_format` there).
COPYING_IN_FORMAT = {
    "aten.avg_pool2d": 1, "aten._adaptive_avg_pool2d": 1, "aten.adaptive_max_pool2d": 1, "aten.max_pool2d_with_indices": 1, "aten.max_unpool2d": 2,
    "aten.max_pool3d_with_indices": 1, "aten.reflection_pad2d": 1, "aten.reflection_pad3d": 1, "aten.replication_pad2d": 1, "aten.replication_pad3d": 1,
    "aten.pixel_shuffle": 1, "aten.pixel_unshuffle": 1, "aten.native_group_norm": 1,
    "aten.upsample_bilinear2d_backward": 1, "aten.upsample_nearest2d_backward": 1, "aten._upsample_nearest_exact2d_backward": 1,
    "aten.upsample_trilinear3d_backward": 1, "aten.upsample_nearest3d_backward": 1, "aten._upsample_nearest_exact3d_backward": 1,
}
# Backward operators that work in the format of the gradient that comes in, and give the other one as a copy (AvgPoolKernel.cpp, AdaptiveAvgPoolKernel.cpp,
# MaxPoolKernel.cpp and PaddingKernel.cpp of aten/src/ATen/native/cpu).
IN_FORMAT_OF_GRADIENT = (
    "aten.avg_pool2d_backward", "aten._adaptive_avg_pool2d_backward", "aten.max_pool2d_with_indices_backward", "aten.max_pool3d_with_indices_backward",
    "aten.reflection_pad2d_backward", "aten.reflection_pad3d_backward", "aten.replication_pad2d_backward", "aten.replication_pad3d_backward",
)
# Backward operators that copy so many of their first operands into the format of what forward read (AdaptiveMaxPoolKernel.cpp, group_norm.cpp).
IN_FORMAT_OF_FORWARD = {"aten.adaptive_max_pool2d_backward": 1, "aten.native_group_norm_backward": 2}
# Operators whose result lies as suggested for what they read first, or second: channels-last where that is, else contiguous, so that linear layers that read a
# batch norm of a transposed tensor copy it (`empty_like` with `suggest_memory_format` in Normalization.cpp, TensorTransformations.cpp, ChanelShuffle.cpp, ReflectionPad.cpp,
# ReplicationPadding.cpp). The rules of PyTorch for tensors without contents keep the order of strides.
AS_FIRST = ("aten.native_batch_norm", "aten._native_batch_norm_legit", "aten._native_batch_norm_legit_no_training", "aten._batch_norm_with_update", "aten.roll",
            "aten.channel_shuffle", "aten.reflection_pad3d", "aten.replication_pad3d")
AS_SECOND = ("aten.native_batch_norm_backward", "aten.batch_norm_backward", "aten.reflection_pad2d_backward", "aten.replication_pad2d_backward",
             "aten.reflection_pad3d_backward", "aten.replication_pad3d_backward")
# Operators whose result is always contiguous (`LEGACY_CONTIGUOUS_MEMORY_FORMAT` and `contiguous` in Loss.cpp, Activation.cpp, GatedLinearUnit.cpp and layer_norm.cpp).
CONTIGUOUS = ("aten.mse_loss_backward", "aten.smooth_l1_loss_backward", "aten.huber_loss_backward", "aten.log_sigmoid_forward", "aten.rrelu_with_noise",
              "aten.glu_backward", "aten.native_layer_norm_backward")
# Element-wise operators that are others for tensors without contents, in which other operands come first: the strides of the first decide (`reorder_dimensions` in
# TensorIterator.cpp). Last, operators that make their result like one of their operands first, and which (`empty_like` in Loss.cpp and Activation.cpp, `clone` in
# TensorAdvancedIndexing.cpp).
BY_OPERANDS = ("aten.elu_backward", "aten.softplus_backward", "aten.hardtanh_backward", "aten.hardswish_backward", "aten.xlogy", "aten.copysign")
LIKE = {"aten.index_fill": 0, "aten.log_sigmoid_backward": 0, "aten.binary_cross_entropy": 0, "aten.binary_cross_entropy_backward": 1}
# Convolutions, which copy images and gradients that are not in the format that they read, and how many gradients come before the image
# (`contiguous` in Convolution.cpp).
CONVOLUTIONS = {"aten.convolution": 0, "aten.convolution_backward": 1}
# Fourier transforms, complex to real last.
FOURIER, TO_REAL = ("aten._fft_r2c", "aten._fft_c2c", "aten._fft_c2r"), "aten._fft_c2r"
# Operators that add up halves at places in a `float` copy of their result (`create_acc_buffer` in ScatterGatherKernel.cpp).
ADDING = ("aten.scatter", "aten.scatter_add", "aten.scatter_reduce", "aten.index_add", "aten.gather_backward")
# Operators that resize images of up to so many pixels of height and width together channel by channel, in copies of what they read and make
# (`_use_vectorized_kernel_cond_2d` in UpSampleKernel.cpp).
RESIZING, SMALL_IMAGE = ("aten.upsample_bilinear2d", "aten.upsample_nearest2d", "aten._upsample_nearest_exact2d"), 128
# Arithmetic on operands of two types, which a processor casts first (`cast_common_dtype_to_outputs` in TensorIterator.cpp).
CASTING = ("aten.mul", "aten.div", "aten.add", "aten.sub")
# Sums, which turn truths and short integers into integers first.
SUMMING = ("aten.sum", "aten.cumsum")
# Losses that are computed for each number within, and where the word is that sums them up (`mse_loss_out` and others of aten/src/ATen/native/Loss.cpp); and those
# whose sum stays in memory as large as all of them (`resize_` there).
LOSSES = {"aten.mse_loss": 2, "aten.smooth_l1_loss": 2, "aten.huber_loss": 2, "aten.binary_cross_entropy": 3, "aten.soft_margin_loss": 2}
COMPUTED_APART, AS_LARGE = ("aten.mse_loss", "aten.smooth_l1_loss", "aten.huber_loss"), tuple(name for name in LOSSES if name != "aten.huber_loss")
# The types with half the bits of a `float`.
HALVES = ("torch.bfloat16", "torch.float16")
# Bytes of a page and of a cache line.
PAGE, LINE = 4096, 64
LSTM, LSTM_BACKWARD = "aten.mkldnn_rnn_layer", "aten.mkldnn_rnn_layer_backward"
# Arguments of an LSTM's backward: states and results of forward, and the gradients of those (native_functions.yaml).
OF_FORWARD, GRADIENTS = slice(7, 10), slice(10, 13)


def copies(name: str, arguments: Tuple[Any, ...], named: Mapping[str, Any], made: Any) -> int:
    """Bytes that an operator copies within its kernel."""
    import torch

    first = arguments[0] if arguments else None
    name = name.rstrip("_")
    if name in RESIZING and sum(made.shape[-2:]) <= SMALL_IMAGE and not first.is_contiguous(memory_format=torch.channels_last):
        return int(first.nbytes + made.nbytes)
    if name in COPYING:
        replaced = int(first.nbytes) if name == "aten.im2col" and made.nbytes > first.nbytes else 0
        return replaced + sum(int(one.nbytes) for one in arguments[:COPYING[name]] if not one.is_contiguous())
    if name in COPYING_IN_FORMAT:
        return _in_format(first, arguments[:COPYING_IN_FORMAT[name]])
    if name in IN_FORMAT_OF_GRADIENT:
        indices = [arguments[-1]] if "indices" in name else []
        return _in_format(first, [first, made, *indices])
    if name in IN_FORMAT_OF_FORWARD:
        # A group norm also has two sums of every channel of every sample (`GroupNormBackwardKernelImpl` in group_norm_kernel.cpp).
        sums = 8 * arguments[5] * arguments[6] if "group_norm" in name else 0
        return sums + _in_format(arguments[1], arguments[:IN_FORMAT_OF_FORWARD[name]])
    if name in FOURIER:
        return _transformed(name, first, arguments[1])
    if name in CASTING:
        return _cast(arguments, made)
    if name in ADDING:
        return 4 * int(made.numel()) if str(made.dtype) in HALVES else 0
    if name in SUMMING:
        return _summed(first, made)
    if name in COMPUTED_APART:
        return int(first.nbytes) if _is_summed(name, arguments) else 0
    if name == "aten.soft_margin_loss_backward":
        return 2 * int(made.nbytes)
    if name == "aten._safe_softmax":
        # Which scores are minus infinity (`_safe_softmax` in transformers/attention.cpp).
        return int(first.numel())
    if name in CONVOLUTIONS:
        layout = read_format(*arguments[CONVOLUTIONS[name]:][:2])
        return sum(int(one.nbytes) for one in arguments[:CONVOLUTIONS[name] + 1] if not one.is_contiguous(memory_format=layout))
    if name == "aten.gelu_backward":
        # oneDNN reads and makes contiguous tensors (`gelu_backward` in Activation.cpp).
        is_by_onednn = named.get("approximate", "none") == "none" and first.dtype == torch.float32 and arguments[1].is_contiguous()
        return sum(int(one.nbytes) for one in (first, made) if not one.is_contiguous()) if is_by_onednn else 0
    if name == "aten._scaled_dot_product_flash_attention_for_cpu_backward":
        return _gradient_of_attention(*arguments[:2])
    if name == "aten._euclidean_dist":
        # Both operands with a column of norms and one of ones, whose product the distances are made of (`_euclidean_dist` in Distance.cpp).
        return sum(4 * int(one.numel()) // one.shape[-1] * (one.shape[-1] + 2) for one in arguments[:2])
    if name == "aten._trilinear":
        return 4 * sum(_of_bilinear(*arguments))
    if name == "aten.logsumexp":
        # The exponents, and the greatest ones (`logsumexp_out_impl` in ReduceOps.cpp).
        return int(first.nbytes + made.nbytes)
    if name == "aten.abs":
        # Of complex numbers a complex result is made first (`unary_op_impl_with_complex_to_float` in UnaryOps.cpp).
        return int(first.nbytes) if first.is_complex() else 0
    if name == "aten.mean":
        # Halves are summed up as `float` (`mean_kernel_impl` in ReduceOps.cpp).
        return 4 * int(first.numel()) if str(first.dtype) in HALVES else 0
    return _gradients_of_lstm(arguments) if name == LSTM_BACKWARD else 0


def uncopied(name: str, arguments: Tuple[Any, ...]) -> int:
    """Bytes that a kernel does not borrow though the program has them: those of a batch norm's own gradient, which it makes where the incoming one lies as what it
    read (`batch_norm_backward_cpu_template` in Normalization.cpp)."""
    from torch._prims_common import suggest_memory_format

    if not name.endswith("batch_norm_backward"):
        return 0
    gradient, read = arguments[:2]
    layout = suggest_memory_format(read)
    lie_alike = all(one.is_contiguous(memory_format=layout) for one in (gradient, read))
    return 0 if lie_alike else int(read.nbytes)


def borrows(operands: Tuple[Any, ...]) -> int:
    """By what a processor's convolution borrows, as the program numbers it: 0 for blocks of contiguous images, 1 for channels-last ones, 2 for the columns by which
    PyTorch itself computes those of single small volumes (`use_mkldnn` in Convolution.cpp)."""
    import torch

    choose = getattr(torch._C, "_select_conv_backend", None)
    image, filters, _, stride, padding, dilation, transposed, output_padding, groups = operands[:9]
    if choose is not None and image.dim() == 5 and not transposed:
        if choose(image, filters, None, stride, padding, dilation, transposed, output_padding, groups) == torch._C._ConvBackend.Slow3d:
            return 2
    return int(read_format(image, filters) != torch.contiguous_format)


def read_format(image: Any, filters: Any) -> Any:
    """The memory format in which a convolution reads: channels-last where an image or its filters are (`mkldnn_conv_use_channels_last` in ConvUtils.h), never
    for sequences, which are copied first (`convolution` in Convolution.cpp)."""
    import torch
    from torch._prims_common import suggest_memory_format

    if image.dim() == 3:
        return torch.contiguous_format
    kinds = [suggest_memory_format(one) for one in (image, filters)]
    return next((kind for kind in kinds if kind != torch.contiguous_format), torch.contiguous_format)


def _is_summed(loss: str, arguments: Tuple[Any, ...]) -> bool:
    """Whether a loss is one number, as by default; 0 stands for one each."""
    return len(arguments) <= LOSSES[loss] or arguments[LOSSES[loss]] != 0


def _of_bilinear(first: Any, second: Any, third: Any, *axes: Any) -> Tuple[int, int]:
    """Elements of the two products that `nn.Bilinear` makes for one row of an axis, of the first two factors and of that with the third one (`_trilinear` in Linear.cpp)."""
    stretched, summed, row = axes[:3], axes[3], axes[4] if len(axes) > 4 else 1
    whole = first.dim() + len(stretched[0])

    def sizes(factor: Any, missing: Sequence[int]) -> List[int]:
        own = iter(factor.shape)
        return [1 if axis == row else size for axis, size in ((axis, 1 if axis in missing else next(own)) for axis in range(whole))]
    of = [sizes(factor, missing) for factor, missing in zip((first, second, third), stretched)]
    product = [1 if axis in summed and axis in stretched[2] else max(of[0][axis], of[1][axis]) for axis in range(whole)]
    result = [1 if axis in summed else max(product[axis], of[2][axis]) for axis in range(whole)]
    return math.prod(product), math.prod(result)


def _cast(arguments: Tuple[Any, ...], made: Any) -> int:
    """Bytes of the copies of operands, and of a result that is written into one of them, in the type that both operands have in common."""
    import torch

    kind = torch.result_type(*arguments[:2])
    tensors = [one for one in arguments[:2] if isinstance(one, torch.Tensor) and one.dim()]
    return sum(one.numel() * kind.itemsize for one in [*tensors, made] if one.dtype != kind)


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


def _in_format(wanted: Any, tensors: Sequence[Any]) -> int:
    """Bytes of the tensors that a kernel copies into the memory format of one: channels-last where that is, else contiguous."""
    from torch._prims_common import suggest_memory_format

    layout = suggest_memory_format(wanted)
    return sum(int(one.nbytes) for one in tensors if not one.is_contiguous(memory_format=layout))


def _transformed(name: str, read: Any, axes: Sequence[int]) -> int:
    """Bytes that a Fourier transform copies: what it reads, unless all other axes are one in memory, and of several axes to real numbers what the complex
    transform of all but the last gives, too (`_exec_fft` and `_fft_c2r_mkl` in mkl/SpectralOps.cpp)."""
    if name == TO_REAL and len(axes) > 1:
        return 2 * int(read.nbytes)
    transformed = [axis % read.dim() for axis in axes]
    others = sorted((read.stride(axis), read.shape[axis]) for axis in range(read.dim()) if axis not in transformed and read.shape[axis] > 1)
    are_one = all(after == stride * size for (stride, size), (after, _) in zip(others, others[1:]))
    return 0 if are_one and 0 not in read.stride() else int(read.nbytes)


def _gradients_of_lstm(arguments: Tuple[Any, ...]) -> int:
    """Bytes of gradients that an LSTM copies: those that are not contiguous, zeros for those that there are none of, and halves as `float`
    (`mkldnn_rnn_layer_backward` of aten/src/ATen/native/mkldnn/RNN.cpp)."""
    taken = 0
    for result, gradient in zip(arguments[OF_FORWARD], arguments[GRADIENTS]):
        is_made = gradient is None or not gradient.is_contiguous()
        taken += result.nbytes if is_made else 0
        taken += 4 * result.numel() if str(result.dtype) in HALVES else 0
    return int(taken) + _rounded_in_lstm(arguments[0], arguments[2])


def _gradient_of_attention(gradient: Any, query: Any) -> int:
    """Bytes of the copy of a gradient with words before heads (`grad_out_contig` of `flash_attention_backward_kernel_impl` in FlashAttentionKernel.cpp), where attention of
    three axes got a first one of length 1: of four the program counts it."""
    has_three = query.shape[0] == 1 and query.stride(0) == query.shape[1] * query.stride(1)
    return int(gradient.nbytes) if has_three and not gradient.transpose(1, 2).is_contiguous() else 0


def _rounded_in_lstm(read: Any, recurrent: Any) -> int:
    """Bytes of the sum of an LSTM's biases (mkldnn/RNN.cpp), and those by which oneDNN rounds up its three temporary parts to pages, the gates of all steps and two states
    (`set_offset` in src/cpu/rnn/rnn_utils.hpp there): the program counts these parts as they are."""
    size, (steps, samples, hidden) = read.element_size(), (*read.shape[:2], recurrent.shape[1])
    parts = [steps * samples * _row(4 * hidden, size), *[samples * _row(hidden, size)] * 2]
    return 4 * hidden * size + sum(-part % PAGE for part in parts)


def _row(numbers: int, size: int) -> int:
    """Bytes of a row of numbers in oneDNN: whole cache lines, one more where rows would lie a multiple of a page apart (`get_good_ld` in src/cpu/rnn/rnn_utils.cpp there)."""
    line = LINE // size
    padded = -(-numbers // line) * line
    return size * (padded + line if padded % 256 == 0 else padded)


def laid_out(function: Any, arguments: Tuple[Any, ...], made: Any) -> Any:
    """What an operator gives, as its kernel lays it out: a fold makes its image in memory as large as its columns, and columns at least as large as
    their image (`empty_like` in Col2Im.cpp and Im2Col.cpp), a loss its sum; of others the strides differ."""
    import torch

    name = str(function).rpartition(".")[0]
    if name in ("aten.col2im", "aten.im2col") and made.numel() < arguments[0].numel():
        return torch.empty_like(arguments[0], memory_format=torch.contiguous_format).resize_(made.shape)
    if name in AS_LARGE and _is_summed(name, arguments):
        return torch.empty_like(arguments[0]).resize_(())
    if name == LSTM_BACKWARD:
        # As `float`, whatever the layer computes in.
        return tuple(one.float() if one is not None else None for one in made)
    if not isinstance(made, tuple):
        return _with_strides(name, arguments, made)
    results = len(made) if name in CONTIGUOUS else 1
    return (*(one if one is None else _with_strides(name, arguments, one) for one in made[:results]), *made[results:])


def _with_strides(name: str, arguments: Tuple[Any, ...], made: Any) -> Any:
    """A result of an operator with the strides that its kernel gives it."""
    import torch
    from torch._prims_common import compute_elementwise_output_strides, suggest_memory_format

    if name in CONTIGUOUS:
        return made.contiguous()
    if name in AS_FIRST or name in AS_SECOND:
        return made.contiguous(memory_format=suggest_memory_format(arguments[0 if name in AS_FIRST else 1]))
    if name in BY_OPERANDS or name in LIKE:
        operands = [one for one in arguments[LIKE.get(name, 0):] if isinstance(one, torch.Tensor) and one.shape == made.shape]
        operands = operands[:1] if name in LIKE else operands
        strides = compute_elementwise_output_strides(*operands) if operands else made.stride()
        return made if strides == made.stride() else torch.empty_strided(made.shape, strides, dtype=made.dtype)
    return made


# oneDNN starts each part of what an LSTM keeps on a page of its own (`get_page_size` in src/cpu/rnn/rnn_utils.hpp there), so that it grows evenly only by as many
# time steps as fill whole pages; that many, at most this, are run twice.
MOST_STEPS = 64


def with_workspace(function: Any, arguments: Tuple[Any, ...], made: Any) -> Any:
    """What an operator gives, with what oneDNN's LSTM keeps for backward: of that alone a tensor without contents has no size."""
    import torch

    keeps = str(function) == LSTM + ".default" and torch.is_grad_enabled()
    return (*made[:3], torch.empty(_kept_by_lstm(function, arguments), dtype=torch.uint8)) if keeps else made


def _kept_by_lstm(function: Any, arguments: Tuple[Any, ...]) -> int:
    """Bytes, from the layer itself on zeros: they grow with the number of time steps, which is kept small."""
    import torch
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    steps, period = arguments[0].shape[0], _even_steps(arguments[0], arguments[2])

    def kept(few: int) -> int:
        real = [torch.zeros(one.shape, dtype=one.dtype) if isinstance(one, torch.Tensor) else one for one in arguments[1:]]
        with torch.utils._python_dispatch._disable_current_modes(), torch.enable_grad():
            return int(function(torch.zeros(few, *arguments[0].shape[1:], dtype=arguments[0].dtype), *real)[3].nbytes)

    with unset_fake_temporarily():
        if steps <= 2 * period:
            return kept(steps)
        fewer = steps % period or period
        least = kept(fewer)
        return least + (kept(fewer + period) - least) * (steps - fewer) // period


def _even_steps(read: Any, recurrent: Any) -> int:
    """Time steps whose parts fill whole pages: rows of states, of gates and of the wider one of what is read and states, in `read`'s and in four bytes."""
    hidden, size = recurrent.shape[1], read.element_size()
    rows = [size * hidden, 4 * hidden, *(_row(numbers, own) for numbers in (hidden, 4 * hidden, max(hidden, read.shape[2])) for own in (size, 4))]
    unit = math.gcd(PAGE, *(read.shape[1] * row for row in rows))
    return max(min(PAGE // unit, MOST_STEPS), 8)
