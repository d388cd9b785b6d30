//! ONNX's `Attention` (operator sets 23 and later): joined heads are split, shared heads are repeated.

use crate::batch::BatchAxis;
use crate::call::{CallResult, NodeCall, NodeMisfit};
use crate::translate::{GraphTranslation, own_name, single};
use crate::value::Feature;
use perf4sight_network::{Activation, BinaryFunction, Op, PytorchRun, Shape};

/// `softmax(queries x keys x scale + mask) x values`, head by head.
pub(super) fn attention(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    // Caches of earlier calls are for networks that generate text word by word.
    let only_result = call.node.output.iter().skip(1).all(String::is_empty);
    // A sliding window around each token, new in operator set 25.
    let is_band =
        ["left_window_size", "right_window_size"].iter().any(|bound| call.int(bound).is_some_and(|size| size >= 0));
    if !only_result || is_band || (4..7).any(|place| !call.is_absent(place)) {
        return Err(NodeMisfit::Unsupported);
    }
    let merged = to.builder.shape(call.feature(0)?.id).rank() == 2;
    let [queries, keys, values] = [heads(to, call, 0)?, heads(to, call, 1)?, heads(to, call, 2)?];
    let count = to.builder.shape(queries.id).dims()[0];
    let [keys, values] =
        [("keys", keys), ("values", values)].map(|(what, of)| repeat_heads(to, call, (what, of), count));
    let (keys, values) = (keys?, values?);
    super::shared_heads::read_in_place(to, call, [keys, values]);
    let name = if merged { format!("{}_product", own_name(call)) } else { own_name(call).to_string() };
    let result = product(to, call, &name, [queries, keys, values])?;
    if !merged {
        return single(result);
    }
    let result = step(to, call, "tokens", Op::Transpose { order: vec![1, 0, 2] }, &[result])?;
    let dims = to.builder.shape(result.id).dims();
    let shape = Shape::new([dims[0], dims[1] * dims[2]]);
    single(to.add_like(own_name(call), Op::Reshape(shape), &[result])?)
}

fn step(
    to: &mut GraphTranslation,
    call: &NodeCall,
    what: &str,
    op: Op,
    inputs: &[Feature],
) -> Result<Feature, NodeMisfit> {
    to.add_like(&format!("{}_{what}", own_name(call)), op, inputs)
}

/// An input as heads x tokens x features; if the heads are joined in every token, they are split.
fn heads(to: &mut GraphTranslation, call: &NodeCall, place: usize) -> Result<Feature, NodeMisfit> {
    let input = call.feature(place)?;
    if input.batch != Some(BatchAxis::FIRST) {
        return Err(NodeMisfit::Unsupported);
    }
    let (tokens, features) = match to.builder.shape(input.id).dims() {
        [_, _, _] => return Ok(input),
        &[tokens, features] => (tokens, features),
        _ => return Err(NodeMisfit::Unsupported),
    };
    let attribute = if place == 0 { "q_num_heads" } else { "kv_num_heads" };
    let count = super::convolution::size(call.int(attribute).ok_or(NodeMisfit::Unsupported)?)?;
    if count == 0 || !features.is_multiple_of(count) {
        return Err(NodeMisfit::Wrong(format!("splits {features} features into {count} heads")));
    }
    let shape = Shape::new([tokens, count, features / count]);
    let apart = step(to, call, &format!("input_{place}"), Op::Reshape(shape), &[input])?;
    step(to, call, &format!("heads_{place}"), Op::Transpose { order: vec![1, 0, 2] }, &[apart])
}

/// Keys or values; several heads of queries may read one head of them.
fn repeat_heads(
    to: &mut GraphTranslation,
    call: &NodeCall,
    (what, of): (&str, Feature),
    count: usize,
) -> Result<Feature, NodeMisfit> {
    let &[own, tokens, features] = to.builder.shape(of.id).dims() else { return Err(NodeMisfit::Unsupported) };
    if own == count {
        return Ok(of);
    }
    if own == 0 || !count.is_multiple_of(own) {
        return Err(NodeMisfit::Wrong(format!("has {count} heads of queries for {own} of {what}")));
    }
    let grouped =
        step(to, call, &format!("{what}_grouped"), Op::Reshape(Shape::new([own, 1, tokens, features])), &[of])?;
    let shape = Shape::new([own, count / own, tokens, features]);
    let copied = step(to, call, &format!("{what}_copied"), Op::Expand(shape), &[grouped])?;
    let shape = Shape::new([count, tokens, features]);
    let repeated = step(to, call, &format!("{what}_repeated"), Op::Reshape(shape), &[copied])?;
    // What the operator repeats, PyTorch reads where it lies.
    to.builder.set_runs(repeated.id, PytorchRun::View);
    Ok(repeated)
}

/// One operation, unless a hyperbolic tangent limits the scores, which PyTorch's own does not have. A mask stored in the file is
/// no operand, like any constant; the cost of a causal mask is negligible.
fn product(
    to: &mut GraphTranslation,
    call: &NodeCall,
    name: &str,
    inputs: [Feature; 3],
) -> Result<Feature, NodeMisfit> {
    let added = call.feature(3).ok().filter(|added| to.dims(*added).len() == 4);
    if call.float("softcap").unwrap_or(0.0) == 0.0 {
        let inputs: Vec<Feature> = inputs.into_iter().chain(added).collect();
        return to.add_like(name, Op::Attention, &inputs);
    }
    let [queries, keys, values] = inputs;
    let turned = step(to, call, "turned", Op::Transpose { order: vec![0, 2, 1] }, &[keys])?;
    let scores = step(to, call, "scores", Op::MatMul, &[queries, turned])?;
    let small = step(to, call, "cap", Op::Binary(BinaryFunction::Div), &[scores])?;
    let curved = step(to, call, "tanh", Op::Activation(Activation::Tanh), &[small])?;
    let mut scores = step(to, call, "capped", Op::Binary(BinaryFunction::Mul), &[curved])?;
    if let Some(added) = added {
        scores = step(to, call, "masked", Op::Binary(BinaryFunction::Add), &[scores, added])?;
    }
    let weights = step(to, call, "softmax", Op::Softmax { axis: 2 }, &[scores])?;
    to.add_like(name, Op::MatMul, &[weights, values])
}
