//! Operations that do not depend on the network's input: views of weights, tables, random numbers.

use super::unknown;
use crate::batch::{BatchAxis, shape};
use crate::call::{CallResult, NodeCall, NodeMisfit, axis};
use crate::number::{BatchNumber, TensorDims, numbers, product};
use crate::schema::tensor_proto::DataType;
use crate::tensor::{KnownTensor, is_float};
use crate::translate::{GraphTranslation, own_name, single, stem};
use crate::value::{Feature, FixedTensor, HeldTensor, RandomTensor, Value, WeightTensor, elements};
use crate::{infer, notes, rearrange};
use perf4sight_network::{ComputedWeight, MAX_ELEMENTS, Shape};
use std::rc::Rc;

pub(super) fn translate(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let operator = call.node.op_type();
    if operator.starts_with("Random") || operator == "Bernoulli" {
        return super::elementwise::random(to, call);
    }
    if let Some(random) = call.inputs.iter().find_map(|input| randomness(call, input)) {
        return Ok(vec![random]);
    }
    if let Some(looked_up) = super::embedding::fixed(to, call) {
        return looked_up;
    }
    if let Some(call) = read_by_samples(to, call)? {
        return super::dispatch(to, &call);
    }
    match call.inputs.as_slice() {
        [Value::Weight(weight), ..] if ends_gradient(call) && operator == "Cast" => {
            let of = weight.as_held().map(|held| HeldTensor { is_seen: false, ..held });
            Ok(vec![Value::Opaque(FixedTensor { dims: weight.dims.clone(), of })])
        }
        [same, ..] if matches!(operator, "Identity" | "Cast" | "CastLike" | "Dropout") => Ok(vec![same.clone()]),
        [fixed] if operator == "Shape" => match fixed.fixed_dims() {
            Some(dims) => super::shapes::shape_constant(call, &dims),
            None => Err(NodeMisfit::Unsupported),
        },
        [Value::Weight(weight), ..] if operator == "SplitToSequence" => in_parts(call, weight),
        [Value::Weight(WeightTensor { dims, .. }) | Value::Opaque(FixedTensor { dims, .. }), _]
            if operator == "Expand" =>
        {
            expand(to, call, dims)
        }
        // The mask of windows in Swin, of which every sample has its own.
        [Value::Constant(mask), _] if operator == "Expand" && !mask.integer => expand(to, call, &numbers(&mask.dims)),
        [Value::Weight(WeightTensor { dims, .. }) | Value::Opaque(FixedTensor { dims, .. }), _]
            if operator == "Tile" =>
        {
            tile(to, call, dims)
        }
        _ => derived_value(to, call),
    }
}

/// A call on weights and on tables as long as the open batch, such as the zeros that a decoder begins with. Each sample has its
/// own part of these tables, and so of the result. Tables of positions and shapes are different.
fn read_by_samples<'c>(to: &mut GraphTranslation, call: &NodeCall<'c>) -> Result<Option<NodeCall<'c>>, NodeMisfit> {
    let computes = matches!(call.node.op_type(), "MatMul" | "Gemm" | "Conv" | "Add" | "Sub" | "Mul" | "Div");
    let is_trained = call.inputs.iter().any(|input| matches!(input, Value::Weight(_)));
    if !computes || !is_trained || to.samples != BatchNumber::BATCH {
        return Ok(None);
    }
    let mut inputs = call.inputs.clone();
    for input in &mut inputs {
        let Value::Opaque(FixedTensor { dims, of }) = input else { continue };
        let Some(axis) = dims.iter().position(|&dim| dim == to.samples) else { continue };
        dims.remove(axis);
        let shape = shape(dims)?;
        let name = format!("{}_table", own_name(call));
        *input = Value::Feature(table_of_samples(to, &name, (shape, BatchAxis::alone_at(axis)), of.as_ref())?);
    }
    let any = inputs.iter().any(|input| matches!(input, Value::Feature(_)));
    Ok(any.then_some(NodeCall { node: call.node, inputs }))
}

fn in_parts(call: &NodeCall, weight: &WeightTensor) -> CallResult {
    let axis = axis(call.int("axis").unwrap_or(0), weight.dims.len())?;
    let whole = weight.dims[axis].as_integer().ok_or(NodeMisfit::Unsupported)?;
    let lengths = super::movement::lengths(call, whole)?;
    if lengths.iter().sum::<usize>() != whole {
        return Err(NodeMisfit::Wrong(format!("cuts an axis of {whole} into parts of {lengths:?}")));
    }
    let part = |length: usize| {
        let mut dims = weight.dims.clone();
        dims[axis] = length.into();
        weight.seen_as(dims)
    };
    Ok(vec![Value::Sequence(lengths.into_iter().map(part).collect())])
}

