//! Reshapes, and the arithmetic on shapes around them.

use crate::batch::{BatchAxis, sample};
use crate::call::{CallResult, NodeCall, NodeMisfit, axis};
use crate::notes;
use crate::number::{BatchNumber, TensorDims, product};
use crate::rearrange::{bound, resolve_target};
use crate::tensor::KnownTensor;
use crate::translate::{GraphTranslation, constant_value, own_name, single};
use crate::value::Feature;
use perf4sight_network::{Op, PytorchRun};

pub(super) fn shape(to: &GraphTranslation, call: &NodeCall) -> CallResult {
    shape_constant(call, &to.dims(call.feature(0)?))
}

/// A shape as a constant, or the part of it that a call requests.
pub(super) fn shape_constant(call: &NodeCall, dims: &[BatchNumber]) -> CallResult {
    let start = bound(call.int("start").unwrap_or(0), dims.len());
    let end = bound(call.int("end").unwrap_or(i64::MAX), dims.len());
    constant_value(KnownTensor::integers(dims[start..end.max(start)].iter().copied()))
}

pub(super) fn size(to: &GraphTranslation, call: &NodeCall) -> CallResult {
    let elements = product(&to.dims(call.feature(0)?));
    constant_value(KnownTensor { dims: vec![], values: vec![elements], integer: true })
}

pub(super) fn reshape(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let from = to.dims(input);
    let target = match call.numbers("shape", 1) {
        Some(target) => resolve_target(&from, &target, call.flag("allowzero"))?,
        // The shape is computed from unavailable values; the declared shape of the output is used.
        None => {
            let declared = call.node.output.first().and_then(|name| to.values.declared_dims(name, to.samples));
            declared.ok_or(NodeMisfit::Unsupported)?
        }
    };
    view(to, call, input, &target)
}

/// The input reshaped to `target`, a full ONNX shape.
pub(super) fn view(to: &mut GraphTranslation, call: &NodeCall, input: Feature, target: &[BatchNumber]) -> CallResult {
    let batch = match input.batch {
        Some(batch) => Some(batch.reshaped(&to.dims(input), target, to.samples).ok_or(NodeMisfit::Unsupported)?),
        None => None,
    };
    reshape_to(to, call, Feature { batch, ..input }, target)
}

/// The input reshaped to `target`, with the batch placed as in `input`.
fn reshape_to(to: &mut GraphTranslation, call: &NodeCall, input: Feature, target: &[BatchNumber]) -> CallResult {
    let sample = sample(target, input.batch)?;
    let joins = input.batch.is_some_and(BatchAxis::is_leading) && notes::is_reshaped(call.node);
    // Moving only the batch changes nothing for a sample.
    if sample == *to.builder.shape(input.id) && !((joins || to.ours) && is_turned(to, input)) {
        return single(input);
    }
    if let Some(normalised) = super::normalisation::end_group_norm(to, call, input, &sample)? {
        return single(normalised);
    }
    let view = to.add_like(own_name(call), Op::Reshape(sample), &[input])?;
    // Our own files hold operations alone.
    if joins && !to.ours {
        to.builder.set_runs(view.id, PytorchRun::Joining);
    }
    single(view)
}

/// Whether another axis was moved between the batch and what is behind it, so that the two are one axis of a copy alone.
fn is_turned(to: &GraphTranslation, input: Feature) -> bool {
    matches!(&to.builder.node(input.id).op, Op::Transpose { order } if order.first() != Some(&0))
}

pub(super) fn flatten(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let dims = to.dims(input);
    let cut = bound(call.int("axis").unwrap_or(1), dims.len());
    view(to, call, input, &[product(&dims[..cut]), product(&dims[cut..])])
}

pub(super) fn squeeze(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let dims = to.dims(input);
    let held = input.batch.map(|batch| batch.axis);
    let axes: Vec<usize> = match call.integers("axes", 1) {
        Some(axes) => axes.iter().map(|&a| axis(a, dims.len())).collect::<Result<_, _>>()?,
        None => (0..dims.len()).filter(|&axis| dims[axis] == 1 && Some(axis) != held).collect(),
    };
    if let Some(&axis) = axes.iter().find(|&&axis| dims[axis] != 1) {
        return Err(NodeMisfit::Wrong(format!("squeezes axis {axis} of {dims:?}")));
    }
    if held.is_some_and(|held| axes.contains(&held)) {
        return Err(NodeMisfit::Unsupported);
    }
    let target: TensorDims = (0..dims.len()).filter(|axis| !axes.contains(axis)).map(|axis| dims[axis]).collect();
    let moved = |batch: BatchAxis| batch.moved_to(batch.axis - axes.iter().filter(|&&axis| axis < batch.axis).count());
    reshape_to(to, call, Feature { batch: input.batch.map(moved), ..input }, &target)
}

pub(super) fn unsqueeze(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let dims = to.dims(input);
    let axes = call.integers("axes", 1).ok_or(NodeMisfit::Unsupported)?;
    let rank = dims.len() + axes.len();
    let axes: Vec<usize> = axes.iter().map(|&a| axis(a, rank)).collect::<Result<_, _>>()?;
    let mut old = dims.iter();
    let (mut target, mut places) = (Vec::new(), Vec::new());
    for axis in 0..rank {
        if axes.contains(&axis) {
            target.push(1.into());
        } else if let Some(&dim) = old.next() {
            places.push(axis);
            target.push(dim);
        }
    }
    let moved = |batch: BatchAxis| places.get(batch.axis).map(|&axis| batch.moved_to(axis));
    reshape_to(to, call, Feature { batch: input.batch.and_then(moved), ..input }, &target)
}
