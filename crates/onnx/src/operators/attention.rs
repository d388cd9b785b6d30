//! Attention that PyTorch computes in one operation, recognised in the nodes that its exporters write for it.
//!
//! Both of PyTorch's exporters write `scaled_dot_product_attention` as `softmax((s q) (s k^T) [+ mask]) v`, where `s` is the root
//! of the scale (symbolic_opset14.py; onnxscript's `aten_scaled_dot_product_attention`), and as `Attention` for operator sets
//! from 23 on. Attention written by hand scales once: the queries (timm without fused attention, Swin) or the scores. So an
//! attention with both factors scaled, the keys after their transposition, is read as the one operation; any other stays in
//! parts, as it runs, unless a note of the default exporter says which it was: with a scale of 1 it scales nothing. A module that
//! itself scales both factors would be mistaken for it. If a mask of truths is added, rows in which everything is masked become zeros.

use super::contiguous;
use super::normalisation::step;
use super::shared_heads;
use crate::call::{NodeCall, NodeMisfit};
use crate::notes::{attention_dropout, is_attention, is_copied};
use crate::translate::{GraphTranslation, own_name};
use crate::value::Feature;
use perf4sight_network::{BinaryFunction, KeptReading, Node, NodeId, Op, Shape};

struct AttentionScores {
    query: NodeId,
    turned: NodeId,
    added: Option<NodeId>,
    named: String,
}

/// The attention whose last product this is, of these weights and values: one operation, or its last two if its weights are
/// dropped.
pub(super) fn fuse_attention(
    to: &mut GraphTranslation,
    call: &NodeCall,
    weights: Feature,
    value: Feature,
) -> Result<Option<Feature>, NodeMisfit> {
    // PyTorch itself splits operands with three axes into steps (`check_tensor_shapes` of sdp_utils_cpp.h); there the batch
    // shares its axis with the heads.
    let apart = !value.batch.is_some_and(|batch| batch.is_alone());
    let read_once = call.node.input.first().is_some_and(|name| to.values.is_read_once(name));
    if let Some((softmax, rate)) = dropout_before(to, call, weights.id).filter(|_| read_once) {
        return with_dropout(to, call, [Feature { id: softmax, ..weights }, value], rate).map(Some);
    }
    let Some(scores) = scores(to, call, weights.id).filter(|_| read_once && !apart) else { return Ok(None) };
    // Attentions that we wrote as one operation are named so; those in parts stay so, though their batch now has an axis of its
    // own.
    if to.ours && !scores.named.starts_with(&format!("{}/", own_name(call))) {
        return Ok(None);
    }
    let AttentionScores { query, turned, added, .. } = scores;
    let like = |id: NodeId| Feature { id, ..value };
    let key = turned_back(to, call, like(turned))?;
    let inputs: Vec<Feature> = [query, key.id, value.id].into_iter().chain(added).map(like).collect();
    // Masks for the whole batch are more than one operation.
    let shapes: Vec<Shape> = inputs.iter().map(|input| to.builder.shape(input.id).clone()).collect();
    let wanted = shared_heads::for_all_queries(&shapes);
    if Op::Attention.shape(&wanted.iter().collect::<Vec<_>>()).is_err() {
        return Ok(None);
    }
    let inputs = shared_heads::expand_to(to, call, inputs, wanted)?;
    shared_heads::read_in_place(to, call, [inputs[1], inputs[2]]);
    let inputs = contiguous_operands(to, call, inputs)?;
    to.add_like(own_name(call), Op::Attention, &inputs).map(Some)
}

/// Queries, keys and values, copied if the program copied them before: PyTorch's one operation needs features that are
/// contiguous. The default exporter's notes record such copies; for a file without notes, a warning reports that none are
/// assumed.
fn contiguous_operands(
    to: &mut GraphTranslation,
    call: &NodeCall,
    mut inputs: Vec<Feature>,
) -> Result<Vec<Feature>, NodeMisfit> {
    for (place, input) in inputs.iter_mut().enumerate().take(3) {
        let unnoted = !to.ours && !to.exporter.has_notes() && lies_apart(to.builder.node(input.id));
        if is_copied(call.node, place) || unnoted && to.keeping == KeptReading::Least {
            *input = contiguous::add_copy(to, &format!("{}_copied_{place}", own_name(call)), *input)?;
        } else if unnoted {
            to.noticed.strided.insert(own_name(call).to_string());
        }
    }
    Ok(inputs)
}

