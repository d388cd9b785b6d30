//! Element-wise operations: activations as one operator or several, arithmetic, dropout.

use super::normalisation;
use crate::align::align_inputs;
use crate::call::{CallResult, NodeCall, NodeMisfit};
use crate::curves;
use crate::curves::{NodeCurve, is_spelled_out, recognise_activation};
use crate::fold;
use crate::notes::{self, reads_parameter};
use crate::number::{BatchNumber, product};
use crate::operator_names;
use crate::schema::tensor_proto::DataType;
use crate::tensor::{KnownTensor, is_float};
use crate::translate::{GraphTranslation, own_name, single};
use crate::value::{Feature, RandomTensor, Value, elements};
use perf4sight_network::{Activation, BinaryFunction, ElementKind, KeptReading, Linear, Op};

pub(super) fn translate(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    match call.node.op_type() {
        "Clip" => clip(to, call),
        "Where" => choice(to, call),
        "IsNaN" => no_number(to, call),
        other => match (operator_names::activation(other), operator_names::binary(other)) {
            (Some(activation), _) => activate(to, call, activation),
            (None, Some(binary)) => arithmetic(to, call, binary),
            (None, None) => function(to, call),
        },
    }
}

/// Not a number (NaN) is what does not equal itself.
fn no_number(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let name = own_name(call);
    let equal = to.add_like(&format!("{name}_equal"), Op::Binary(BinaryFunction::Equal), &[input, input])?;
    single(to.add_like(name, Op::Activation(Activation::Not), &[equal])?)
}

fn choice(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let inputs = align_inputs(to, call)?;
    let held = inputs.iter().find(|input| input.batch.is_some()).copied().unwrap_or(inputs[0]);
    // The default exporter so writes softplus, which is x itself where x is large.
    let is_noted = notes::operation(call.node).contains("softplus");
    let curves = match inputs.as_slice() {
        [condition, yes, no] if is_noted => to.curves.choose(condition.id, yes.id, no.id),
        _ => Vec::new(),
    };
    // Of another `beta` it is no function that files of other exporters hold, but the note tells it: `args = (%x, 2)`.
    let beta = notes::arguments(call.node).get(1).and_then(|beta| beta.parse().ok()).unwrap_or(1.0);
    if let Some(root) = curves::softplus_of(&curves, beta).filter(|_| is_noted) {
        let read = Feature { id: root, ..held };
        return single(to.add_like(own_name(call), Op::Activation(Activation::Softplus), &[read])?);
    }
    let chosen = recognise_or(to, call, &inputs, curves, Op::Where)?;
    match chosen.as_slice() {
        &[Value::Feature(node)] => single(Feature { batch: held.batch, ..node }),
        _ => Ok(chosen),
    }
}

fn activate(to: &mut GraphTranslation, call: &NodeCall, activation: Activation) -> CallResult {
    let input = call.feature(0)?;
    if activation == Activation::Log {
        to.join_sigmoid(call, input.id);
    }
    match curves::function(activation).or_else(|| fold::unary(call.node.op_type())) {
        Some(function) => {
            let curves = to.curves.map(input.id, function);
            recognise_or(to, call, &[input], curves, Op::Activation(activation))
        }
        None => single(to.add_like(own_name(call), Op::Activation(activation), &[input])?),
    }
}

fn clip(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let low = call.number("min", 1).unwrap_or(f64::NEG_INFINITY);
    let high = call.number("max", 2).unwrap_or(f64::INFINITY);
    // `clamp` keeps its input, a ReLU its result; ReLU6 is `hardtanh` to PyTorch, whose exporters write a ReLU as one.
    let may_be = |activation| to.ours || !curves::is_spelled_out(activation, notes::operation(call.node));
    if (low, high) == (0.0, 6.0) && may_be(Activation::Relu6) {
        return activate(to, call, Activation::Relu6);
    }
    let curve = to.curves.map(input.id, |x| x.max(low).min(high));
    // Exporters write "no upper bound" as the largest single-precision number.
    if low == 0.0 && high >= f64::from(f32::MAX) {
        let node = to.add_like(own_name(call), Op::Activation(Activation::Clip), &[input])?;
        to.curves.set(node.id, curve);
        return single(node);
    }
    recognise_or(to, call, &[input], curve, Op::Activation(Activation::Clip))
}

