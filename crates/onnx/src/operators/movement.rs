//! Concatenating, cutting and reordering features.

use super::contiguous;
use crate::align::align_inputs;
use crate::batch::{BatchAxis, shape};
use crate::call::{CallResult, NodeCall, NodeMisfit, axis as counted};
use crate::notes;
use crate::number::{BatchNumber, as_integers, product};
use crate::rearrange;
use crate::tensor::KnownTensor;
use crate::translate::{GraphTranslation, constant_value, own_name, single};
use crate::value::{Feature, Value};
use crate::warning::UnsureReason;
use perf4sight_network::{KeptReading, Node, NodeId, Op, PickedElements, PytorchRun, Shape};

/// `Tensor.unfold`, a view, which the default exporter writes as a lookup.
const WINDOWS: &str = "torch.ops.aten.unfold.default";

pub(super) fn concat(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let axis = call.int("axis").ok_or_else(|| NodeMisfit::Wrong("has no axis".into()))?;
    // Empty operands, such as the class token of a network without one, add nothing.
    let inputs = call.inputs.iter().filter(|input| !input.is_nothing()).cloned().collect();
    let call = &NodeCall { node: call.node, inputs };
    if let [Value::Feature(only)] = call.inputs.as_slice() {
        return single(*only);
    }
    let inputs = align_inputs(to, call)?;
    let axis = to.axis(inputs[0], axis)?;
    if !to.ours && is_turned_around(to, &inputs, axis) {
        to.join_parts(call, &inputs);
    }
    single(to.add_like(own_name(call), Op::Concat { axis }, &inputs)?)
}

/// Whether the parts of a tensor are joined in another order than they have in it: `roll`, or `cat` of parts of `chunk`.
fn is_turned_around(to: &GraphTranslation, inputs: &[Feature], along: usize) -> bool {
    let part = |input: &Feature| match to.builder.node(input.id) {
        Node { op: Op::Slice { axis, start, length }, inputs, .. } if *axis == along => {
            Some((*start, *length, inputs[0]))
        }
        _ => None,
    };
    let Some(mut parts) = inputs.iter().map(part).collect::<Option<Vec<_>>>() else { return false };
    let is_in_order = parts.is_sorted();
    parts.sort_unstable();
    let joins = parts.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0 && pair[0].2 == pair[1].2);
    let of_all = parts
        .first()
        .zip(parts.last())
        .is_some_and(|(first, last)| first.0 == 0 && last.0 + last.1 == to.builder.shape(last.2).dims()[along]);
    parts.len() > 1 && !is_in_order && joins && of_all
}

/// Parts of a tensor as a sequence; SequenceAt takes one of them.
pub(super) fn split_to_sequence(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let axis = to.axis(input, call.int("axis").unwrap_or(0))?;
    let length = to.builder.shape(input.id).dims()[axis];
    let lengths = lengths(call, length)?;
    Ok(vec![Value::Sequence(parts(to, call, input, axis, &lengths)?.into())])
}

/// The lengths of the parts into which a sequence cuts an axis.
pub(super) fn lengths(call: &NodeCall, length: usize) -> Result<Vec<usize>, NodeMisfit> {
    // Without `keepdims`, the parts of a sequence lack the axis, which is another operation.
    let lengths = call.constant(1).filter(|_| call.int("keepdims").unwrap_or(1) != 0).ok_or(NodeMisfit::Unsupported)?;
    let every = lengths.dims.is_empty();
    let lengths: Vec<usize> =
        lengths.as_integers().into_iter().map(super::convolution::size).collect::<Result<_, _>>()?;
    Ok(match lengths.as_slice() {
        &[part] if every && part > 0 => {
            (0..length.div_ceil(part)).map(|index| part.min(length - index * part)).collect()
        }
        _ => lengths,
    })
}

pub(super) fn sequence_at(call: &NodeCall) -> CallResult {
    let (Value::Sequence(values), Some(place)) = (call.input(0), call.constant(1)) else {
        return Err(NodeMisfit::Unsupported);
    };
    let place = place.as_integers().first().map(|&place| if place < 0 { place + values.len() as i64 } else { place });
    let value = place.and_then(|place| values.get(usize::try_from(place).ok()?));
    value
        .map(|value| vec![value.clone()])
        .ok_or_else(|| NodeMisfit::Wrong("takes what its sequence does not hold".into()))
}