fn lies_apart(node: &Node) -> bool {
    matches!(&node.op, Op::Transpose { order } if order.last() != Some(&(order.len() - 1)))
}

/// The softmax whose weights an attention drops, and the rate, if the nodes of the file do not show it: the default exporter
/// records the dropout only in its note, and the nodes that make rows safe before it are no operation of PyTorch.
fn dropout_before(to: &GraphTranslation, call: &NodeCall, weights: NodeId) -> Option<(NodeId, f32)> {
    if let Some(rate) = attention_dropout(call.node) {
        let softmax = made_safe(to, weights).unwrap_or(weights);
        return matches!(to.builder.node(softmax).op, Op::Softmax { .. }).then_some((softmax, rate));
    }
    let node = to.builder.node(weights);
    let (&Op::Dropout { rate }, &[safe]) = (&node.op, node.inputs.as_slice()) else { return None };
    Some((made_safe(to, safe)?, rate))
}

/// With dropout, PyTorch computes it step by step on CPUs (`check_for_dropout`, a gate of `use_flash_attention_cpp`). On some
/// GPUs it takes fewer steps; the weights counted here are then never kept.
fn with_dropout(
    to: &mut GraphTranslation,
    call: &NodeCall,
    [softmax, value]: [Feature; 2],
    rate: f32,
) -> Result<Feature, NodeMisfit> {
    let kept = to.add_like(&format!("{}_dropout", own_name(call)), Op::Dropout { rate }, &[softmax])?;
    to.add_like(own_name(call), Op::MatMul, &[kept, value])
}

fn scores(to: &GraphTranslation, call: &NodeCall, weights: NodeId) -> Option<AttentionScores> {
    let last = to.builder.shape(weights).rank().checked_sub(1)?;
    let weights = made_safe(to, weights).unwrap_or(weights);
    let Op::Softmax { axis } = to.builder.node(weights).op else { return None };
    let scores = to.builder.node(step(to, weights, "softmax").filter(|_| axis == last)?);
    let sum = scores.op == Op::Binary(BinaryFunction::Add);
    let (product, added) = match *scores.inputs.as_slice() {
        // A mask stored in the file is no operand, like any constant.
        [product] if sum => (to.builder.node(product), None),
        [product, added] if sum => (to.builder.node(product), Some(added)),
        _ => (scores, None),
    };
    let (Op::MatMul, &[query, key]) = (&product.op, product.inputs.as_slice()) else { return None };
    let scaled = step(to, query, "mul").zip(step(to, key, "mul"));
    let (query, turned) = scaled.or_else(|| is_attention(call.node).then_some((query, key)))?;
    Some(AttentionScores { query, turned, added, named: product.name.clone() })
}

/// The weights, with zeros instead of NaN in rows where everything is masked, as exporters write masks of truths (`_safe_softmax`
/// of PyTorch).
fn made_safe(to: &GraphTranslation, chosen: NodeId) -> Option<NodeId> {
    let node = to.builder.node(chosen);
    let (Op::Where, &[condition, _, weights]) = (&node.op, node.inputs.as_slice()) else { return None };
    let equal = &to.builder.node(step(to, condition, "not")?);
    (equal.op == Op::Binary(BinaryFunction::Equal) && equal.inputs == [weights, weights]).then_some(weights)
}

/// The keys as rows: the tensor that was transposed for the product, or another transposition of it.
fn turned_back(to: &mut GraphTranslation, call: &NodeCall, turned: Feature) -> Result<Feature, NodeMisfit> {
    let node = to.builder.node(turned.id);
    let (source, mut order) = if let (Op::Transpose { order }, &[source]) = (&node.op, node.inputs.as_slice()) {
        (Feature { id: source, ..turned }, order.clone())
    } else {
        (turned, (0..node.shape.rank()).collect())
    };
    let last = order.len().checked_sub(2).ok_or(NodeMisfit::Unsupported)?;
    order.swap(last, last + 1);
    match order.is_sorted() {
        true => Ok(source),
        false => to.add_like(&format!("{}_keys", own_name(call)), Op::Transpose { order }, &[source]),
    }
}
