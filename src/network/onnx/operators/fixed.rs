//! Operations on what does not depend on the image: views of weights, tables, random numbers.

use super::unknown;
use crate::network::Shape;
use crate::network::onnx::batch::Batch;
use crate::network::onnx::call::{Call, Misfit, Outcome};
use crate::network::onnx::rearrange;
use crate::network::onnx::tensor::Constant;
use crate::network::onnx::translate::Translation;
use crate::network::onnx::value::{Feature, Value, Weight, elements};

pub(super) fn translate(to: &mut Translation, call: &Call) -> Outcome {
    let operator = call.node.op_type();
    if operator.starts_with("Random") || operator == "Bernoulli" {
        return super::elementwise::random(call);
    }
    if let Some(random) = call.inputs.iter().find_map(|input| randomness(call, input)) {
        return Ok(vec![random]);
    }
    match call.inputs.as_slice() {
        [same] if matches!(operator, "Identity" | "Cast") => Ok(vec![same.clone()]),
        [Value::Weight(weight), target] if operator == "Expand" => expand(to, call, weight, target),
        [fixed, ..] => match fixed.fixed_dims().and_then(|dims| viewed(call, dims)) {
            Some(dims) => Ok(vec![seen_as(call, dims)]),
            None => unknown::load(to, call).map_err(Misfit::Wrong),
        },
        [] => Err(Misfit::Unsupported),
    }
}

/// What arithmetic makes of random numbers: the share that a comparison keeps, or `floor(share + uniform)`.
fn randomness(call: &Call, input: &Value) -> Option<Value> {
    let Value::Random(keep) = input else { return None };
    let number = || call.inputs.iter().find_map(|input| input.as_constant().and_then(Constant::uniform));
    Some(Value::Random(match call.node.op_type() {
        "Less" | "LessOrEqual" => number().or(*keep),
        "Greater" | "GreaterOrEqual" => number().map(|bound| 1.0 - bound).or(*keep),
        "Add" => number().or(*keep),
        _ => *keep,
    }))
}

/// The shape an operation that keeps all elements, or computes one from each, gives to a tensor of shape `dims`.
fn viewed(call: &Call, dims: &[usize]) -> Option<Vec<usize>> {
    match call.node.op_type() {
        "Transpose" => {
            let order = rearrange::order(call, dims.len()).ok()?;
            Some(order.into_iter().map(|from| dims[from]).collect())
        }
        "DequantizeLinear" | "QuantizeLinear" | "Sqrt" | "Exp" | "Abs" | "Neg" => Some(dims.to_vec()),
        "Add" | "Sub" | "Mul" | "Div" | "Pow" => {
            let other = call.inputs.iter().filter_map(Value::fixed_dims).max_by_key(|dims| elements(dims));
            other.map(<[usize]>::to_vec)
        }
        "ConstantOfShape" => call.constant(0)?.as_integers().into_iter().map(|dim| usize::try_from(dim).ok()).collect(),
        _ => rearrange::view(call, dims),
    }
}

/// The largest weight among the inputs in another shape, or a table of that shape.
fn seen_as(call: &Call, dims: Vec<usize>) -> Value {
    let weights = call.inputs.iter().filter_map(|input| match input {
        Value::Weight(weight) => Some(weight),
        _ => None,
    });
    match weights.max_by_key(|weight| weight.elements) {
        Some(weight) => weight.seen_as(dims),
        None => Value::Opaque(dims),
    }
}

/// One copy of a weight per sample, such as a class token; other copies are unknown operations.
fn expand(to: &mut Translation, call: &Call, weight: &Weight, target: &Value) -> Outcome {
    let target = target.as_constant().ok_or(Misfit::Unsupported)?.as_integers();
    let per_sample: &[usize] = match weight.dims.as_slice() {
        [1, sample @ ..] if weight.dims.len() == target.len() => sample,
        sample if sample.len() + 1 == target.len() => sample,
        sample => sample,
    };
    let kept = |target: &[i64]| {
        target.len() == per_sample.len()
            && target.iter().zip(per_sample).all(|(&wanted, &dim)| wanted == 1 || wanted == dim as i64)
    };
    match target.split_first() {
        Some((&batch, rest)) if batch as u64 == to.batch && kept(rest) => {
            let id = to.leaf(weight, Shape::new(per_sample))?;
            Ok(vec![Value::Feature(Feature { id, batch: Some(Batch::FIRST), guessed: false })])
        }
        _ if kept(&target) => Ok(vec![Value::Weight(weight.clone())]),
        _ => unknown::load(to, call).map_err(Misfit::Wrong),
    }
}
