//! Unsupported operators: loaded with their weights, and with their shape if it can be inferred.

use super::original;
use crate::batch::{BatchAxis, sample};
use crate::call::{CallResult, NodeCall, NodeMisfit};
use crate::infer;
use crate::number::{BatchNumber, TensorDims, product};
use crate::source::node_text;
use crate::translate::{GraphTranslation, own_name, single};
use crate::value::{Feature, FixedTensor, Value, WeightTensor, elements};
use crate::{ADAPTIVE, CONTIGUOUS, DOMAIN};
use perf4sight_network::{NodeId, Op, Shape, UnknownOperation};

#[cfg(test)]
mod tests;

/// Operators outside ONNX's own set: those that we write, others as unknown.
pub(super) fn own_operator(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    if (call.node.domain(), call.node.op_type()) == (DOMAIN, CONTIGUOUS) {
        return super::contiguous::contiguous_copy(to, call);
    }
    if (call.node.domain(), call.node.op_type()) != (DOMAIN, ADAPTIVE) {
        return Err(NodeMisfit::Unsupported);
    }
    let Some(&[height, width]) = call.ints("output_size") else { return Err(NodeMisfit::Unsupported) };
    let output = [super::convolution::size(height)?, super::convolution::size(width)?];
    let image = to.image(call)?;
    single(to.add_like(own_name(call), Op::AdaptiveAvgPool { output }, &[image])?)
}

/// A call on tables that have a part for every sample, such as the transformations of `affine_grid`: what it makes is a table too.
fn of_tables<'c>(to: &GraphTranslation, call: &NodeCall<'c>) -> Option<NodeCall<'c>> {
    let as_table = |input: &Value| match input {
        Value::Feature(feature) if to.is_table(*feature) => Some(Value::Opaque(FixedTensor::unheld(to.dims(*feature)))),
        Value::Feature(_) | Value::Weight(_) => None,
        other => Some(other.clone()),
    };
    call.features().next()?;
    Some(NodeCall { node: call.node, inputs: call.inputs.iter().map(as_table).collect::<Option<_>>()? })
}

/// The node as an unknown operation; every output becomes a node of its own.
///
/// # Errors
/// One clause, if not even its shape is known.
pub(crate) fn load(to: &mut GraphTranslation, call: &NodeCall) -> Result<Vec<Value>, String> {
    // Asked of the call as it was made: tables that become features below, as operands of an unknown operation, would become
    // tables again, and so on without end where even their shape is not known.
    if let Some(call) = of_tables(to, call) {
        return super::fixed::translate(to, &call).map_err(|_| "has a shape that is not known".to_owned());
    }
    let call = &NodeCall { node: call.node, inputs: original::operands(to, call)? };
    let inputs: Vec<Feature> = call.features().collect();
    let weights = weights(call);
    if inputs.is_empty() && weights.is_empty() {
        let table = call.node.output.iter().map(|output| {
            Value::Opaque(FixedTensor::unheld(to.values.declared_dims(output, to.samples).unwrap_or_default()))
        });
        return Ok(table.collect());
    }
    let ReadParameters { parameters, mut owner } = read(to, call, &weights);
    let (name, mut outputs) = (to.name(call), Vec::new());
    for index in read_outputs(to, call) {
        let OutputExtent { shape, batch, guessed, across } = extent(to, call, index, inputs.first().copied())?;
        if guessed && !inputs.iter().any(|input| input.guessed) {
            to.noticed.guessed.push(node_text(call.node));
        }
        let across = across || call.node.domain() == DOMAIN && call.flag("across");
        let original = original::keep_original(to, call, index, batch, parameters).filter(|_| !guessed);
        let macs = match (call.node.domain(), guessed) {
            // Operations that we wrote as unknown carry the number in an attribute.
            (DOMAIN, _) => call.int("macs").and_then(|macs| u64::try_from(macs).ok()).unwrap_or(0),
            (_, true) => 0,
            (_, false) => macs(to, call, &shape),
        };
        let op = Op::Unknown(UnknownOperation { op_type: op_type(call), shape, parameters, macs, across, original });
        let node = to.add(&name, op, &inputs).map_err(|_| "has a shape no device holds".to_string())?;
        // Outputs that the result does not need are dropped; the weights are then counted at the next output.
        if let Some(owner) = owner.filter(|_| parameters > 0) {
            to.builder.share(node, owner).map_err(|error| error.to_string())?;
        }
        owner.get_or_insert(node);
        for weight in &weights {
            to.ledger.set_owner(&*weight.tensor, node);
        }
        outputs.resize_with(index, || Value::Absent);
        outputs.push(Value::Feature(Feature { id: node, batch, guessed }));
    }
    Ok(outputs)
}