/// A value computed from weights and tables only: it is the same for every sample, and changes between steps only by training.
fn derived_value(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let Some(shapes) = output_shapes(to, call) else { return unknown::load(to, call).map_err(NodeMisfit::Wrong) };
    let weights: Vec<&WeightTensor> = trained_inputs(call).filter(|_| !ends_gradient(call)).collect();
    // The indices of a lookup, such as the distances between the positions of a window, are tables too.
    if !weights.is_empty() {
        to.hold_tables(call);
    }
    let partial = matches!(
        call.node.op_type(),
        "Slice" | "Split" | "Reshape" | "Squeeze" | "Unsqueeze" | "Flatten" | "Transpose"
    );
    let value = |dims: TensorDims| match weights.as_slice() {
        [weight] if turns(call, &dims) => weight.transposed(),
        [weight] if partial || keeps_elements(call.node.op_type()) => weight.seen_as(dims),
        weights => WeightTensor::computed_from(weights, dims.clone()).unwrap_or_else(|| {
            Value::Opaque(FixedTensor {
                dims,
                of: only_held_tensor(call).map(|held| HeldTensor { is_seen: held.is_seen && partial, ..held }),
            })
        }),
    };
    let makes = !partial && !matches!(call.node.op_type(), "Expand" | "Gather");
    let value = |dims: TensorDims| match value(dims) {
        Value::Weight(weight) => {
            let made = if makes { Some(computing(call, weight.made)) } else { weight.made };
            Value::Weight(WeightTensor { made, ..with_bias(to, call, weight) })
        }
        other => other,
    };
    Ok(shapes.into_iter().map(value).collect())
}

/// How a weight is computed by this call too. Of the nodes that the default exporter notes to be one operator the last makes its result.
fn computing(call: &NodeCall, before: Option<ComputedWeight>) -> ComputedWeight {
    let ComputedWeight { tensors, divides } = before.unwrap_or_default();
    let is_result = notes::name(call.node).is_none_or(|name| call.node.output.iter().any(|output| output == name));
    let divides = divides || call.node.op_type() == "Div" && matches!(call.input(1), Value::Weight(_));
    ComputedWeight { tensors: (tensors + u64::from(is_result)).max(1), divides }
}

/// The only untrained tensor of a module that a call computes from.
fn only_held_tensor(call: &NodeCall) -> Option<HeldTensor> {
    let mut held = call.inputs.iter().filter_map(|input| match input {
        Value::Weight(weight) => weight.as_held(),
        Value::Opaque(table) => table.of.clone(),
        _ => None,
    });
    held.next().filter(|_| held.next().is_none())
}

/// The result of a layer on weights and tables, with the bias of zeros that an exporter left out.
fn with_bias(to: &GraphTranslation, call: &NodeCall, weight: WeightTensor) -> WeightTensor {
    let layer = match (call.node.op_type(), call.input(1)) {
        ("Conv", Value::Weight(filters)) if call.is_absent(2) => filters,
        _ => return weight,
    };
    if to.exporter.has_bias(call.node, &layer.tensor) != Some(true) {
        return weight;
    }
    let name: Rc<str> = format!("{}.bias", stem(&layer.tensor).unwrap_or(&layer.tensor)).into();
    let bias = (name, layer.dims.first().map_or(0, |&filters| elements(&[filters])));
    WeightTensor { computed: true, others: weight.others.iter().cloned().chain([bias]).collect(), ..weight }
}

/// The trainable inputs. If an exporter created one of several, that one is a folded constant.
fn trained_inputs<'c>(call: &'c NodeCall) -> impl Iterator<Item = &'c WeightTensor> {
    let weights = || {
        call.inputs.iter().filter_map(|input| match input {
            Value::Weight(weight) => Some(weight),
            _ => None,
        })
    };
    let named = weights().any(|weight| !weight.is_made_up());
    weights().filter(move |weight| !named || !weight.is_made_up())
}

/// Whether an operation ends the gradient. A tensor read only by such operations is no parameter but a mask, which PyTorch keeps
/// as a buffer.
fn ends_gradient(call: &NodeCall) -> bool {
    match call.node.op_type() {
        "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" | "Not" | "And" | "Or" | "Xor" | "IsNaN"
        | "IsInf" | "ArgMax" | "ArgMin" | "NonZero" => true,
        "Cast" => {
            let kind = call.int("to").and_then(|kind| DataType::try_from(kind as i32).ok());
            kind.is_some_and(|kind| !is_float(kind))
        }
        _ => false,
    }
}

fn turns(call: &NodeCall, dims: &[BatchNumber]) -> bool {
    call.node.op_type() == "Transpose" && rearrange::order(call, dims.len()).is_ok_and(|order| order == [1, 0])
}

fn keeps_elements(operator: &str) -> bool {
    const KEEP: &str = "Add Sub Mul Div Pow Sqrt Exp Log Abs Neg Sigmoid Tanh DequantizeLinear QuantizeLinear";
    KEEP.split(' ').any(|known| known == operator)
}

