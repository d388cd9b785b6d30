//! Batch and layer normalisation, the latter also as older opsets spell it out, and softmax.

use crate::network::onnx::batch::Batch;
use crate::network::onnx::call::{Call, Misfit, Outcome};
use crate::network::onnx::translate::{Translation, own_name, single};
use crate::network::onnx::value::{Feature, Value, elements};
use crate::network::{Binary, NodeId, Op};

/// Training and inference form alike: outputs beyond the first are running statistics.
pub(super) fn batch(to: &mut Translation, call: &Call) -> Outcome {
    let input = call.feature(0)?;
    let scale = call.input(1).fixed_dims().ok_or(Misfit::Unsupported)?;
    if input.batch != Some(Batch::FIRST) {
        return Err(Misfit::Unsupported);
    }
    let channels = to.builder.shape(input.id).channels();
    if scale != [channels] {
        return Err(Misfit::Wrong(format!("normalises {channels} channels with a scale of shape {scale:?}")));
    }
    let node = to.add_like(&to.name(call), Op::BatchNorm, &[input])?;
    to.count(node.id, &[call.input(1), call.input(2)]);
    single(node)
}

pub(super) fn layer(to: &mut Translation, call: &Call) -> Outcome {
    let input = call.feature(0)?;
    let axis = to.axis(input, call.int("axis").unwrap_or(-1))?;
    let scale = call.input(1).fixed_dims().ok_or(Misfit::Unsupported)?;
    let dims = &to.builder.shape(input.id).dims()[axis..];
    let shift = call.input(2).fixed_dims();
    if scale != dims {
        return Err(Misfit::Wrong(format!("normalises {dims:?} with a scale of shape {scale:?}")));
    }
    // Without a shift it has half the parameters of the operation we know.
    if shift != Some(scale) || input.batch.is_some_and(|batch| batch.axis > axis) {
        return Err(Misfit::Unsupported);
    }
    let node = to.add_like(&to.name(call), Op::LayerNorm { axis }, &[input])?;
    to.count(node.id, &[call.input(1), call.input(2)]);
    single(node)
}

pub(super) fn softmax(to: &mut Translation, call: &Call) -> Outcome {
    let input = call.feature(0)?;
    let default = if call.opset < 13 { 1 } else { -1 };
    let axis = to.axis(input, call.int("axis").unwrap_or(default))?;
    single(to.add_like(own_name(call), Op::Softmax { axis }, &[input])?)
}

/// What was normalised over which axes, before scale and shift.
#[derive(Clone, Copy)]
pub(in crate::network::onnx) struct Normalised {
    input: Feature,
    axis: usize,
}

/// Remembers the scaling of a layer normalisation that is spelled out.
pub(super) fn scaled(to: &mut Translation, input: Feature, result: Feature, binary: Binary) {
    if binary == Binary::Mul
        && let Some(normalised) = normalised(to, input)
    {
        to.normalised.insert(result.id, normalised);
    }
}

/// The layer normalisation whose last step, the shift, this call is.
pub(super) fn shifted(
    to: &mut Translation,
    call: &Call,
    input: Feature,
    binary: Binary,
) -> Result<Option<Feature>, Misfit> {
    let Some(Normalised { input, axis }) = to.normalised.get(&input.id).copied().filter(|_| binary == Binary::Add)
    else {
        return Ok(None);
    };
    let weights = call.inputs.iter().filter_map(Value::fixed_dims).map(elements);
    let normal = elements(&to.builder.shape(input.id).dims()[axis..]);
    match weights.fold(0, u64::saturating_add) == normal {
        true => to.add_like(&to.name(call), Op::LayerNorm { axis }, &[input]).map(Some),
        false => Ok(None),
    }
}

/// `(x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon)` over the last axes, as exporters write it below opset 17.
fn normalised(to: &Translation, result: Feature) -> Option<Normalised> {
    let [centred, deviation] = operands(to, result.id, &Op::Binary(Binary::Div))?;
    let variance = step(to, step(to, deviation, "sqrt")?, "add")?;
    let square = step(to, variance, "mean")?;
    let squared = match to.builder.node(square).inputs.as_slice() {
        [base] => *base,
        [a, b] if a == b => *a,
        _ => return None,
    };
    let [input, mean] = operands(to, centred, &Op::Binary(Binary::Sub))?;
    let Op::Mean { axes, keep: true } = &to.builder.node(mean).op else { return None };
    let axis = *axes.iter().min()?;
    let last_axes = axes.len() == to.builder.shape(input).rank() - axis;
    let same = squared == centred && to.builder.node(mean).inputs == [input] && last_axes;
    same.then_some(Normalised { input: Feature { id: input, ..result }, axis })
}

fn operands(to: &Translation, node: NodeId, op: &Op) -> Option<[NodeId; 2]> {
    let node = to.builder.node(node);
    (node.op == *op).then(|| node.inputs.as_slice().try_into().ok()).flatten()
}

/// The one input of a node of that kind.
fn step(to: &Translation, node: NodeId, kind: &str) -> Option<NodeId> {
    let node = to.builder.node(node);
    match node.inputs.as_slice() {
        [input] if node.op.kind().eq_ignore_ascii_case(kind) => Some(*input),
        _ => None,
    }
}