/// The outputs that something reads; all of them if that is unknown, as in a subgraph.
fn read_outputs(to: &GraphTranslation, call: &NodeCall) -> Vec<usize> {
    let named = call.node.output.iter().enumerate().filter(|(_, output)| !output.is_empty());
    let (read, others): (Vec<_>, Vec<_>) = named.partition(|(_, output)| to.values.is_read(output));
    let outputs = if read.is_empty() { others } else { read };
    outputs.into_iter().map(|(index, _)| index).collect()
}

pub(super) struct ReadParameters {
    pub parameters: u64,
    /// The node of the same operation that read them before.
    pub owner: Option<NodeId>,
}

pub(super) fn read(to: &mut GraphTranslation, call: &NodeCall, weights: &[WeightTensor]) -> ReadParameters {
    let owners = weights.iter().map(|weight| to.ledger.owner(&weight.tensor));
    let owner = owners.reduce(|all, owner| all.filter(|_| all == owner)).flatten();
    let known = |owner| {
        let op = &to.builder.node(owner).op;
        if let Op::Recurrent(layer) = op {
            let is_alike = layer.cell.operator() == call.node.op_type();
            return is_alike.then(|| (owner, to.builder.weights_of(owner)));
        }
        let Op::Unknown(unknown) = op else { return None };
        (unknown.op_type == op_type(call)).then_some((owner, unknown.parameters))
    };
    if let Some((owner, parameters)) = owner.and_then(known) {
        return ReadParameters { parameters, owner: Some(owner) };
    }
    let new: Vec<Value> =
        weights.iter().filter(|weight| to.ledger.owner(&weight.tensor).is_none()).cloned().map(Value::Weight).collect();
    ReadParameters {
        parameters: new.iter().map(|weight| to.trained_elements(call, weight)).fold(0, u64::saturating_add),
        owner: None,
    }
}

/// An element-wise operation without weights, or any other with a known shape.
pub(super) fn unweighted_op(to: &GraphTranslation, call: &NodeCall, shape: Shape) -> Op {
    let batch = call.features().next().and_then(|input| input.batch);
    Op::Unknown(UnknownOperation {
        original: original::keep_original(to, call, 0, batch, 0),
        ..UnknownOperation::new(op_type(call), shape, 0)
    })
}

pub(super) fn weights(call: &NodeCall) -> Vec<WeightTensor> {
    let weights = call.inputs.iter().enumerate().filter(|(place, _)| is_trained(call, *place));
    let weights = weights.filter_map(|(_, input)| match input {
        Value::Weight(weight) => Some(weight.clone()),
        _ => None,
    });
    weights.collect()
}

/// Whether a weight at this place of a call is trained there. The factors of a Resize are not, whatever their type. Running
/// statistics are updated by a batch normalisation, not trained. A tensor that an exporter created represents a constant.
pub(super) fn is_trained(call: &NodeCall, place: usize) -> bool {
    let made_up =
        matches!(call.input(place), Value::Weight(weight) if weight.is_made_up() && weight.tensor.starts_with("val_"));
    match call.node.op_type() {
        "Resize" | "Upsample" => false,
        "LSTM" | "GRU" | "RNN" => place > 0 && place < 4,
        "BatchNormalization" => place < 3 && !made_up,
        _ => !made_up,
    }
}

fn op_type(call: &NodeCall) -> String {
    match call.node.domain() {
        "" | "ai.onnx" | DOMAIN => call.node.op_type().to_string(),
        domain => format!("{domain}::{}", call.node.op_type()),
    }
}

/// Multiply-accumulates of one sample of a product with the result `shape`.
fn macs(to: &GraphTranslation, call: &NodeCall, shape: &Shape) -> u64 {
    let dims = |place: usize| to.input_dims(call.input(place), 1.into()).unwrap_or_default();
    let last = |dims: TensorDims| dims.last().copied().unwrap_or(0.into());
    let each = |filters: TensorDims| product(filters.get(1..).unwrap_or_default());
    let made = product(shape.dims());
    elements(&[match call.node.op_type() {
        "Conv" | "DeformConv" => made * each(dims(1)),
        // Every element of its input is multiplied with every filter of its group.
        "ConvTranspose" => product(&dims(0)) * each(dims(1)),
        "MatMul" => made * last(dims(0)),
        "Gemm" if !call.flag("transA") => made * last(dims(0)),
        "Einsum" => infer::terms(call, &[dims(0), dims(1)]).map_or(0.into(), |terms| product(&terms)),
        // The gates of every step are one product with the input and one with the hidden state.
        "LSTM" | "GRU" | "RNN" => recurrent(dims(1), dims(2), dims(0)),
        _ => 0.into(),
    }])
}