/// A function of one feature and numbers, which may be a part of an activation.
fn function(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let operator = call.node.op_type();
    let curve = match (call.input(0), call.input(1)) {
        (Value::Feature(x), Value::Absent) => {
            let function = fold::unary(operator).ok_or(NodeMisfit::Unsupported)?;
            to.curves.map(x.id, function)
        }
        (Value::Feature(x), Value::Constant(number)) => {
            let (function, number) = numbers(operator, number)?;
            to.curves.map(x.id, |x| function(x, number))
        }
        (Value::Constant(number), Value::Feature(x)) => {
            let (function, number) = numbers(operator, number)?;
            to.curves.map(x.id, |x| function(number, x))
        }
        _ => return Err(NodeMisfit::Unsupported),
    };
    let input = call.features().next().ok_or(NodeMisfit::Unsupported)?;
    recognise_or(to, call, &[input], curve, unknown(to, call, input))
}

fn numbers(operator: &str, constant: &KnownTensor) -> Result<(impl Fn(f64, f64) -> f64, f64), NodeMisfit> {
    let function = of_two(operator).ok_or(NodeMisfit::Unsupported)?;
    Ok((function, constant.uniform().ok_or(NodeMisfit::Unsupported)?))
}

fn of_two(operator: &str) -> Option<impl Fn(f64, f64) -> f64> {
    let function = fold::binary(operator)?;
    Some(move |a: f64, b: f64| function(a.into(), b.into()).fixed_value().unwrap_or(f64::NAN))
}

fn unknown(to: &GraphTranslation, call: &NodeCall, input: Feature) -> Op {
    super::unknown::unweighted_op(to, call, to.builder.shape(input.id).clone())
}

fn recognise_or(
    to: &mut GraphTranslation,
    call: &NodeCall,
    inputs: &[Feature],
    curves: Vec<NodeCurve>,
    op: Op,
) -> CallResult {
    let spelled = |activation| !to.ours && is_spelled_out(activation, notes::operation(call.node));
    // A step that is an operator of its own, such as ONNX's Softplus, is not spelled out.
    let is_own = |activation| op == Op::Activation(activation);
    let found = recognise_activation(&curves).filter(|(activation, _)| is_own(*activation) || !spelled(*activation));
    // An exporter writes these steps for one operator, and so does a program that computes them itself.
    let is_one_step = |root| matches!(inputs, [only] if only.id == root);
    let unnoted = |(activation, root)| {
        !to.ours && !is_own(activation) && !is_one_step(root) && notes::operation(call.node).is_empty()
    };
    let found = found.filter(|found| !unnoted(*found) || to.keeping != KeptReading::Most);
    let node = match found {
        Some((activation, root)) => {
            if unnoted((activation, root)) {
                *to.noticed.in_steps.entry(activation.name()).or_default() += 1;
            }
            let root = Feature { id: root, ..inputs[0] };
            to.add_like(own_name(call), Op::Activation(activation), &[root])?
        }
        None => to.add_like(own_name(call), op, inputs)?,
    };
    to.curves.set(node.id, curves);
    single(node)
}

