//! Operators that look elements up by position: extremes, cumulative sums, tuples of indices, columns of windows, grids.

use super::convolution::{size, window};
use crate::align::align_inputs;
use crate::batch::BatchAxis;
use crate::call::{CallResult, NodeCall, NodeMisfit};
use crate::number::as_integers;
use crate::tensor::KnownTensor;
use crate::translate::{GraphTranslation, own_name, single};
use crate::value::{Feature, Value};
use perf4sight_network::{ArgMax, Fold, GridSample, Interpolation, Op, OutsideValues, PickedElements, Shape, TopK};

pub(super) fn translate(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    match call.node.op_type() {
        "TopK" => top_k(to, call),
        "CumSum" => cum_sum(to, call),
        "Col2Im" => columns_back(to, call),
        "GridSample" => grid_sample(to, call),
        "GatherND" => gather_nd(to, call),
        _ => arg_max(to, call),
    }
}

fn arg_max(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    // PyTorch never requests the last of several equal elements.
    if call.flag("select_last_index") {
        return Err(NodeMisfit::Unsupported);
    }
    let onnx_axis = crate::call::axis(call.int("axis").unwrap_or(0), to.dims(input).len())?;
    let axis = to.axis(input, onnx_axis as i64)?;
    let keep = call.int("keepdims").unwrap_or(1) != 0;
    let op = Op::ArgMax(ArgMax { axis, keep, largest: call.node.op_type() == "ArgMax" });
    let node = to.add_like(own_name(call), op, &[input])?;
    let gone = |batch: usize| usize::from(!keep && onnx_axis < batch);
    single(Feature { batch: node.batch.map(|batch| batch.moved_to(batch.axis - gone(batch.axis))), ..node })
}

fn top_k(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    // Of samples there are as many as the batch is large.
    let axis = to.axis(input, call.int("axis").unwrap_or(-1))?;
    let count = call.int("k").or_else(|| call.constant(1)?.as_integers().first().copied());
    let count = size(count.ok_or(NodeMisfit::Unsupported)?)?;
    let largest = call.int("largest").unwrap_or(1) != 0;
    let is_read = |place: &usize| call.node.output.get(*place).is_some_and(|name| to.values.is_read(name));
    let read: Vec<usize> = [0, 1].into_iter().filter(is_read).collect();
    let mut results = vec![Value::Absent, Value::Absent];
    for place in read.iter().copied() {
        let name = if place == read[0] { own_name(call).to_string() } else { format!("{}_places", own_name(call)) };
        let top = TopK { axis, count, largest, places: place == 1 };
        results[place] = Value::Feature(to.add_like(&name, Op::TopK(top), &[input])?);
    }
    Ok(results)
}

/// Cumulative sums from the front, each including its own element, as in PyTorch.
fn cum_sum(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    if call.flag("exclusive") || call.flag("reverse") {
        return Err(NodeMisfit::Unsupported);
    }
    let axis = call.constant(1).and_then(|axis| axis.as_integers().first().copied()).ok_or(NodeMisfit::Unsupported)?;
    let axis = to.axis(input, axis)?;
    single(to.add_like(own_name(call), Op::CumSum { axis }, &[input])?)
}

fn columns_back(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let pair = |place: usize| match call.constant(place).map(KnownTensor::as_integers).as_deref() {
        Some(&[height, width]) => Ok([size(height)?, size(width)?]),
        _ => Err(NodeMisfit::Unsupported),
    };
    let (image, kernel) = (pair(1)?, pair(2)?);
    if input.batch != Some(BatchAxis::FIRST) || to.builder.shape(input.id).rank() != 2 {
        return Err(NodeMisfit::Unsupported);
    }
    let window = window(call, image, kernel)?;
    if window.padding[..2] != window.padding[2..] {
        return Err(NodeMisfit::Unsupported);
    }
    single(to.add_like(own_name(call), Op::Fold(Fold { image, window }), &[input])?)
}