/// Products of a recurrent layer over all steps of one sample. The axes of its weights are direction, gates, inputs; the weights
/// of the hidden state have the same axes.
fn recurrent(inputs: TensorDims, remembered: TensorDims, data: TensorDims) -> BatchNumber {
    let steps = data.split_last().map_or(0.into(), |(_, steps)| product(steps));
    steps * (product(&inputs) + product(&remembered))
}

struct OutputExtent {
    shape: Shape,
    batch: Option<BatchAxis>,
    guessed: bool,
    /// Whether a second axis is as long as the batch; it counts with a length of 1.
    across: bool,
}

fn extent(
    to: &GraphTranslation,
    call: &NodeCall,
    output: usize,
    input: Option<Feature>,
) -> Result<OutputExtent, NodeMisfit> {
    let name = call.node.output[output].as_str();
    let ruled = shape_by_rule(to, call, output);
    let across = ruled.as_ref().is_some_and(|ruled| ruled.across);
    // An open dimension may be a multiple of the batch, such as all pixels of all images.
    let shares = ruled.as_ref().and_then(|ruled| ruled.batch).is_some_and(|batch| !batch.is_alone());
    let is_told = !across && !shares && !has_data_dependent_shape(call);
    // Two axes with the length of the batch are declared only for the file's own batch.
    if let Some(dims) = to.values.declared_dims(name, to.samples).filter(|_| is_told) {
        let fits = |ruled: RuledShape| ruled.batch.filter(|batch| batch.axis < dims.len());
        let batch = declared_batch(to, name, &dims, ruled.and_then(fits), input);
        return Ok(OutputExtent { shape: sample(&dims, batch)?, batch, guessed: false, across });
    }
    Ok(match (ruled, input) {
        (Some(RuledShape { dims, batch, across }), _) => {
            OutputExtent { shape: sample(&dims, batch)?, batch, guessed: false, across }
        }
        (None, Some(input)) => {
            OutputExtent { shape: to.builder.shape(input.id).clone(), batch: input.batch, guessed: true, across }
        }
        (None, None) => OutputExtent { shape: Shape::new([1]), batch: None, guessed: true, across },
    })
}

/// Whether the size of a result depends on the data, so that an open dimension of it is not the batch.
fn has_data_dependent_shape(call: &NodeCall) -> bool {
    matches!(call.node.op_type(), "NonZero" | "Compress" | "Unique" | "NonMaxSuppression")
}

/// The axis of the batch in a declared shape: the symbolic axis, otherwise the one by the operator's rule, otherwise the first
/// axis of that length.
fn declared_batch(
    to: &GraphTranslation,
    name: &str,
    dims: &[BatchNumber],
    ruled: Option<BatchAxis>,
    input: Option<Feature>,
) -> Option<BatchAxis> {
    let symbolic =
        to.values.declared_shape(name).and_then(|dims| dims.iter().position(Option::is_none)).map(BatchAxis::alone_at);
    let fits = |batch: &BatchAxis| dims.get(batch.axis).is_some_and(|&dim| batch.fits(dim, to.samples));
    let depends = input.is_some_and(|input| input.batch.is_some());
    let equal = || dims.iter().position(|&dim| depends && dim == to.samples).map(BatchAxis::alone_at);
    symbolic.or(ruled.filter(fits)).or_else(equal)
}

struct RuledShape {
    dims: TensorDims,
    /// The first axis that grows with the batch.
    batch: Option<BatchAxis>,
    /// Whether further axes grow; these are then given without the batch.
    across: bool,
}

fn shape_by_rule(to: &GraphTranslation, call: &NodeCall, output: usize) -> Option<RuledShape> {
    let at = |samples: BatchNumber| {
        let dims: Vec<Option<TensorDims>> = call.inputs.iter().map(|input| to.input_dims(input, samples)).collect();
        infer::outputs(call, &dims)?.into_iter().nth(output)
    };
    let mut dims = at(to.samples)?;
    let open = at(BatchNumber::BATCH).filter(|open| open.len() == dims.len()).unwrap_or_default();
    let times =
        |dim: BatchNumber| if to.samples == BatchNumber::BATCH { dim.parts()[0] } else { (dim / to.samples).nearest() };
    let mut grown = (0..open.len()).filter(|&axis| open[axis].parts()[0] > 0);
    let first = grown.next();
    let others: Vec<usize> = grown.collect();
    others.iter().for_each(|&axis| dims[axis] = times(dims[axis]).into());
    let source = call.features().find_map(|input| input.batch);
    // Sizes that the rule takes from constants of the file do not change; the batch then stays on its axis.
    let holds = |axis: &usize| dims.get(*axis).is_some_and(|&dim| (dim / to.samples).is_length());
    let axis = first.or_else(|| source.map(|batch| batch.axis).filter(holds));
    let batch = axis.map(|axis| BatchAxis::holding(axis, times(dims[axis]) as usize, source));
    Some(RuledShape { dims, batch, across: !others.is_empty() })
}