fn arithmetic(to: &mut GraphTranslation, call: &NodeCall, binary: BinaryFunction) -> CallResult {
    match call.inputs.as_slice() {
        [Value::Feature(x)] => single(*x),
        [Value::Feature(x), other] | [other, Value::Feature(x)]
            if is_trained(call, other) && !scales_input(to, call, *x, other) =>
        {
            with_weight(to, call, binary, *x)
        }
        [Value::Feature(x), other] | [other, Value::Feature(x)] if !matches!(other, Value::Feature(_)) => {
            with_fixed(to, call, binary, *x, other)
        }
        [_, _] => {
            let inputs = align_inputs(to, call)?;
            binary_of_features(to, call, binary, [inputs[0], inputs[1]])
        }
        _ => {
            let inputs = align_inputs(to, call)?;
            let mut sum = inputs[0];
            for &next in &inputs[1..] {
                sum = to.add_like(own_name(call), Op::Binary(binary), &[sum, next])?;
            }
            single(sum)
        }
    }
}

/// Whether an operand is a parameter. If an exporter folded a parameter with later operations, its note on the node names the
/// parameter.
fn is_trained(call: &NodeCall, value: &Value) -> bool {
    matches!(value, Value::Weight(weight) if !weight.is_made_up() || reads_parameter(call.node))
}

/// Whether a graph input is a mean or deviation that the network's own input is normalised by: PyTorch keeps these as buffers.
fn scales_input(to: &GraphTranslation, call: &NodeCall, read: Feature, value: &Value) -> bool {
    let Value::Weight(weight) = value else { return false };
    let steps = std::iter::successors(Some(to.builder.node(read.id)), |node| {
        let lessened = node.op == Op::Binary(BinaryFunction::Sub) && node.inputs.len() == 1;
        lessened.then(|| to.builder.node(node.inputs[0]))
    });
    let is_first = matches!(call.input(0), Value::Feature(_));
    let is_raw = steps.last().is_some_and(|node| matches!(node.op, Op::Input(_)));
    matches!(call.node.op_type(), "Sub" | "Div") && is_first && is_raw && !to.exporter.is_parameter(&weight.tensor)
}

fn binary_of_features(
    to: &mut GraphTranslation,
    call: &NodeCall,
    binary: BinaryFunction,
    inputs: [Feature; 2],
) -> CallResult {
    let [a, b] = inputs;
    let curves = match of_two(call.node.op_type()) {
        Some(function) if a.batch == b.batch => to.curves.zip(a.id, b.id, function),
        _ => Vec::new(),
    };
    to.join_gate(call, binary, inputs);
    recognise_or(to, call, &inputs, curves, Op::Binary(binary))
}

/// Arithmetic with a trainable tensor: a layer's bias, the scale or shift of a normalisation, otherwise a separate parameter.
fn with_weight(to: &mut GraphTranslation, call: &NodeCall, binary: BinaryFunction, input: Feature) -> CallResult {
    if binary == BinaryFunction::Add && is_bias(to, call, input) {
        to.set_bias(input.id, call);
        return single(input);
    }
    if normalisation::join_scale_or_shift(to, call, input, binary) {
        return single(input);
    }
    if let Some(normalised) = normalisation::end_layer_norm(to, call, input, binary)? {
        return single(normalised);
    }
    let inputs = align_inputs(to, call)?;
    let node = to.add_like(own_name(call), Op::Binary(binary), &inputs)?;
    normalisation::record_scale(to, input, node, binary);
    single(node)
}

/// Whether a vector is added to a fully connected layer that no other node reads.
fn is_bias(to: &GraphTranslation, call: &NodeCall, input: Feature) -> bool {
    let Op::Linear(Linear { bias: false, out_features }) = to.builder.node(input.id).op else { return false };
    let only_here = |name: &String| to.values.is_read_once(name);
    let vector =
        call.inputs.iter().filter_map(Value::fixed_dims).any(|dims| {
            dims.last().is_some_and(|&last| last == out_features) && elements(&dims) == out_features as u64
        });
    let position = call.inputs.iter().position(|value| matches!(value, Value::Feature(_)));
    vector
        && to.may_have_bias(input.id, call)
        && position.and_then(|position| call.node.input.get(position)).is_some_and(only_here)
}