fn output_shapes(to: &GraphTranslation, call: &NodeCall) -> Option<Vec<TensorDims>> {
    let inputs: Vec<_> = call.inputs.iter().map(Value::fixed_dims).collect();
    let declared = || call.node.output.iter().map(|output| to.values.declared_dims(output, to.samples)).collect();
    // Tables with a part for every sample of a symbolic batch are not stored in memory.
    let is_larger = |dims: &TensorDims| product(dims) > to.samples * MAX_ELEMENTS;
    infer::outputs(call, &inputs).or_else(declared).filter(|shapes| !shapes.iter().any(is_larger))
}

/// The result of arithmetic on random numbers: the share that a comparison keeps, or `floor(share + uniform)`.
fn randomness(call: &NodeCall, input: &Value) -> Option<Value> {
    let Value::Random(RandomTensor { keep, drawn }) = *input else { return None };
    let number = || call.inputs.iter().find_map(|input| input.as_constant().and_then(KnownTensor::uniform));
    let keep = match call.node.op_type() {
        "Less" | "LessOrEqual" => number().or(keep),
        "Greater" | "GreaterOrEqual" => number().map(|bound| 1.0 - bound).or(keep),
        "Add" => number().or(keep),
        _ => keep,
    };
    Some(Value::Random(RandomTensor { keep, drawn }))
}

/// A copy of a tensor for every sample, such as a class token or learned queries; other copies are computed like any operation.
fn expand(to: &mut GraphTranslation, call: &NodeCall, own: &[BatchNumber]) -> CallResult {
    let Some(target) = call.input(1).as_constant().map(|target| &target.values) else { return derived_value(to, call) };
    let ones = target.len().saturating_sub(own.len());
    let mut own: TensorDims = std::iter::repeat_n(1.into(), ones).chain(own.iter().copied()).collect();
    let is_batch = |axis: usize| own.len() == target.len() && own[axis] == 1 && target[axis] == to.samples;
    let Some(axis) = place_of_batch(to, target.len(), is_batch) else { return derived_value(to, call) };
    own.remove(axis);
    let others = target.iter().enumerate().filter(|(other, _)| *other != axis);
    let wanted: TensorDims = others.map(|(_, &dim)| dim).collect();
    let dims = infer::broadcast(&own, &wanted).ok_or(NodeMisfit::Unsupported)?;
    single(of_samples(to, call, shape(&dims)?, BatchAxis::alone_at(axis))?)
}

/// Repeats a tensor for every sample, also along its first axis, as for the heads of positions in DeBERTa.
fn tile(to: &mut GraphTranslation, call: &NodeCall, own: &[BatchNumber]) -> CallResult {
    let Some(repeats) = call.input(1).as_constant().map(|repeats| &repeats.values) else {
        return derived_value(to, call);
    };
    let once = |axis: usize| (0..repeats.len()).all(|other| other == axis || repeats[other] == 1);
    // If the file's batch is a single sample, a copy for every sample repeats nothing.
    let is_batch = |axis: usize| {
        to.samples > 1
            && repeats[axis] == to.samples
            && once(axis)
            && (axis == 0 || own.get(axis).is_some_and(|&dim| dim == 1))
    };
    let place = place_of_batch(to, repeats.len(), is_batch).filter(|_| own.len() == repeats.len());
    let Some(axis) = place else { return derived_value(to, call) };
    let own = shape(own)?;
    let once = match own.dims()[axis] {
        1 => {
            let sample = Shape::new([&own.dims()[..axis], &own.dims()[axis + 1..]].concat());
            of_samples(to, call, sample, BatchAxis::alone_at(axis))?
        }
        times => of_samples(to, call, own, BatchAxis::holding(axis, times, None))?,
    };
    single(super::contiguous::add_copy(to, own_name(call), once)?)
}

/// The first axis that may be the batch, where its length cannot be a coincidence: the first axis of all, or an open one.
pub(super) fn place_of_batch(to: &GraphTranslation, rank: usize, is_batch: impl Fn(usize) -> bool) -> Option<usize> {
    (0..rank).find(|&axis| is_batch(axis)).filter(|&axis| axis == 0 || to.samples == BatchNumber::BATCH)
}

fn of_samples(
    to: &mut GraphTranslation,
    call: &NodeCall,
    shape: Shape,
    batch: BatchAxis,
) -> Result<Feature, NodeMisfit> {
    match call.input(0) {
        Value::Weight(weight) => {
            Ok(Feature { id: to.parameter_node(call, weight, shape)?, batch: Some(batch), guessed: false })
        }
        Value::Opaque(table) => table_of_samples(to, own_name(call), (shape, batch), table.of.as_ref()),
        _ => table_of_samples(to, own_name(call), (shape, batch), None),
    }
}

fn table_of_samples(
    to: &mut GraphTranslation,
    name: &str,
    (shape, batch): (Shape, BatchAxis),
    of: Option<&HeldTensor>,
) -> Result<Feature, NodeMisfit> {
    Ok(Feature { id: to.table(name, shape, of)?, batch: Some(batch), guessed: false })
}
