//! Operations this crate has no word for: loaded with their weights and, as well as can be told, their shape.

use super::original;
use crate::network::onnx::batch::Batch;
use crate::network::onnx::call::{Call, Misfit, Outcome};
use crate::network::onnx::infer::{self, Dims};
use crate::network::onnx::source::described;
use crate::network::onnx::translate::{Translation, own_name, single};
use crate::network::onnx::value::{Feature, Value, Weight};
use crate::network::onnx::{ADAPTIVE, DOMAIN};
use crate::network::{Op, Shape, Unknown};

/// Operators outside ONNX's own set: the two forms that we write, else unknown.
pub(super) fn ours(to: &mut Translation, call: &Call) -> Outcome {
    if (call.node.domain(), call.node.op_type()) != (DOMAIN, ADAPTIVE) {
        return Err(Misfit::Unsupported);
    }
    let Some(&[height, width]) = call.ints("output_size") else { return Err(Misfit::Unsupported) };
    let output = [super::convolution::size(height)?, super::convolution::size(width)?];
    let image = to.image(call)?;
    single(to.add_like(own_name(call), Op::AdaptiveAvgPool { output }, &[image])?)
}

/// The node as an unknown operation, every output a node of its own.
///
/// # Errors
/// One clause, where not even its shape can be.
pub(in crate::network::onnx) fn load(to: &mut Translation, call: &Call) -> Result<Vec<Value>, String> {
    let inputs: Vec<Feature> = call.features().collect();
    let weights = weights(call);
    if inputs.is_empty() && weights.is_empty() {
        let table = call.node.output.iter().map(|output| Value::Opaque(declared_dims(to, output).unwrap_or_default()));
        return Ok(table.collect());
    }
    let new: Vec<Value> =
        weights.iter().filter(|weight| !to.owners.contains_key(&*weight.tensor)).cloned().map(Value::Weight).collect();
    let mut parameters = new.iter().map(|weight| to.trained(call, weight)).fold(0, u64::saturating_add);
    let mut outputs = Vec::new();
    for (index, _) in call.node.output.iter().enumerate().filter(|(_, output)| !output.is_empty()) {
        let Extent { shape, batch, guessed } = extent(to, call, index, inputs.first().copied());
        if guessed && !inputs.iter().any(|input| input.guessed) {
            to.guessed.push(described(call.node));
        }
        let original = original::kept(to, call, index, batch, parameters).filter(|_| !guessed);
        let macs = match (call.node.domain(), guessed) {
            // What we wrote without knowing more says it.
            (DOMAIN, _) => call.int("macs").and_then(|macs| u64::try_from(macs).ok()).unwrap_or(0),
            (_, true) => 0,
            (_, false) => macs(to, call, &shape),
        };
        let op = Op::Unknown(Unknown { op_type: op_type(call), shape, parameters, macs, original });
        let node = to.add(&to.name(call), op, &inputs).map_err(|_| "has a shape no device holds".to_string())?;
        for weight in &weights {
            to.owners.entry(weight.tensor.to_string()).or_insert(node);
        }
        outputs.resize_with(index, || Value::Absent);
        outputs.push(Value::Feature(Feature { id: node, batch, guessed }));
        parameters = 0;
    }
    Ok(outputs)
}

/// An element-wise operation without weights, or one whose shape is known.
pub(super) fn unweighted(to: &Translation, call: &Call, shape: Shape) -> Op {
    let batch = call.features().next().and_then(|input| input.batch);
    Op::Unknown(Unknown { original: original::kept(to, call, 0, batch, 0), ..Unknown::new(op_type(call), shape, 0) })
}

/// The trainable inputs.
fn weights(call: &Call) -> Vec<Weight> {
    let weights = call.inputs.iter().enumerate().filter(|(place, _)| is_trained(call, *place));
    let weights = weights.filter_map(|(_, input)| match input {
        Value::Weight(weight) => Some(weight.clone()),
        _ => None,
    });
    weights.collect()
}

/// Whether a weight at this place of a call is trained there. The factors of a Resize are not, whatever their type; running statistics are
/// updated by a batch normalisation, not trained; what an exporter made up stands for a constant.
pub(super) fn is_trained(call: &Call, place: usize) -> bool {
    let made_up =
        matches!(call.input(place), Value::Weight(weight) if weight.is_made_up() && weight.tensor.starts_with("val_"));
    match call.node.op_type() {
        "Resize" | "Upsample" => false,
        "LSTM" | "GRU" | "RNN" => place > 0 && place < 4,
        "BatchNormalization" => place < 3 && !made_up,
        _ => !made_up,
    }
}

/// What tables call the operator: with its domain, where that is a foreign one.
fn op_type(call: &Call) -> String {
    match call.node.domain() {
        "" | "ai.onnx" | DOMAIN => call.node.op_type().to_string(),
        domain => format!("{domain}::{}", call.node.op_type()),
    }
}

