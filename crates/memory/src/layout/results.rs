//! The layout of every operation's result.

use super::TensorLayout;
use perf4sight_network::{ChannelsLast, Embedding, Network, Node, NodeId, Op, PytorchRun};
use perf4sight_step::workload::{AutocastDevice, Step};

/// For every node, the layout of its result by kernels of a kind for so many samples; `tracked` marks the nodes for which autograd computes
/// a gradient.
pub(crate) fn layouts(
    network: &Network,
    step: Step,
    tracked: &[bool],
    (kernels, batch): (AutocastDevice, u64),
) -> Vec<TensorLayout> {
    let mut layouts: Vec<TensorLayout> = Vec::with_capacity(network.nodes().len());
    for node in network.nodes() {
        let dims = node.shape.dims().iter().map(|&dim| dim as u64);
        let sizes: Vec<u64> = std::iter::once(batch).chain(dims).collect();
        let inputs: Vec<&TensorLayout> = node.inputs.iter().map(|input| &layouts[input.index()]).collect();
        let math = uses_math_kernel(network, node, (step, tracked), &inputs);
        let is_shuffled = kernels == AutocastDevice::Processor && is_shuffled(network, node, &layouts);
        let layout = match is_channels_last(network, node) || is_shuffled {
            true => TensorLayout::channels_last(sizes),
            false if node.multiplies_at_once() => TensorLayout::with_batch_after(sizes, samples_after(network, node)),
            false => result(node, sizes, &inputs, (math, reads_row(network, node))),
        };
        layouts.push(layout);
    }
    layouts
}

/// Whether a result is a channels-last image by what its module was made with: inputs that are, or filters, which a convolution follows
/// (`mkldnn_conv_use_channels_last` of aten/src/ATen/native/ConvUtils.h).
fn is_channels_last(network: &Network, node: &Node) -> bool {
    let Some(followed) = network.followed().filter(|_| node.shape.rank() == 3) else { return false };
    let ChannelsLast { images, filters } = followed.channels_last();
    images && matches!(node.op, Op::Input(_)) || filters && matches!(node.op, Op::Conv(_)) && !reads_row(network, node)
}

/// Whether it is what `pixel_shuffle` made of a channels-last image.
fn is_shuffled(network: &Network, node: &Node, layouts: &[TensorLayout]) -> bool {
    let before = |id: &NodeId| network.node(*id).inputs.first();
    let image = node.inputs.first().and_then(before).and_then(before);
    let is_last = node.runs == PytorchRun::PixelShuffle && node.shape.rank() == 3;
    is_last && image.is_some_and(|image| layouts[image.index()].is_channels_last())
}

/// Whether a node's input is the height-1 image view that PyTorch makes for a 1-D convolution.
pub(crate) fn reads_row(network: &Network, node: &Node) -> bool {
    let Some(row) = node.inputs.first().map(|input| network.node(*input)) else { return false };
    let (Op::Reshape(_), &[channels, 1, width]) = (&row.op, row.shape.dims()) else { return false };
    network.input_of(row, 0).dims() == [channels, width]
}

/// After how many axes the batch is in memory where a product of all samples with a weight reads it, and in its result: stacked matrices, of which the samples are rows, or
/// columns where the weight comes first (`sumproduct_pair` of aten/src/ATen/native/Linear.cpp).
pub(crate) fn samples_after(network: &Network, node: &Node) -> usize {
    let weight_first = network.node(node.inputs[0]).is_common();
    node.shape.rank() - if weight_first { 1 } else { 2 }
}

/// Whether an attention uses the math kernel (`_scaled_dot_product_attention_math`). The flash kernel, which never
/// holds all scores, cannot compute the gradient of the mask, and checks whether the mask is trained even where no
/// gradient is computed (`check_attn_mask_shape` of sdp_utils_cpp.cpp). It also requires adjacent features
/// (`check_last_dim_stride_equals_1`), and those of a convolution's result are not adjacent.
pub(crate) fn uses_math_kernel(network: &Network, node: &Node, at: (Step, &[bool]), read: &[&TensorLayout]) -> bool {
    if node.op != Op::Attention {
        return false;
    }
    let (step, tracked) = at;
    let is_trained = |added: NodeId| match (step.trains(), network.node(added)) {
        (true, _) => tracked[added.index()],
        // A table that is computed without gradients is no parameter any more.
        (false, of) => matches!(of.op, Op::Parameter(_)) && of.trained != Some(0),
    };
    node.inputs.get(3).copied().is_some_and(is_trained) || read.iter().take(3).any(|layout| !layout.ends_dense())
}

