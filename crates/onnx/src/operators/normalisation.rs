//! Normalisations, also those written as several operators, and softmax.

use crate::batch::{BatchAxis, shape};
use crate::call::{CallResult, NodeCall, NodeMisfit};
use crate::notes::reads_parameter;
use crate::pending_pattern::PendingPattern;
use crate::translate::{GraphTranslation, own_name, single};
use crate::value::{Feature, Value, elements};
use perf4sight_network::{
    Activation, Affine, BinaryFunction, KeptReading, NodeId, Op, PytorchRun, ReductionKind, Shape,
};

#[cfg(test)]
mod tests;

/// The operator set since which exporters write a layer normalisation as one operator: several are steps of the program from then on.
const LAYER_NORMALISATION: i64 = 17;

/// Reads the training and the inference form: further outputs are running statistics. The batch may share its axis with others,
/// as for all tokens of all samples.
pub(super) fn batch(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let scale = call.input(1).fixed_dims().ok_or(NodeMisfit::Unsupported)?;
    if input.batch.is_none_or(|batch| batch.axis != 0) {
        return Err(NodeMisfit::Unsupported);
    }
    let axis = to.axis(input, 1)?;
    let channels = to.builder.shape(input.id).dims()[axis];
    if scale != [channels] {
        return Err(NodeMisfit::Wrong(format!("normalises {channels} channels with a scale of shape {scale:?}")));
    }
    let node = to.add_like(&to.name(call), Op::BatchNorm { axis }, &[input])?;
    to.count(node.id, call, &[call.input(1), call.input(2)]);
    to.tie_weight(node.id, call, 1);
    single(node)
}

/// A layer, followed by the batch normalisation of its channels on `axis` that the exporter folded into it, if its notes name it.
pub(super) fn restore_batch_norm(
    to: &mut GraphTranslation,
    call: &NodeCall,
    layer: Feature,
    axis: usize,
) -> Result<Feature, NodeMisfit> {
    let Some(folded) = to.exporter.folded_batch_norm(call.node).filter(|_| axis < 2) else { return Ok(layer) };
    let channels = to.builder.shape(layer.id).dims()[axis] as u64;
    let name = folded.name.map_or_else(|| format!("{}_norm", own_name(call)), str::to_string);
    let node = to.add_like(&name, Op::BatchNorm { axis }, &[layer])?;
    to.builder.set_trained(node.id, folded.tensors * channels);
    to.noticed.restored += 1;
    Ok(node)
}

pub(super) fn layer(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let axis = to.axis(input, call.int("axis").unwrap_or(-1))?;
    let scale = call.input(1).fixed_dims().ok_or(NodeMisfit::Unsupported)?;
    let dims = &to.builder.shape(input.id).dims()[axis..];
    if scale != dims {
        return Err(NodeMisfit::Wrong(format!("normalises {dims:?} with a scale of shape {scale:?}")));
    }
    if input.batch.is_some_and(|batch| batch.axis > axis) {
        return Err(NodeMisfit::Unsupported);
    }
    let affine = affine(call)?;
    let node = to.add_like(&to.name(call), Op::LayerNorm { axis, affine }, &[input])?;
    to.count(
        node.id,
        call,
        &[call.input(1), call.input(2)].map(|value| if is_trained(call, value) { value } else { &Value::Absent }),
    );
    if affine != Affine::None {
        to.tie_weight(node.id, call, 1);
    }
    single(node)
}

/// Whether scale and shift, inputs 1 and 2, are trained.
fn affine(call: &NodeCall) -> Result<Affine, NodeMisfit> {
    match [1, 2].map(|place| is_trained(call, call.input(place))) {
        [true, true] => Ok(Affine::ScaleAndShift),
        [true, false] => Ok(Affine::Scale),
        [false, false] => Ok(Affine::None),
        [false, true] => Err(NodeMisfit::Unsupported),
    }
}

/// Whether a scale or shift is a parameter; ONNX requires a scale, so exporters add one of ones.
fn is_trained(call: &NodeCall, value: &Value) -> bool {
    // For a group normalisation, the exporter notes the parameters that follow its own ones and zeros.
    let noted = reads_parameter(call.node) && call.node.op_type() != "InstanceNormalization";
    matches!(value, Value::Weight(weight) if !weight.is_made_up() || noted)
}