pub(super) fn slice(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let mut result = input;
    for cut in rearrange::cuts(call)? {
        let length = to.dims(result)[counted(cut.axis, to.dims(result).len())?];
        let (first, count) = rearrange::span(&cut, length).ok_or(NodeMisfit::Unsupported)?;
        if count == 0 {
            return constant_value(KnownTensor::empty());
        }
        if first != 0 || count != length || cut.step != 1 {
            let axis = to.axis(result, cut.axis)?;
            let [first, count] = [first, count].map(|number| number.as_integer().ok_or(NodeMisfit::Unsupported));
            result = take_run(to, call, result, SliceRun { axis, first: first?, count: count?, step: cut.step })?;
        }
    }
    single(result)
}

struct SliceRun {
    axis: usize,
    first: usize,
    count: usize,
    step: i64,
}

fn take_run(to: &mut GraphTranslation, call: &NodeCall, input: Feature, run: SliceRun) -> Result<Feature, NodeMisfit> {
    let SliceRun { axis, first, count, step } = run;
    if step < 0 {
        let back = step.unsigned_abs() as usize;
        let places = (0..count).map(|index| first - index * back).collect();
        return to.add_like(own_name(call), Op::Pick(PickedElements { axis, count, places }), &[input]);
    }
    let step = step as usize;
    let length = to.builder.shape(input.id).dims()[axis];
    let to_the_end = (length - first).div_ceil(step) == count;
    if step > 1 && to_the_end {
        return to.add_like(own_name(call), Op::Every { axis, start: first, step }, &[input]);
    }
    let run =
        to.add_like(own_name(call), Op::Slice { axis, start: first, length: (count - 1) * step + 1 }, &[input])?;
    if step == 1 { Ok(run) } else { to.add_like(own_name(call), Op::Every { axis, start: 0, step }, &[run]) }
}

pub(super) fn split_axis(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let axis = to.axis(input, call.int("axis").unwrap_or(0))?;
    let length = to.builder.shape(input.id).dims()[axis];
    let parts = call.node.output.len();
    let lengths = match call.integers("split", 1) {
        Some(lengths) => lengths.into_iter().map(super::convolution::size).collect::<Result<Vec<_>, _>>()?,
        // Equal parts, the last one smaller if they do not fit.
        None => {
            let part = length.div_ceil(parts.max(1));
            (0..parts).map(|i| part.min(length.saturating_sub(i.saturating_mul(part)))).collect()
        }
    };
    if lengths.len() != parts {
        return Err(NodeMisfit::Wrong(format!("splits an axis of {length} into {lengths:?} for {parts} outputs")));
    }
    self::parts(to, call, input, axis, &lengths)
}

fn parts(to: &mut GraphTranslation, call: &NodeCall, input: Feature, axis: usize, lengths: &[usize]) -> CallResult {
    let length = to.builder.shape(input.id).dims()[axis];
    if lengths.iter().fold(0usize, |sum, &part| sum.saturating_add(part)) != length {
        return Err(NodeMisfit::Wrong(format!("splits an axis of {length} into {lengths:?}")));
    }
    let mut start = 0;
    let mut outputs = Vec::new();
    for (part, &length) in lengths.iter().enumerate() {
        let name = format!("{}_{part}", own_name(call));
        let cut = to.add_like(&name, Op::Slice { axis, start, length }, &[input])?;
        if !to.ours {
            to.builder.set_runs(cut.id, PytorchRun::Part);
        }
        outputs.push(Value::Feature(cut));
        start += length;
    }
    Ok(outputs)
}