fn result(node: &Node, sizes: Vec<u64>, inputs: &[&TensorLayout], (math, reads_row): (bool, bool)) -> TensorLayout {
    match &node.op {
        Op::Parameter(_) | Op::Embedding(Embedding { fixed: Some(_), .. }) => {
            let once = std::iter::once(1).chain(sizes[1..].iter().copied()).collect();
            TensorLayout::contiguous(once).expand(sizes)
        }
        Op::Conv(_) if reads_row => TensorLayout::contiguous(sizes),
        Op::Conv3d(conv) if conv.window.moves_by_frames() && inputs[0].is_of_frames() => TensorLayout::of_frames(sizes),
        Op::Conv(_) | Op::ConvTranspose(_) | Op::MaxPool(_) | Op::AvgPool { .. } | Op::AdaptiveAvgPool { .. } => {
            image(sizes, inputs)
        }
        Op::BatchNorm { .. } | Op::GroupNorm { .. } | Op::Resize { .. } | Op::Pad { .. } | Op::Concat { .. } => {
            image(sizes, inputs)
        }
        Op::Activation(_) | Op::Cast(_) | Op::Binary(_) | Op::Where | Op::Dropout { .. } | Op::DropPath { .. } => {
            // An expanded operand does not decide the layout.
            let first = inputs.iter().find(|input| input.has(&sizes));
            first.map_or_else(|| TensorLayout::contiguous(sizes.clone()), |first| first.with_sizes(sizes.clone()))
        }
        // In place, or in a clone.
        Op::Unknown(unknown) if unknown.is_assignment() && inputs[0].has(&sizes) => inputs[0].with_sizes(sizes),
        Op::Flatten | Op::Reshape(_) => {
            let view = reshape_view(node, inputs[0], &sizes);
            view.unwrap_or_else(|| TensorLayout::contiguous(sizes))
        }
        Op::Transpose { order } => inputs[0].permute(order),
        Op::Contiguous { batch } => TensorLayout::with_batch_after(sizes, *batch),
        Op::Slice { axis, .. } => inputs[0].cut(sizes, axis + 1, 1),
        Op::Every { axis, step, .. } => inputs[0].cut(sizes, axis + 1, *step as u64),
        Op::Expand(_) => inputs[0].expand(sizes),
        // As the queries (`empty_like` in `_scaled_dot_product_flash_attention_for_cpu`).
        Op::Attention if !math => inputs[0].with_sizes(sizes),
        Op::Linear(_) => TensorLayout::with_batch_after(sizes, inputs[0].folds_behind().unwrap_or(0)),
        Op::Attention | Op::MatMul | Op::LayerNorm { .. } | Op::Softmax { .. } => TensorLayout::contiguous(sizes),
        Op::Conv3d(_) | Op::MaxPool3d(_) | Op::AvgPool3d { .. } | Op::ArgMax(_) | Op::TopK(_) | Op::Fold(_) => {
            TensorLayout::contiguous(sizes)
        }
        Op::CumSum { .. } | Op::GridSample(_) => TensorLayout::contiguous(sizes),
        Op::Input(_) | Op::Embedding(_) | Op::Pick(_) | Op::Reduce { .. } => TensorLayout::contiguous(sizes),
        Op::Recurrent(_) | Op::Unknown(_) => TensorLayout::contiguous(sizes),
    }
}

/// The view that a reshape makes of its input; none where it copies.
pub(crate) fn reshape_view(node: &Node, input: &TensorLayout, sizes: &[u64]) -> Option<TensorLayout> {
    if node.runs == PytorchRun::Joining { input.viewed_joining(sizes) } else { input.view_as(sizes) }
}

/// The result is a channels-last image where all inputs are.
fn image(sizes: Vec<u64>, inputs: &[&TensorLayout]) -> TensorLayout {
    match inputs.iter().all(|input| input.is_channels_last()) && sizes.len() == 4 {
        true => TensorLayout::channels_last(sizes),
        false => TensorLayout::contiguous(sizes),
    }
}