/// An ONNX normalisation of each channel is a group normalisation in PyTorch if the channels are groups, reshaped.
pub(super) fn instance(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = of_images(to, call)?;
    let groups = to.builder.shape(input.id).channels();
    let node = begin_group_norm(to, call, input, groups)?;
    to.builder.set_runs(node.id, PytorchRun::InstanceNorm);
    let view = to.builder.node(input.id);
    if let (Op::Reshape(_) | Op::Flatten, &[whole]) = (&view.op, view.inputs.as_slice())
        && to.builder.shape(whole).channels().is_multiple_of(groups)
        && affine(call)? == Affine::None
    {
        to.pending.insert(node.id, PendingPattern::Grouped(Feature { id: whole, ..input }, groups));
    }
    single(node)
}

/// RMS normalisation, which PyTorch computes in several steps on processors (rms_norm_composite in layer_norm.cpp).
pub(super) fn root_mean_square(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let axis = to.axis(input, call.int("axis").unwrap_or(-1))?;
    let axes: Vec<usize> = (axis..to.builder.shape(input.id).rank()).collect();
    let name = own_name(call);
    let mut last = input;
    let steps = [
        ("square", Op::Binary(BinaryFunction::Pow)),
        ("mean", Op::Reduce { reduction: ReductionKind::Mean, axes, keep: true }),
        ("safe", Op::Binary(BinaryFunction::Add)),
        ("root", Op::Activation(Activation::Sqrt)),
        ("inverse", Op::Activation(Activation::Reciprocal)),
    ];
    for (what, op) in steps {
        last = to.add_like(&format!("{name}_{what}"), op, &[last])?;
    }
    let normal = to.add_like(name, Op::Binary(BinaryFunction::Mul), &[input, last])?;
    let Value::Weight(scale) = call.input(1) else { return single(normal) };
    let rank = to.builder.shape(input.id).rank();
    let ones = std::iter::repeat_n(1.into(), rank.saturating_sub(scale.dims.len()));
    let dims: Vec<_> = ones.chain(scale.dims.iter().copied()).collect();
    let scale = Feature { id: to.parameter_node(call, scale, shape(&dims)?)?, batch: None, guessed: false };
    single(to.add_like(&format!("{name}_scaled"), Op::Binary(BinaryFunction::Mul), &[normal, scale])?)
}

pub(super) fn group(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = of_images(to, call)?;
    let groups = super::convolution::size(call.int("num_groups").unwrap_or(1))?;
    single(begin_group_norm(to, call, input, groups)?)
}

/// The input, if its channels follow the batch.
fn of_images(to: &GraphTranslation, call: &NodeCall) -> Result<Feature, NodeMisfit> {
    let input = call.feature(0)?;
    match input.batch == Some(BatchAxis::FIRST) && to.builder.shape(input.id).rank() > 0 {
        true => Ok(input),
        false => Err(NodeMisfit::Unsupported),
    }
}

fn begin_group_norm(
    to: &mut GraphTranslation,
    call: &NodeCall,
    input: Feature,
    groups: usize,
) -> Result<Feature, NodeMisfit> {
    let channels = to.builder.shape(input.id).channels();
    let affine = affine(call)?;
    // The first form of the operator scales groups instead of channels.
    if affine != Affine::None && !matches!(call.fixed(1), Ok([scaled]) if scaled == channels) {
        return Err(NodeMisfit::Unsupported);
    }
    let node = to.add_like(&to.name(call), Op::GroupNorm { groups, affine }, &[input])?;
    if affine != Affine::None {
        to.count(node.id, call, &[call.input(1), call.input(2)]);
        to.tie_weight(node.id, call, 1);
    }
    Ok(node)
}

/// The group normalisation that ends with a reshape back to all channels.
pub(super) fn end_group_norm(
    to: &mut GraphTranslation,
    call: &NodeCall,
    view: Feature,
    sample: &Shape,
) -> Result<Option<Feature>, NodeMisfit> {
    let Some(&PendingPattern::Grouped(whole, groups)) = to.pending.get(&view.id) else { return Ok(None) };
    if to.builder.shape(whole.id) != sample {
        return Ok(None);
    }
    to.add_like(own_name(call), Op::GroupNorm { groups, affine: Affine::None }, &[whole]).map(Some)
}