pub(super) fn gather(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    if let Value::Weight(table) = call.input(0) {
        return super::embedding::looked_up(to, call, table);
    }
    let input = call.feature(0)?;
    let onnx_axis = counted(call.int("axis").unwrap_or(0), to.dims(input).len())?;
    if let Value::Feature(found) = call.input(1) {
        let indices = to.dims(*found);
        let rows = rows_of_samples(to, input, onnx_axis, &indices).ok_or(NodeMisfit::Unsupported)?;
        return rows_picked(to, call, input, rows);
    }
    let indices = call.input(1).fixed_dims().ok_or(NodeMisfit::Unsupported)?;
    if of_strides(to, call, input, &indices) {
        return super::shapes::view(to, call, input, &indices);
    }
    if let Some(rows) = rows_of_samples(to, input, onnx_axis, &indices) {
        return rows_picked(to, call, input, rows);
    }
    // Of transformers' argument, whose default 0 keeps all, the older exporter makes an input, and of the slice a lookup of one token.
    if indices.is_empty() && call.node.input.get(1).is_some_and(|name| name.ends_with("logits_to_keep")) {
        to.noticed.unsure(UnsureReason::KeptLogits);
        if to.keeping != KeptReading::Least {
            return single(input);
        }
    }
    let axis = to.axis(input, onnx_axis as i64)?;
    let picked = pick_elements(to, call, input, axis)?;
    let mut dims = to.builder.shape(picked.id).dims().to_vec();
    dims.splice(axis..=axis, shape(&indices)?.dims().iter().copied());
    let shape = Shape::new(dims);
    let moved = |batch: usize| if onnx_axis < batch { batch + indices.len() - 1 } else { batch };
    let batch = picked.batch.map(|batch| batch.moved_to(moved(batch.axis)));
    if *to.builder.shape(picked.id) == shape {
        return single(Feature { batch, ..picked });
    }
    let seen = to.add_like(&format!("{}_picked", own_name(call)), Op::Reshape(shape), &[picked])?;
    single(Feature { batch, ..seen })
}

/// The positions of one sample, if samples follow each other along an axis and a lookup along it takes equally many of each.
/// PyTorch's users index a mask so, by the number of the sample and a position in it; CLIP so selects its end token.
fn rows_of_samples(to: &GraphTranslation, input: Feature, axis: usize, indices: &[BatchNumber]) -> Option<Vec<usize>> {
    input.batch.filter(|batch| !batch.is_alone() && [batch.axis, axis] == [0, 0])?;
    let (&samples, places) = indices.split_first()?;
    as_integers(places).filter(|_| samples == to.samples)
}

/// Takes equally many rows of every sample; their numbers are unknown.
fn rows_picked(to: &mut GraphTranslation, call: &NodeCall, input: Feature, places: Vec<usize>) -> CallResult {
    let shape = to.builder.shape(input.id).dims().to_vec();
    let count = places.iter().product();
    let picked = Op::Pick(PickedElements { axis: 0, count, places: vec![] });
    let rows = to.add_like(&format!("{}_rows", own_name(call)), picked, &[input])?;
    let shape = Shape::new([places.as_slice(), &shape[1..]].concat());
    let batch = Some(BatchAxis::FIRST);
    if *to.builder.shape(rows.id) == shape {
        return single(Feature { batch, ..rows });
    }
    let seen = to.add_like(own_name(call), Op::Reshape(shape), &[rows])?;
    single(Feature { batch, ..seen })
}

/// The form that PyTorch's default exporter writes for it: pairs of a sample and a position in it.
pub(super) fn gather_pairs(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let indices = match call.input(1) {
        Value::Feature(found) => to.dims(*found),
        other => other.fixed_dims().ok_or(NodeMisfit::Unsupported)?,
    };
    let first = input.batch == Some(BatchAxis::FIRST) && call.int("batch_dims").unwrap_or(0) == 0;
    match indices.as_slice() {
        [samples, places @ .., pair] if first && *samples == to.samples && *pair == 2 => {
            rows_picked(to, call, input, shape(places)?.dims().to_vec())
        }
        _ => Err(NodeMisfit::Unsupported),
    }
}

/// Whether a lookup is the default exporter's form of a view: all elements, by their positions in memory.
fn of_strides(to: &GraphTranslation, call: &NodeCall, input: Feature, indices: &[BatchNumber]) -> bool {
    let dims = to.dims(input);
    let strided = notes::operation(call.node).contains("as_strided");
    strided && dims.len() == 1 && product(indices) == dims[0]
}

