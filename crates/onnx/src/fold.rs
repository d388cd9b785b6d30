//! Arithmetic on constants: the reader evaluates what exporters write around shapes, axes and scalars.

use super::call::NodeCall;
use super::infer::broadcast;
use super::number::{BatchNumber, as_integers, numbers, product};
use super::rearrange::{self, MAX_ELEMENTS, expand_constant};
use super::tensor::KnownTensor;

/// The value of a node whose inputs are all constants, if it is arithmetic on shapes or scalars.
pub(super) fn evaluate(call: &NodeCall) -> Option<KnownTensor> {
    let name = call.node.op_type();
    if name == "Clip" {
        return clip(call);
    }
    let inputs: Vec<&KnownTensor> = call.inputs.iter().map(|input| input.as_constant()).collect::<Option<_>>()?;
    match (name, inputs.as_slice()) {
        ("Constant", []) => literal(call),
        ("ConstantOfShape", [shape]) => fill_constant(call, shape),
        ("Range", [start, limit, delta]) => range(start, limit, delta),
        ("Where", [condition, yes, no]) => choose(condition, yes, no),
        ("OneHot", [indices, depth, values]) => one_hot(call, indices, depth, values),
        ("Expand", [data, shape]) => expand_constant(data, &broadcast(&data.dims, &as_integers(&shape.values)?)?),
        ("Concat", parts) => rearrange::concat(call, parts),
        ("Gather", [data, indices]) => rearrange::gather(call, data, indices),
        ("Slice", [data, ..]) => rearrange::slice(call, data),
        ("Transpose", [data]) => rearrange::transpose(call, data),
        ("Reshape" | "Squeeze" | "Unsqueeze", [data, ..]) => {
            Some(KnownTensor { dims: as_integers(&rearrange::view(call, &numbers(&data.dims))?)?, ..(*data).clone() })
        }
        ("ReduceProd", [data, ..]) => reduce_constant(call, data, product(&data.values)),
        ("ReduceSum", [data, ..]) => {
            reduce_constant(call, data, data.values.iter().fold(0.into(), |sum, &value| sum + value))
        }
        ("Shape", [data]) => Some(KnownTensor::integers(data.dims.iter().copied())),
        ("Size", [data]) => Some(KnownTensor { dims: vec![], values: vec![data.values.len().into()], integer: true }),
        ("Cast", [data]) => Some(cast(call, data)),
        (_, [data]) => {
            let function = unary(name)?;
            Some(KnownTensor {
                values: data.values.iter().map(|value| value.map(function)).collect(),
                ..(*data).clone()
            })
        }
        (_, [a, b]) => arithmetic(name, a, b),
        _ => None,
    }
}

/// Element-wise functions of one number, from which exporters build others.
pub(super) fn unary(op: &str) -> Option<fn(f64) -> f64> {
    Some(match op {
        "Identity" => |x| x,
        "Neg" => |x| -x,
        "Abs" => f64::abs,
        "Exp" => f64::exp,
        "Log" => f64::ln,
        "Sqrt" => f64::sqrt,
        "Reciprocal" => f64::recip,
        "Floor" => f64::floor,
        "Ceil" => f64::ceil,
        "Round" => f64::round_ties_even,
        "Erf" => erf,
        "Not" => |x| f64::from(u8::from(x == 0.0)),
        _ => return None,
    })
}

pub(super) fn binary(op: &str) -> Option<fn(BatchNumber, BatchNumber) -> BatchNumber> {
    Some(match op {
        "Add" | "Sum" => |a, b| a + b,
        "Sub" => |a, b| a - b,
        "Mul" => |a, b| a * b,
        "Div" => |a, b| a / b,
        "Mod" => |a, b| a - b * (a / b).map(f64::floor),
        "Pow" => |a, b| a.map(|a| b.fixed_value().map_or(f64::NAN, |b| a.powf(b))),
        "Min" => |a, b| a.min(b),
        "Max" => |a, b| a.max(b),
        "Equal" => |a, b| truth(a == b),
        "Less" => |a, b| truth(a < b),
        "LessOrEqual" => |a, b| truth(a <= b),
        "Greater" => |a, b| truth(a > b),
        "GreaterOrEqual" => |a, b| truth(a >= b),
        "And" => |a, b| truth(a != 0 && b != 0),
        "Or" => |a, b| truth(a != 0 || b != 0),
        _ => return None,
    })
}

fn truth(is: bool) -> BatchNumber {
    u8::from(is).into()
}

/// The error function, Abramowitz and Stegun 7.1.26 (absolute error below 1.5e-7).
pub(super) fn erf(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 5] = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592];
    let t = 1.0 / (1.0 + 0.3275911 * x.abs());
    let polynomial = COEFFICIENTS.iter().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    x.signum() * (1.0 - polynomial * (-x * x).exp())
}

fn literal(call: &NodeCall) -> Option<KnownTensor> {
    let integers = |dims: Vec<usize>, values: &[i64]| KnownTensor { dims, values: numbers(values), integer: true };
    if let Some(tensor) = call.tensor("value") {
        return KnownTensor::from_message(tensor);
    }
    if let Some(value) = call.float("value_float") {
        return Some(KnownTensor::scalar(value));
    }
    if let Some(value) = call.int("value_int") {
        return Some(integers(vec![], &[value]));
    }
    if let Some(values) = call.ints("value_ints") {
        return Some(integers(vec![values.len()], values));
    }
    let values: Vec<BatchNumber> = call.floats("value_floats")?.iter().map(|&value| f64::from(value).into()).collect();
    Some(KnownTensor { dims: vec![values.len()], values, integer: false })
}

