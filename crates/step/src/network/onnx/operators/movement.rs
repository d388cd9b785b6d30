//! Joining, cutting and reordering features.

use crate::network::onnx::align::aligned;
use crate::network::onnx::call::{Call, Misfit, Outcome, axis as counted};
use crate::network::onnx::rearrange::{self, bound};
use crate::network::onnx::translate::{Translation, own_name, single};
use crate::network::onnx::value::{Feature, Value};
use crate::network::{Op, Shape};

pub(super) fn concat(to: &mut Translation, call: &Call) -> Outcome {
    let axis = call.int("axis").ok_or_else(|| Misfit::Wrong("has no axis".into()))?;
    let inputs = aligned(to, call)?;
    let axis = to.axis(inputs[0], axis)?;
    single(to.add_like(own_name(call), Op::Concat { axis }, &inputs)?)
}

/// Parts of a tensor in a sequence; SequenceAt takes one out.
pub(super) fn split_to_sequence(to: &mut Translation, call: &Call) -> Outcome {
    let input = call.feature(0)?;
    let axis = to.axis(input, call.int("axis").unwrap_or(0))?;
    let length = to.builder.shape(input.id).dims()[axis];
    // Without the axis in its parts a sequence is of another operation than this one.
    let lengths = call.constant(1).filter(|_| call.int("keepdims").unwrap_or(1) != 0).ok_or(Misfit::Unsupported)?;
    let lengths: Vec<usize> =
        lengths.as_integers().into_iter().map(super::convolution::size).collect::<Result<_, _>>()?;
    let lengths = match lengths.as_slice() {
        &[part] if call.constant(1).is_some_and(|split| split.dims.is_empty()) && part > 0 => {
            (0..length.div_ceil(part)).map(|index| part.min(length - index * part)).collect()
        }
        _ => lengths,
    };
    Ok(vec![Value::Sequence(parts(to, call, input, axis, &lengths)?.into())])
}

pub(super) fn sequence_at(call: &Call) -> Outcome {
    let (Value::Sequence(values), Some(place)) = (call.input(0), call.constant(1)) else {
        return Err(Misfit::Unsupported);
    };
    let place = place.as_integers().first().map(|&place| if place < 0 { place + values.len() as i64 } else { place });
    let value = place.and_then(|place| values.get(usize::try_from(place).ok()?));
    value.map(|value| vec![value.clone()]).ok_or_else(|| Misfit::Wrong("takes what its sequence does not hold".into()))
}

pub(super) fn slice(to: &mut Translation, call: &Call) -> Outcome {
    let input = call.feature(0)?;
    let [starts, ends] = [("starts", 1), ("ends", 2)].map(|(name, index)| call.integers(name, index));
    let (starts, ends) = (starts.ok_or(Misfit::Unsupported)?, ends.ok_or(Misfit::Unsupported)?);
    let axes = call.integers("axes", 3).unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = call.constant(4).map(|steps| steps.as_integers());
    if starts.len() != ends.len() || starts.len() != axes.len() {
        return Err(Misfit::Wrong("has starts, ends and axes of different lengths".into()));
    }
    if steps.is_some_and(|steps| steps.iter().any(|&step| step != 1)) {
        return Err(Misfit::Unsupported);
    }
    let mut result = input;
    for ((&start, &end), &axis) in starts.iter().zip(&ends).zip(&axes) {
        let length = to.dims(result)[counted(axis, to.dims(result).len())?] as usize;
        let (start, end) = (bound(start, length), bound(end, length));
        if (start, end) != (0, length) {
            let op = Op::Slice { axis: to.axis(result, axis)?, start, length: end.saturating_sub(start) };
            result = to.add_like(own_name(call), op, &[result])?;
        }
    }
    single(result)
}

