//! Aligns the operands of one operation: which of them hold the batch, and on which axis.

use super::batch::{BatchAxis, shape};
use super::call::{NodeCall, NodeMisfit};
use super::number::{BatchNumber, numbers, product};
use super::translate::{GraphTranslation, own_name};
use super::value::{Feature, FixedTensor, Value, WeightTensor};
use perf4sight_network::{Op, Shape};

#[derive(Clone, Copy)]
struct AlignmentFrame {
    rank: usize,
    batch: Option<BatchAxis>,
}

/// All inputs as features whose samples broadcast as the tensors do; weights and tables become nodes.
///
/// # Errors
/// Unsupported if the batch is on different axes.
pub(super) fn align_inputs(to: &mut GraphTranslation, call: &NodeCall) -> Result<Vec<Feature>, NodeMisfit> {
    let held = call.features().filter(|feature| feature.batch.is_some());
    let frame = match held.max_by_key(|feature| to.dims(*feature).len()) {
        Some(feature) => AlignmentFrame { rank: to.dims(feature).len(), batch: feature.batch },
        None => {
            AlignmentFrame { rank: call.inputs.iter().map(|input| rank(to, input)).max().unwrap_or(0), batch: None }
        }
    };
    call.inputs.iter().map(|input| align_value(to, call, input, frame)).collect()
}

fn rank(to: &GraphTranslation, input: &Value) -> usize {
    match input {
        Value::Feature(feature) => to.dims(*feature).len(),
        other => other.fixed_dims().map_or(0, |dims| dims.len()),
    }
}

fn align_value(
    to: &mut GraphTranslation,
    call: &NodeCall,
    input: &Value,
    frame: AlignmentFrame,
) -> Result<Feature, NodeMisfit> {
    match input {
        Value::Feature(feature) if feature.batch.is_some() => {
            let place =
                |rank: usize, batch: Option<BatchAxis>| batch.map(|batch| (rank - batch.axis, batch.moved_to(0)));
            let same = place(to.dims(*feature).len(), feature.batch) == place(frame.rank, frame.batch);
            if same { raise_rank(to, call, *feature, frame) } else { Err(NodeMisfit::Unsupported) }
        }
        Value::Feature(feature) => {
            let dims = to.dims(*feature);
            let sample = sample(&dims, frame, to.samples)?;
            let same = dims == sample.dims();
            let viewed = Feature { batch: frame.batch, ..*feature };
            match same {
                true => Ok(viewed),
                // Of what was computed for all samples of a baked-in batch, one sample is no view.
                false if product(&dims) != sample.elements() => Err(NodeMisfit::Unsupported),
                false => to.add_like(&format!("{}_view", own_name(call)), Op::Reshape(sample), &[viewed]),
            }
        }
        Value::Weight(weight) => {
            let sample = sample(&weight.dims, frame, to.samples)?;
            // Copies that an exporter made for every sample of its batch are trained once.
            let copies = weight.elements.checked_div(sample.elements()).filter(|&copies| to.samples == copies);
            let elements =
                copies.filter(|_| weight.is_made_up()).map_or(weight.elements, |copies| weight.elements / copies);
            let weight = &WeightTensor { dims: numbers(sample.dims()), elements, ..weight.clone() };
            Ok(Feature { id: to.parameter_node(call, weight, sample)?, batch: frame.batch, guessed: false })
        }
        Value::Opaque(numbers) => table(to, call, numbers, frame),
        Value::Constant(constant) => table(to, call, &FixedTensor::unheld(numbers(&constant.dims)), frame),
        _ => Err(NodeMisfit::Unsupported),
    }
}

/// The same with leading axes of length 1, if it has fewer axes than another operand.
fn raise_rank(
    to: &mut GraphTranslation,
    call: &NodeCall,
    feature: Feature,
    frame: AlignmentFrame,
) -> Result<Feature, NodeMisfit> {
    let ones = frame.rank.saturating_sub(to.dims(feature).len());
    if ones == 0 {
        return Ok(feature);
    }
    let dims = std::iter::repeat_n(1, ones).chain(to.builder.shape(feature.id).dims().iter().copied());
    let shape = Shape::new(dims.collect::<Vec<_>>());
    let seen = to.add_like(&format!("{}_raised", own_name(call)), Op::Reshape(shape), &[feature])?;
    Ok(Feature { batch: frame.batch, ..seen })
}

/// Untrained numbers, as a node of their own.
fn table(
    to: &mut GraphTranslation,
    call: &NodeCall,
    numbers: &FixedTensor,
    frame: AlignmentFrame,
) -> Result<Feature, NodeMisfit> {
    let sample = sample(&numbers.dims, frame, to.samples)?;
    let id = to.table(&format!("{}_table", own_name(call)), sample, numbers.of.as_ref())?;
    Ok(Feature { id, batch: frame.batch, guessed: false })
}

/// The shape of a tensor without a batch for one sample: the batch axis, which has length 1 or is missing, is dropped.
fn sample(dims: &[BatchNumber], frame: AlignmentFrame, batch: BatchNumber) -> Result<Shape, NodeMisfit> {
    let ones = frame.rank.checked_sub(dims.len()).ok_or(NodeMisfit::Unsupported)?;
    let mut dims: Vec<BatchNumber> = std::iter::repeat_n(1.into(), ones).chain(dims.iter().copied()).collect();
    if let Some(held) = frame.batch.filter(|held| held.is_alone()) {
        let dropped = dims.remove(held.axis);
        if dropped != 1 && dropped != batch {
            return Err(NodeMisfit::Unsupported);
        }
    }
    shape(&dims)
}