/// Multiply-accumulates of one sample of a product that gives `shape`.
fn macs(to: &Translation, call: &Call, shape: &Shape) -> u64 {
    let dims = |place: usize| to.input_dims(call.input(place), 1).unwrap_or_default();
    let last = |dims: Dims| dims.last().copied().unwrap_or(0);
    let each = |filters: Dims| filters.iter().skip(1).fold(1u64, |product, &dim| product.saturating_mul(dim));
    let elements = |dims: Dims| dims.iter().fold(1u64, |product, &dim| product.saturating_mul(dim));
    match call.node.op_type() {
        "Conv" | "DeformConv" => shape.elements().saturating_mul(each(dims(1))),
        // Every element of its input meets every filter of its group.
        "ConvTranspose" => elements(dims(0)).saturating_mul(each(dims(1))),
        "MatMul" => shape.elements().saturating_mul(last(dims(0))),
        "Gemm" if !call.flag("transA") => shape.elements().saturating_mul(last(dims(0))),
        // The gates of every step are one product with what comes in and one with what it remembers.
        "LSTM" | "GRU" | "RNN" => recurrent(dims(1), dims(2), dims(0)),
        _ => 0,
    }
}

/// Products of a recurrent layer over all steps of one sample: its weights are direction, gates, inputs, those of what it remembers alike.
fn recurrent(inputs: Dims, remembered: Dims, data: Dims) -> u64 {
    let elements = |dims: &[u64]| dims.iter().fold(1u64, |product, &dim| product.saturating_mul(dim));
    let steps = data.split_last().map_or(0, |(_, steps)| elements(steps));
    steps.saturating_mul(elements(&inputs).saturating_add(elements(&remembered)))
}

/// Shape and batch of an unknown output.
struct Extent {
    shape: Shape,
    batch: Option<Batch>,
    guessed: bool,
}

fn extent(to: &Translation, call: &Call, output: usize, input: Option<Feature>) -> Extent {
    let name = call.node.output[output].as_str();
    let ruled = ruled(to, call, output);
    if let Some(dims) = declared_dims(to, name) {
        let batch =
            held(to, name, &dims, ruled.and_then(|(dims, batch)| batch.filter(|batch| batch.axis < dims.len())), input);
        return Extent { shape: sample(&dims, batch), batch, guessed: false };
    }
    match (ruled, input) {
        (Some((dims, batch)), _) => {
            let dims: Vec<usize> = dims.iter().map(|&dim| usize::try_from(dim).unwrap_or(usize::MAX)).collect();
            Extent { shape: sample(&dims, batch), batch, guessed: false }
        }
        (None, Some(input)) => Extent { shape: to.builder.shape(input.id).clone(), batch: input.batch, guessed: true },
        (None, None) => Extent { shape: Shape::new([1]), batch: None, guessed: true },
    }
}

/// Where a declared shape holds the batch: in the symbolic axis, else where the operator's rule says, else in the first axis of that length.
fn held(to: &Translation, name: &str, dims: &[usize], ruled: Option<Batch>, input: Option<Feature>) -> Option<Batch> {
    let symbolic = to.declared.get(name).and_then(|dims| dims.iter().position(Option::is_none)).map(Batch::alone_at);
    let fits = |batch: &Batch| dims.get(batch.axis).is_some_and(|&dim| batch.fits(dim as u64, to.batch));
    let depends = input.is_some_and(|input| input.batch.is_some());
    let equal = || dims.iter().position(|&dim| depends && dim as u64 == to.batch).map(Batch::alone_at);
    symbolic.or(ruled.filter(fits)).or_else(equal)
}

/// Shape of an output by its operator's rule, and the axis that holds the batch: the one that is longer when the batch is larger.
fn ruled(to: &Translation, call: &Call, output: usize) -> Option<(Dims, Option<Batch>)> {
    let at = |batch: u64| {
        let dims: Vec<Option<Dims>> = call.inputs.iter().map(|input| to.input_dims(input, batch)).collect();
        infer::outputs(call, &dims)?.into_iter().nth(output)
    };
    let dims = at(to.batch)?;
    let longer = at(to.batch.checked_mul(2)?).filter(|longer| longer.len() == dims.len());
    let axis = longer.and_then(|longer| dims.iter().zip(longer).position(|(&dim, longer)| dim != longer));
    let source = call.features().find_map(|input| input.batch);
    // What the rule takes from constants of the file does not move; the batch then lies where it lay.
    let axis = axis.or_else(|| {
        source.map(|batch| batch.axis).filter(|&axis| dims.get(axis).is_some_and(|dim| dim.is_multiple_of(to.batch)))
    });
    let batch = axis.map(|axis| Batch::holding(axis, dims[axis] / to.batch, source));
    Some((dims, batch))
}

fn sample(dims: &[usize], batch: Option<Batch>) -> Shape {
    let tensor: Vec<u64> = dims.iter().map(|&dim| dim as u64).collect();
    batch.map_or_else(|| Shape::new(dims), |batch| batch.sample(&tensor))
}

/// What the file declares, the batch filled in for the one dimension that may be symbolic.
pub(super) fn declared_dims(to: &Translation, output: &str) -> Option<Vec<usize>> {
    let dims = to.declared.get(output)?;
    let symbolic = dims.iter().filter(|dim| dim.is_none()).count();
    (symbolic <= 1).then(|| dims.iter().map(|dim| dim.unwrap_or(to.batch) as usize).collect())
}