/// An image sampled at the positions of a grid, which the network computes or the file holds.
fn grid_sample(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let image = to.image(call)?;
    let inputs = align_inputs(to, call)?;
    if inputs.len() != 2 || inputs.iter().any(|input| input.batch != Some(BatchAxis::FIRST)) {
        return Err(NodeMisfit::Unsupported);
    }
    let interpolation = match call.text("mode") {
        "" | "linear" | "bilinear" => Interpolation::Linear,
        "nearest" => Interpolation::Nearest,
        "cubic" | "bicubic" => Interpolation::Cubic,
        other => return Err(NodeMisfit::Wrong(format!("interpolates in a mode \"{other}\""))),
    };
    let beyond = match call.text("padding_mode") {
        "" | "zeros" => OutsideValues::Zeros,
        "border" => OutsideValues::Edge,
        "reflection" => OutsideValues::Reflect,
        other => return Err(NodeMisfit::Wrong(format!("pads in a mode \"{other}\""))),
    };
    let op = Op::GridSample(GridSample { interpolation, beyond, corners: call.flag("align_corners") });
    single(to.add_like(own_name(call), op, &[image, inputs[1]])?)
}

/// Elements by tuples of indices that the network does not compute: the axes that a tuple spans are flattened into one, and
/// elements picked from it. If samples come first, a tuple begins with the number of a sample.
fn gather_nd(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    if input.batch == Some(BatchAxis::FIRST) {
        return super::movement::gather_pairs(to, call);
    }
    let places_dims: Vec<usize> =
        call.input(1).fixed_dims().and_then(|dims| as_integers(&dims)).ok_or(NodeMisfit::Unsupported)?;
    let (&spanned, places_dims) = places_dims.split_last().ok_or(NodeMisfit::Unsupported)?;
    let shared = size(call.int("batch_dims").unwrap_or(0))?;
    let batch = input.batch.filter(|batch| batch.axis >= spanned).ok_or(NodeMisfit::Unsupported)?;
    let dims = to.builder.shape(input.id).dims().to_vec();
    // The spanned axes must come first in the sample.
    if shared > 0 || spanned == 0 || spanned > dims.len() {
        return Err(NodeMisfit::Unsupported);
    }
    let (front, rest) = dims.split_at(spanned);
    let place = |tuple: &[i64]| flat_index(tuple, front);
    // Large tables of indices are not read from the file.
    let places = call.constant(1).map_or(vec![], KnownTensor::as_integers);
    let places = places.chunks(spanned).map(place).collect::<Result<Vec<_>, _>>()?;
    let count = places_dims.iter().product();
    let name = own_name(call);
    let merged = seen_as(to, &format!("{name}_merged"), input, [&[front.iter().product()], rest].concat())?;
    let picked = to.add_like(name, Op::Pick(PickedElements { axis: 0, count, places }), &[merged])?;
    let seen = seen_as(to, &format!("{name}_picked"), picked, [places_dims, rest].concat())?;
    let moved = Some(batch.moved_to(batch.axis + places_dims.len() - spanned));
    single(Feature { batch: moved, ..seen })
}

/// The same elements reshaped to these axes of a sample.
fn seen_as(to: &mut GraphTranslation, name: &str, input: Feature, dims: Vec<usize>) -> Result<Feature, NodeMisfit> {
    let shape = Shape::new(dims);
    if *to.builder.shape(input.id) == shape { Ok(input) } else { to.add_like(name, Op::Reshape(shape), &[input]) }
}

fn flat_index(tuple: &[i64], dims: &[usize]) -> Result<usize, NodeMisfit> {
    tuple.iter().zip(dims).try_fold(0, |place, (&index, &dim)| {
        let index = if index < 0 { index.saturating_add(dim as i64) } else { index };
        let index = usize::try_from(index).ok().filter(|&index| index < dim);
        index.map(|index| place * dim + index).ok_or_else(|| NodeMisfit::Wrong(format!("picks {tuple:?} of {dims:?}")))
    })
}