pub(super) fn split(to: &mut Translation, call: &Call) -> Outcome {
    let input = call.feature(0)?;
    let axis = to.axis(input, call.int("axis").unwrap_or(0))?;
    let length = to.builder.shape(input.id).dims()[axis];
    let parts = call.node.output.len();
    let lengths = match call.integers("split", 1) {
        Some(lengths) => lengths.into_iter().map(super::convolution::size).collect::<Result<Vec<_>, _>>()?,
        // Equal parts, the last one smaller where they do not fit.
        None => {
            let part = length.div_ceil(parts.max(1));
            (0..parts).map(|i| part.min(length.saturating_sub(i.saturating_mul(part)))).collect()
        }
    };
    if lengths.len() != parts {
        return Err(Misfit::Wrong(format!("splits an axis of {length} into {lengths:?} for {parts} outputs")));
    }
    self::parts(to, call, input, axis, &lengths)
}

fn parts(to: &mut Translation, call: &Call, input: Feature, axis: usize, lengths: &[usize]) -> Outcome {
    let length = to.builder.shape(input.id).dims()[axis];
    if lengths.iter().fold(0usize, |sum, &part| sum.saturating_add(part)) != length {
        return Err(Misfit::Wrong(format!("splits an axis of {length} into {lengths:?}")));
    }
    let mut start = 0;
    let mut outputs = Vec::new();
    for (part, &length) in lengths.iter().enumerate() {
        let name = format!("{}_{part}", own_name(call));
        outputs.push(Value::Feature(to.add_like(&name, Op::Slice { axis, start, length }, &[input])?));
        start += length;
    }
    Ok(outputs)
}

/// One element or a run of neighbours of an axis; anything else is a lookup this crate has no operation for.
pub(super) fn gather(to: &mut Translation, call: &Call) -> Outcome {
    let input = call.feature(0)?;
    let indices = call.constant(1).ok_or(Misfit::Unsupported)?;
    let onnx_axis = counted(call.int("axis").unwrap_or(0), to.dims(input).len())?;
    let axis = to.axis(input, onnx_axis as i64)?;
    let length = to.builder.shape(input.id).dims()[axis];
    let places: Vec<i64> =
        indices.as_integers().iter().map(|&i| if i < 0 { i.saturating_add(length as i64) } else { i }).collect();
    let run = places.windows(2).all(|pair| pair[1] == pair[0].saturating_add(1));
    let start = places.first().and_then(|&start| usize::try_from(start).ok()).ok_or(Misfit::Unsupported)?;
    if !run || indices.dims.len() > 1 {
        return Err(Misfit::Unsupported);
    }
    let cut = to.add_like(own_name(call), Op::Slice { axis, start, length: places.len() }, &[input])?;
    if !indices.dims.is_empty() {
        return single(cut);
    }
    let mut dims = to.builder.shape(cut.id).dims().to_vec();
    dims.remove(axis);
    let picked = to.add_like(&format!("{}_picked", own_name(call)), Op::Reshape(Shape::new(dims)), &[cut])?;
    let batch = cut.batch.map(|batch| batch.at(batch.axis - usize::from(onnx_axis < batch.axis)));
    single(Feature { batch, ..picked })
}

pub(super) fn transpose(to: &mut Translation, call: &Call) -> Outcome {
    let input = call.feature(0)?;
    let rank = to.dims(input).len();
    let order = rearrange::order(call, rank)?;
    let place = |batch: usize| order.iter().position(|&axis| axis == batch).unwrap_or(0);
    let batch = input.batch.map(|batch| batch.at(place(batch.axis)));
    let sample: Vec<usize> = match input.batch {
        Some(batch) if batch.alone() => order.iter().filter_map(|&axis| batch.sample_axis(axis)).collect(),
        _ => order,
    };
    // Moving only the batch changes nothing for a sample.
    if sample.is_sorted() {
        return single(Feature { batch, ..input });
    }
    let node = to.add_like(own_name(call), Op::Transpose { order: sample }, &[input])?;
    single(Feature { batch, ..node })
}