fn with_fixed(
    to: &mut GraphTranslation,
    call: &NodeCall,
    binary: BinaryFunction,
    input: Feature,
    other: &Value,
) -> CallResult {
    if let (&Value::Random(RandomTensor { keep, drawn }), BinaryFunction::Mul) = (other, binary) {
        let rate = keep.map_or(0.5, |keep| 1.0 - keep) as f32;
        // Stochastic depth draws for whole samples, `nn.Dropout2d` for whole channels.
        let is_of_parts = drawn.is_some_and(|drawn| drawn < product(&to.dims(input)));
        let op = if is_of_parts { Op::DropPath { rate } } else { Op::Dropout { rate } };
        return single(to.add_like(own_name(call), op, &[input])?);
    }
    let fits = fits_beside(&to.dims(input), other);
    if let Value::Constant(constant) = other
        && let (true, Ok((function, number))) = (fits, numbers(call.node.op_type(), constant))
    {
        let curves = match call.input(0) {
            Value::Feature(_) => to.curves.map(input.id, |x| function(x, number)),
            _ => to.curves.map(input.id, |x| function(number, x)),
        };
        return recognise_or(to, call, &[input], curves, Op::Binary(binary));
    }
    if binary == BinaryFunction::Add && is_bias(to, call, input) {
        to.set_bias(input.id, call);
        return single(input);
    }
    if !fits {
        // It broadcasts a computed tensor, as a causal mask does with a mask of valid tokens.
        let inputs = align_inputs(to, call)?;
        let batch = input.batch;
        let node = to.add_like(own_name(call), Op::Binary(binary), &inputs)?;
        return single(Feature { batch, ..node });
    }
    to.hold_tables(call);
    single(to.add_like(own_name(call), Op::Binary(binary), &[input])?)
}

/// Whether a tensor of the file broadcasts no axis of a tensor with these dimensions.
fn fits_beside(dims: &[BatchNumber], other: &Value) -> bool {
    other.fixed_dims().is_none_or(|fixed| {
        fixed.len() <= dims.len() && fixed.iter().rev().zip(dims.iter().rev()).all(|(&f, &d)| f == 1 || f == d)
    })
}

/// Integers and truths become numbers, and numbers integers, by a copy. Truths computed by operations count as numbers, and a
/// cast of numbers to another width does nothing.
pub(super) fn cast(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let kind = call.int("to").and_then(|kind| DataType::try_from(kind as i32).ok()).unwrap_or(DataType::Float);
    let wanted = match kind {
        DataType::Bool => ElementKind::Truth,
        kind if is_float(kind) => ElementKind::Number,
        _ => ElementKind::Integer,
    };
    let node = to.builder.node(input.id);
    let is = node.element;
    // A comparison's truths are numbers only when they were cast; our own files cast all.
    let is_cast = wanted == ElementKind::Number && node.held == ElementKind::Truth && !to.ours;
    let same = !is_cast && (is == wanted || is == ElementKind::Number && wanted == ElementKind::Truth);
    if same { single(input) } else { single(to.add_like(own_name(call), Op::Cast(wanted), &[input])?) }
}

pub(super) fn dropout(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    // ONNX: the default ratio is one half.
    let rate = call.number("ratio", 1).unwrap_or(0.5) as f32;
    single(to.add_like(&to.name(call), Op::Dropout { rate }, &[call.feature(0)?])?)
}

/// Random numbers in the shape of an input. A comparison with them makes a dropout, of whole samples or channels if there is one number for
/// each.
pub(super) fn random(to: &GraphTranslation, call: &NodeCall) -> CallResult {
    let keep = match call.node.op_type() {
        "Bernoulli" => call.constant(0).and_then(KnownTensor::uniform),
        _ => None,
    };
    let drawn = to.input_dims(call.input(0), to.samples).or_else(|| {
        let declared = to.values.declared_shape(call.node.output.first()?)?;
        Some(declared.iter().map(|dim| dim.map_or(to.samples, BatchNumber::from)).collect())
    });
    Ok(vec![Value::Random(RandomTensor { keep, drawn: drawn.map(|dims| product(&dims)) })])
}
