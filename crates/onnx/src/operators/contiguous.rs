//! Copies that PyTorch makes without a node in the file: of tensors transposed to tokens first, as in `nn.MultiheadAttention`.

use crate::batch::BatchAxis;
use crate::call::{CallResult, NodeCall, NodeMisfit};
use crate::notes::is_copied;
use crate::translate::{GraphTranslation, own_name};
use crate::value::{Feature, Value};
use crate::warning::UnsureReason;
use perf4sight_network::{KeptReading, NodeId, Op, Shape};

#[cfg(test)]
mod tests;

/// An identity. In our files it is a copy with the batch on its axis.
pub(super) fn identity(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    match call.inputs.first() {
        Some(Value::Feature(_)) if to.ours => contiguous_copy(to, call),
        Some(input) => Ok(vec![input.clone()]),
        None => Err(NodeMisfit::Unsupported),
    }
}

/// A copy that `contiguous` makes, as the Python module names it; of what is the same for all samples it is the same again.
pub(super) fn contiguous_copy(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    match call.inputs.first() {
        Some(Value::Feature(input)) => Ok(vec![Value::Feature(add_copy(to, own_name(call), *input)?)]),
        Some(input) => Ok(vec![input.clone()]),
        None => Err(NodeMisfit::Unsupported),
    }
}

/// A contiguous copy, in the order of axes of the file.
pub(super) fn add_copy(to: &mut GraphTranslation, name: &str, input: Feature) -> Result<Feature, NodeMisfit> {
    let batch = input.batch.filter(|batch| batch.is_alone()).map_or(0, |batch| batch.axis);
    to.add_like(name, Op::Contiguous { batch }, &[input])
}

/// The image that a convolution reads. One that was turned into place lies in memory with its channels last, and then the convolution
/// works so, unless the program made it contiguous: files of the older exporter do not tell.
pub(super) fn laid_out_image(
    to: &mut GraphTranslation,
    call: &NodeCall,
    image: Feature,
) -> Result<Feature, NodeMisfit> {
    if to.ours || !has_channels_last(to, image.id) {
        return Ok(image);
    }
    let is_open = !to.exporter.has_notes() && !to.of_module;
    if is_open {
        to.noticed.unsure(UnsureReason::Order);
    }
    match is_copied(call.node, 0) || is_open && to.keeping == KeptReading::Most {
        true => add_copy(to, &format!("{}_contiguous", own_name(call)), image),
        false => Ok(image),
    }
}

/// Whether an image was made of one with its channels last, or of tokens, by nothing that gives memory another order.
fn has_channels_last(to: &GraphTranslation, image: NodeId) -> bool {
    let mut node = to.builder.node(image);
    while matches!(node.op, Op::Activation(_) | Op::Dropout { .. } | Op::Resize { .. } | Op::Reshape(_)) {
        node = to.builder.node(node.inputs[0]);
    }
    matches!(&node.op, Op::Transpose { order } if matches!(order.as_slice(), [2, 0, 1] | [1, 0]))
}

/// Records whether the batch of a call's result is elsewhere in memory than in the axes: if the call moved it, and it was not
/// moved before.
pub(super) fn record_batch_move(to: &mut GraphTranslation, call: &NodeCall, now: bool) {
    let before = call.node.input.first().is_some_and(|input| to.values.is_moved(input));
    if !to.ours && before != now {
        call.node.output.first().into_iter().for_each(|output| to.values.set_moved(output));
    }
}

/// The input of a fully connected layer. The layer folds all axes but the last, which copies an input in another memory order
/// (`reshape` in `_matmul_impl` of aten/src/ATen/native/LinearAlgebra.cpp).
pub(super) fn linear_input(to: &mut GraphTranslation, call: &NodeCall, input: Feature) -> Result<Feature, NodeMisfit> {
    match call.node.input.first().is_some_and(|name| to.values.is_moved(name)) {
        true => add_copy(to, &format!("{}_folded", own_name(call)), input),
        false => Ok(input),
    }
}

/// Whether this transposes the queries, keys and values that `nn.MultiheadAttention` projects at once, as `_in_projection_packed`
/// (torch/nn/functional.py) does: it swaps a leading axis of length 1 with the axis of the three parts. The result is copied,
/// because its parts could not be viewed as heads.
pub(super) fn is_packed_projection(to: &GraphTranslation, input: Feature, order: &[usize]) -> bool {
    let in_front = to.builder.shape(input.id);
    let &[1, tokens, parts, width] = in_front.dims() else { return false };
    let apart = Shape::new([tokens, parts, width]);
    let projection = seen_as(to, input.id, in_front).and_then(|node| seen_as(to, node, &apart));
    let is_layer = projection.is_some_and(|node| matches!(to.builder.node(node).op, Op::Linear(_)));
    !to.ours && input.batch == Some(BatchAxis::alone_at(2)) && order == [2, 1, 0, 3] && is_layer
}

fn seen_as(to: &GraphTranslation, id: NodeId, shape: &Shape) -> Option<NodeId> {
    let node = to.builder.node(id);
    matches!(&node.op, Op::Reshape(target) if target == shape).then(|| node.inputs[0])
}