fn pick_elements(
    to: &mut GraphTranslation,
    call: &NodeCall,
    input: Feature,
    axis: usize,
) -> Result<Feature, NodeMisfit> {
    let length = to.builder.shape(input.id).dims()[axis];
    let count = shape(&call.input(1).fixed_dims().unwrap_or_default())?.dims().iter().product();
    let place = |&index: &i64| {
        let place = if index < 0 { index.saturating_add(length as i64) } else { index };
        usize::try_from(place).ok().filter(|&place| place < length)
    };
    let places: Vec<usize> = match call.constant(1) {
        Some(indices) => indices
            .as_integers()
            .iter()
            .map(place)
            .collect::<Option<_>>()
            .ok_or_else(|| NodeMisfit::Wrong(format!("picks what an axis of {length} does not have")))?,
        None => Vec::new(),
    };
    let run = places.windows(2).all(|pair| pair[1] == pair[0] + 1);
    let op = match places.first() {
        Some(0) if run && count == length => return Ok(input),
        Some(&start) if run => Op::Slice { axis, start, length: count },
        _ => Op::Pick(PickedElements { axis, count, places }),
    };
    let node = to.add_like(own_name(call), op, &[input])?;
    if notes::operation(call.node) == WINDOWS {
        to.builder.set_runs(node.id, PytorchRun::View);
    }
    Ok(node)
}

/// Elements written into a tensor at positions that the network does not compute; if there are as many as the tensor has, all of
/// it. Exporters end `z[...] += y` by an assignment to a part of what it holds anyway.
pub(super) fn scatter(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let (whole, put) = (call.feature(0)?, call.feature(2)?);
    let replaces = matches!(call.text("reduction"), "" | "none");
    if replaces && is_part_of(to, whole.id, put.id) {
        return single(whole);
    }
    let all = replaces && to.dims(whole) == to.dims(put) && whole.batch == put.batch;
    if all && call.input(1).fixed_dims().is_some() { single(put) } else { Err(NodeMisfit::Unsupported) }
}

/// Whether what is assigned is a part of the tensor that it is assigned to: a slice, or what was assigned to it just before.
fn is_part_of(to: &GraphTranslation, whole: NodeId, put: NodeId) -> bool {
    let (whole, put) = (shown_by_views(to, whole), shown_by_views(to, put));
    let [whole_node, put_node] = [whole, put].map(|id| to.builder.node(id));
    let is_slice = matches!(put_node.op, Op::Slice { .. }) && shown_by_views(to, put_node.inputs[0]) == whole;
    let is_assigned = matches!(&whole_node.op, Op::Unknown(unknown) if unknown.is_assignment());
    let before = whole_node.inputs.last().filter(|_| is_assigned && whole_node.inputs.len() > 1);
    is_slice || before.is_some_and(|before| shown_by_views(to, *before) == put)
}

/// What views in other orders and shapes show.
fn shown_by_views(to: &GraphTranslation, mut id: NodeId) -> NodeId {
    while let Op::Transpose { .. } | Op::Reshape(_) | Op::Expand { .. } = to.builder.node(id).op {
        id = to.builder.node(id).inputs[0];
    }
    id
}

pub(super) fn transpose(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let rank = to.dims(input).len();
    let order = rearrange::order(call, rank)?;
    let place = |batch: usize| order.iter().position(|&axis| axis == batch).unwrap_or(0);
    let batch = input.batch.map(|batch| batch.moved_to(place(batch.axis)));
    let sample: Vec<usize> = match input.batch {
        Some(batch) if batch.is_alone() => order.iter().filter_map(|&axis| batch.sample_axis(axis)).collect(),
        _ => order,
    };
    // Moving only the batch changes nothing for a sample.
    if sample.is_sorted() {
        contiguous::record_batch_move(to, call, batch != input.batch);
        return single(Feature { batch, ..input });
    }
    let packed = contiguous::is_packed_projection(to, input, &sample);
    let node = to.add_like(own_name(call), Op::Transpose { order: sample }, &[input])?;
    let turned = Feature { batch, ..node };
    single(if packed { contiguous::add_copy(to, &format!("{}_contiguous", own_name(call)), turned)? } else { turned })
}