/// Either bound may be missing; bounds are attributes in early opsets.
fn clip(call: &NodeCall) -> Option<KnownTensor> {
    let data = call.input(0).as_constant()?;
    let bound = |name, index, none: f64| match call.is_absent(index) && call.float(name).is_none() {
        true => Some(none),
        false => call.number(name, index),
    };
    let (low, high) = (bound("min", 1, f64::NEG_INFINITY)?, bound("max", 2, f64::INFINITY)?);
    let clipped = |value: f64| value.max(low).min(high);
    Some(KnownTensor { values: data.values.iter().map(|value| value.map(clipped)).collect(), ..data.clone() })
}

fn fill_constant(call: &NodeCall, shape: &KnownTensor) -> Option<KnownTensor> {
    let fill = match call.tensor("value") {
        Some(tensor) => KnownTensor::from_message(tensor)?,
        None => KnownTensor::scalar(0.0),
    };
    expand_constant(&KnownTensor { dims: vec![], ..fill }, &as_integers(&shape.values)?)
}

fn range(start: &KnownTensor, limit: &KnownTensor, delta: &KnownTensor) -> Option<KnownTensor> {
    let [start, limit, delta] = [start.uniform()?, limit.uniform()?, delta.uniform()?];
    let steps = ((limit - start) / delta).ceil();
    let count = (0.0..=MAX_ELEMENTS as f64).contains(&steps).then_some(steps as usize)?;
    let values: Vec<BatchNumber> = (0..count).map(|i| (start + i as f64 * delta).into()).collect();
    Some(KnownTensor { dims: vec![count], values, integer: true })
}

/// One-hot codes along the last axis, which is the form that exporters write.
fn one_hot(call: &NodeCall, indices: &KnownTensor, depth: &KnownTensor, values: &KnownTensor) -> Option<KnownTensor> {
    let count = depth.as_integers().first().and_then(|&depth| usize::try_from(depth).ok())?;
    let [off, on] = *values.values.as_slice() else { return None };
    let elements = indices.values.len().checked_mul(count).filter(|&elements| elements <= MAX_ELEMENTS)?;
    if call.int("axis").unwrap_or(-1) != -1 || elements == 0 {
        return None;
    }
    let place = |index: i64| if index < 0 { index + count as i64 } else { index };
    let code = |index: i64| (0..count as i64).map(move |at| if at == place(index) { on } else { off });
    let dims = indices.dims.iter().copied().chain([count]).collect();
    Some(KnownTensor {
        dims,
        values: indices.as_integers().into_iter().flat_map(code).collect(),
        integer: values.integer,
    })
}

fn choose(condition: &KnownTensor, yes: &KnownTensor, no: &KnownTensor) -> Option<KnownTensor> {
    let target = broadcast(&broadcast(&condition.dims, &yes.dims)?, &no.dims)?;
    let [condition, yes, no] =
        [expand_constant(condition, &target)?, expand_constant(yes, &target)?, expand_constant(no, &target)?];
    let pick = |((keep, yes), no): ((&BatchNumber, &BatchNumber), &BatchNumber)| if *keep != 0.0 { *yes } else { *no };
    let values = condition.values.iter().zip(&yes.values).zip(&no.values).map(pick).collect();
    Some(KnownTensor { values, ..yes })
}

fn reduce_constant(call: &NodeCall, data: &KnownTensor, value: BatchNumber) -> Option<KnownTensor> {
    let keep = call.int("keepdims").unwrap_or(1) != 0;
    let dims = if keep { vec![1; data.dims.len()] } else { vec![] };
    (data.dims.len() <= 1).then(|| KnownTensor { dims, values: vec![value], integer: data.integer })
}

fn cast(call: &NodeCall, data: &KnownTensor) -> KnownTensor {
    use super::schema::tensor_proto::DataType;
    let kind = call.int("to").and_then(|kind| DataType::try_from(kind as i32).ok()).unwrap_or(DataType::Float);
    let integer = !super::tensor::is_float(kind);
    let values = data.values.iter().map(|&value| match kind {
        DataType::Bool => truth(value != 0),
        _ if integer => value.map(f64::trunc),
        _ => value,
    });
    KnownTensor { dims: data.dims.clone(), values: values.collect(), integer }
}

fn arithmetic(op: &str, a: &KnownTensor, b: &KnownTensor) -> Option<KnownTensor> {
    let function = binary(op)?;
    let target = broadcast(&a.dims, &b.dims)?;
    let [a, b] = [expand_constant(a, &target)?, expand_constant(b, &target)?];
    let integer = a.integer && b.integer;
    let exact = |value: BatchNumber| if integer && op == "Div" { value.map(f64::trunc) } else { value };
    let values = a.values.iter().zip(&b.values).map(|(&a, &b)| exact(function(a, b))).collect();
    Some(KnownTensor { dims: a.dims, values, integer })
}