/// Whether this call is the scale or shift that exporters write after a group normalisation, and no other node reads that.
pub(super) fn join_scale_or_shift(
    to: &mut GraphTranslation,
    call: &NodeCall,
    input: Feature,
    binary: BinaryFunction,
) -> bool {
    let node = to.builder.node(input.id);
    let (channels, rank) = (node.shape.channels(), node.shape.rank());
    // The scale of an instance normalisation is its operator's.
    let Op::GroupNorm { groups, affine } = node.op.clone() else { return false };
    if node.runs == PytorchRun::InstanceNorm {
        return false;
    }
    let next = match affine {
        Affine::None if binary == BinaryFunction::Mul => Affine::Scale,
        Affine::Scale if binary == BinaryFunction::Add => Affine::ScaleAndShift,
        Affine::None | Affine::Scale | Affine::ScaleAndShift => return false,
    };
    let Some(place) = call.inputs.iter().position(|value| matches!(value, Value::Weight(_))) else { return false };
    let dims = call.input(place).fixed_dims().unwrap_or_default();
    // The channels are in front of all other axes of a sample.
    let of_channels = elements(&dims) == channels as u64 && dims.len() >= rank && dims[dims.len() - rank] == channels;
    let read =
        call.node.input.iter().enumerate().find(|(other, _)| *other != place).map_or("", |(_, name)| name.as_str());
    if !of_channels || !to.values.is_read_once(read) {
        return false;
    }
    let trained = to.builder.node(input.id).trained.unwrap_or(0) + to.trained_elements(call, call.input(place));
    let name = if next == Affine::Scale { to.name(call) } else { to.builder.node(input.id).name.clone() };
    to.builder.replace(input.id, Op::GroupNorm { groups, affine: next }, &name);
    to.builder.set_trained(input.id, trained);
    if next == Affine::ScaleAndShift {
        to.tie_weight(input.id, call, place);
    }
    true
}

pub(super) fn softmax(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let default = if to.opset < 13 { 1 } else { -1 };
    let axis = to.axis(input, call.int("axis").unwrap_or(default))?;
    single(to.add_like(own_name(call), Op::Softmax { axis }, &[input])?)
}

/// Records the scaling of a layer normalisation that is written as several operators.
pub(super) fn record_scale(to: &mut GraphTranslation, input: Feature, result: Feature, binary: BinaryFunction) {
    if binary == BinaryFunction::Mul
        && to.opset < LAYER_NORMALISATION
        && let Some((input, axis)) = normalised_source(to, input)
    {
        to.pending.insert(result.id, PendingPattern::Normalised(input, axis));
    }
}

/// The layer normalisation that ends with this call, its shift.
pub(super) fn end_layer_norm(
    to: &mut GraphTranslation,
    call: &NodeCall,
    input: Feature,
    binary: BinaryFunction,
) -> Result<Option<Feature>, NodeMisfit> {
    let pending = to.pending.get(&input.id).filter(|_| binary == BinaryFunction::Add);
    let Some(&PendingPattern::Normalised(input, axis)) = pending else { return Ok(None) };
    let weights = call.inputs.iter().filter_map(Value::fixed_dims).map(|dims| elements(&dims));
    let normal = elements(&to.builder.shape(input.id).dims()[axis..]);
    if !to.ours {
        *to.noticed.in_steps.entry("layer-norm").or_default() += 1;
    }
    let is_whole = weights.fold(0, u64::saturating_add) == normal;
    match is_whole && (to.ours || to.keeping != KeptReading::Most) {
        true => to.add_like(&to.name(call), Op::LayerNorm { axis, affine: Affine::ScaleAndShift }, &[input]).map(Some),
        false => Ok(None),
    }
}

/// `(x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon)` over the last axes, as exporters write it below opset 17.
fn normalised_source(to: &GraphTranslation, result: Feature) -> Option<(Feature, usize)> {
    let [centred, deviation] = operands(to, result.id, &Op::Binary(BinaryFunction::Div))?;
    let variance = step(to, step(to, deviation, "sqrt")?, "add")?;
    let square = step(to, variance, "mean")?;
    let squared = match to.builder.node(square).inputs.as_slice() {
        [base] => *base,
        [a, b] if a == b => *a,
        _ => return None,
    };
    let [input, mean] = operands(to, centred, &Op::Binary(BinaryFunction::Sub))?;
    let Op::Reduce { reduction: ReductionKind::Mean, axes, keep: true } = &to.builder.node(mean).op else {
        return None;
    };
    let axis = *axes.iter().min()?;
    let last_axes = axes.len() == to.builder.shape(input).rank() - axis;
    let same = squared == centred && to.builder.node(mean).inputs == [input] && last_axes;
    same.then_some((Feature { id: input, ..result }, axis))
}

fn operands(to: &GraphTranslation, node: NodeId, op: &Op) -> Option<[NodeId; 2]> {
    let node = to.builder.node(node);
    (node.op == *op).then(|| node.inputs.as_slice().try_into().ok()).flatten()
}

pub(super) fn step(to: &GraphTranslation, node: NodeId, kind: &str) -> Option<NodeId> {
    let node = to.builder.node(node);
    match node.inputs.as_slice() {
        [input] if node.op.kind().eq_ignore_ascii_case(kind) => Some(*input),
        _ => None,
    }
}
