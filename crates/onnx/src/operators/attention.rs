//! Attention that PyTorch computes in one operation, as its exporters take it apart.
//!
//! `scaled_dot_product_attention` comes out of both of PyTorch's exporters as `softmax((s q) (s k^T) [+ mask]) v` with `s` the root of the
//! scale (symbolic_opset14.py; onnxscript's `aten_scaled_dot_product_attention`), for operator sets from 23 on as `Attention`. What
//! networks spell out themselves scales once: the queries (timm without fused attention, Swin) or the scores. So an attention both of whose
//! factors are scaled, the keys after they were turned, is the one operation; any other stays taken apart, as it runs. A module that
//! itself scales both factors so would be taken for it. Where a mask of truths is added, rows without anything to look at are made zeros.

use super::contiguous;
use super::normalisation::step;
use crate::call::{Call, Misfit};
use crate::notes::{attention_dropout, is_copied};
use crate::translate::{Translation, own_name};
use crate::value::Feature;
use perf4sight_network::{Binary, Node, NodeId, Op};

struct Scores {
    query: NodeId,
    turned: NodeId,
    added: Option<NodeId>,
    named: String,
}

/// The attention whose last product this is, of these weights and values: one operation, or its last two where its weights are dropped.
pub(super) fn fused(
    to: &mut Translation,
    call: &Call,
    weights: Feature,
    value: Feature,
) -> Result<Option<Feature>, Misfit> {
    // Operands of three axes PyTorch takes apart itself (`check_tensor_shapes` of sdp_utils_cpp.h); there the batch shares its axis with the
    // heads.
    let apart = !value.batch.is_some_and(|batch| batch.alone());
    let read_once = call.node.input.first().is_some_and(|name| to.values.is_read_once(name));
    if let Some((softmax, rate)) = dropped(to, call, weights.id).filter(|_| read_once) {
        return with_dropout(to, call, [Feature { id: softmax, ..weights }, value], rate).map(Some);
    }
    let Some(scores) = scores(to, weights.id).filter(|_| read_once && !apart) else { return Ok(None) };
    // What we wrote as one operation says so; what was apart stays so, though its batch has an axis of its own now.
    if to.ours && !scores.named.starts_with(&format!("{}/", own_name(call))) {
        return Ok(None);
    }
    let Scores { query, turned, added, .. } = scores;
    let like = |id: NodeId| Feature { id, ..value };
    let key = turned_back(to, call, like(turned))?;
    let inputs: Vec<Feature> = [query, key.id, value.id].into_iter().chain(added).map(like).collect();
    // Heads that are repeated, and masks for the whole batch, are more than one operation.
    let fits = {
        let shapes: Vec<_> = inputs.iter().map(|input| to.builder.shape(input.id)).collect();
        Op::Attention.shape(&shapes).is_ok()
    };
    if !fits {
        return Ok(None);
    }
    let inputs = laid(to, call, inputs)?;
    to.add_like(own_name(call), Op::Attention, &inputs).map(Some)
}

/// Queries, keys and values as the program laid them anew before: PyTorch has one operation for those alone whose features lie beside each other.
/// The default exporter's notes tell of such copies; for a file without notes a warning says that none are assumed.
fn laid(to: &mut Translation, call: &Call, mut inputs: Vec<Feature>) -> Result<Vec<Feature>, Misfit> {
    for (place, input) in inputs.iter_mut().enumerate().take(3) {
        if is_copied(call.node, place) {
            *input = contiguous::copied(to, &format!("{}_copied_{place}", own_name(call)), *input)?;
        } else if !to.ours && !to.exporter.has_notes() && lies_apart(to.builder.node(input.id)) {
            to.noticed.strided.insert(own_name(call).to_string());
        }
    }
    Ok(inputs)
}

fn lies_apart(node: &Node) -> bool {
    matches!(&node.op, Op::Transpose { order } if order.last() != Some(&(order.len() - 1)))
}

/// The softmax whose weights are dropped in an attention, and the rate, where that is not what the nodes of the file say: the default exporter
/// has the dropout in its note alone, and what makes rows safe before it is no operation of PyTorch's own.
fn dropped(to: &Translation, call: &Call, weights: NodeId) -> Option<(NodeId, f32)> {
    if let Some(rate) = attention_dropout(call.node) {
        let softmax = made_safe(to, weights).unwrap_or(weights);
        return matches!(to.builder.node(softmax).op, Op::Softmax { .. }).then_some((softmax, rate));
    }
    let node = to.builder.node(weights);
    let (&Op::Dropout { rate }, &[safe]) = (&node.op, node.inputs.as_slice()) else { return None };
    Some((made_safe(to, safe)?, rate))
}

/// With dropout PyTorch computes it step by step on CPUs (`check_for_dropout`, a gate of `use_flash_attention_cpp`), and in fewer steps on some GPUs,
/// where this counts weights that are never kept.
fn with_dropout(
    to: &mut Translation,
    call: &Call,
    [softmax, value]: [Feature; 2],
    rate: f32,
) -> Result<Feature, Misfit> {
    let kept = to.add_like(&format!("{}_dropout", own_name(call)), Op::Dropout { rate }, &[softmax])?;
    to.add_like(own_name(call), Op::MatMul, &[kept, value])
}

fn scores(to: &Translation, weights: NodeId) -> Option<Scores> {
    let last = to.builder.shape(weights).rank().checked_sub(1)?;
    let weights = made_safe(to, weights).unwrap_or(weights);
    let Op::Softmax { axis } = to.builder.node(weights).op else { return None };
    let scores = to.builder.node(step(to, weights, "softmax").filter(|_| axis == last)?);
    let sum = scores.op == Op::Binary(Binary::Add);
    let (product, added) = match *scores.inputs.as_slice() {
        // A mask that the file holds is no operand, as any constant.
        [product] if sum => (to.builder.node(product), None),
        [product, added] if sum => (to.builder.node(product), Some(added)),
        _ => (scores, None),
    };
    let (Op::MatMul, &[query, key]) = (&product.op, product.inputs.as_slice()) else { return None };
    let named = product.name.clone();
    Some(Scores { query: step(to, query, "mul")?, turned: step(to, key, "mul")?, added, named })
}

/// The weights whose rows are zeros where nothing is looked at, instead of no numbers, as exporters write masks of truths
/// (`_safe_softmax` of PyTorch).
fn made_safe(to: &Translation, chosen: NodeId) -> Option<NodeId> {
    let node = to.builder.node(chosen);
    let (Op::Where, &[condition, _, weights]) = (&node.op, node.inputs.as_slice()) else { return None };
    let equal = &to.builder.node(step(to, condition, "not")?);
    (equal.op == Op::Binary(Binary::Equal) && equal.inputs == [weights, weights]).then_some(weights)
}

/// The keys as rows: what was turned for the product, or that turned once more.
fn turned_back(to: &mut Translation, call: &Call, turned: Feature) -> Result<Feature, Misfit> {
    let node = to.builder.node(turned.id);
    let (source, mut order) = if let (Op::Transpose { order }, &[source]) = (&node.op, node.inputs.as_slice()) {
        (Feature { id: source, ..turned }, order.clone())
    } else {
        (turned, (0..node.shape.rank()).collect())
    };
    let last = order.len().checked_sub(2).ok_or(Misfit::Unsupported)?;
    order.swap(last, last + 1);
    match order.is_sorted() {
        true => Ok(source),
        false => to.add_like(&format!("{}_keys", own_name(call)), Op::Transpose { order }, &[source]),
    }
}
