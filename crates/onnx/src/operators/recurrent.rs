//! Recurrent layers as PyTorch has them; others stay known by name and price.

use super::convolution::size;
use super::unknown;
use crate::STEPS_FIRST;
use crate::batch::BatchAxis;
use crate::call::{CallResult, NodeCall, NodeMisfit};
use crate::translate::{GraphTranslation, own_name};
use crate::value::{Feature, Value};
use perf4sight_network::{NodeId, Op, Recurrent, RecurrentKind, Shape};

/// ONNX has the time steps first, then the batch; results have their directions before it.
const BATCH: usize = 1;

pub(super) fn translate(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let is_read = |place: usize| call.node.output.get(place).is_some_and(|name| to.values.is_read(name));
    let [steps, last, cell] = [0, 1, 2].map(is_read);
    if input.batch != Some(BatchAxis::alone_at(BATCH)) || cell || !(steps || last) || !begins_with_zeros(to, call) {
        return Err(NodeMisfit::Unsupported);
    }
    let layer = Recurrent { last: !steps, batch_first: is_batch_first(to, call), ..layer(call)? };
    check_features(to, call, input, layer)?;
    let node = add(to, call, layer, input)?;
    if layer.last {
        return Ok(vec![Value::Absent, Value::Feature(with_batch_at(node, BATCH))]);
    }
    let mut results = vec![Value::Feature(with_batch_at(node, BATCH + 1))];
    if last {
        let state = last_state(to, call, node, layer)?;
        results.push(Value::Feature(with_batch_at(state, BATCH)));
    }
    Ok(results)
}

fn with_batch_at(feature: Feature, axis: usize) -> Feature {
    Feature { batch: Some(BatchAxis::alone_at(axis)), ..feature }
}

/// Whether it reads samples before time steps, which a file permutes for ONNX's layer. Our files permute them for every layer.
fn is_batch_first(to: &GraphTranslation, call: &NodeCall) -> bool {
    let input = call.node.input.first().map_or("", String::as_str);
    if to.ours { !input.ends_with(STEPS_FIRST) } else { to.values.is_moved(input) }
}

/// Whether the first states are those of PyTorch's layers called without any: left out, or numbers that nobody trained.
fn begins_with_zeros(to: &GraphTranslation, call: &NodeCall) -> bool {
    let is_zero = |place: usize| match call.input(place) {
        Value::Absent | Value::Constant(_) | Value::Opaque(_) => true,
        // The default exporter stores them.
        Value::Weight(weight) => weight.is_made_up(),
        Value::Feature(state) => is_untrained(to, state.id),
        _ => false,
    };
    is_zero(5) && is_zero(6)
}

/// Whether it is, or is a part of, a table that nobody trains: layers of a stack begin with parts of one.
fn is_untrained(to: &GraphTranslation, state: NodeId) -> bool {
    let node = to.builder.node(state);
    if let (Op::Slice { .. }, &[whole]) = (&node.op, node.inputs.as_slice()) {
        return is_untrained(to, whole);
    }
    matches!(node.op, Op::Parameter(_)) && node.trained == Some(0)
}

/// The layer by its attributes; the result is that of all time steps.
fn layer(call: &NodeCall) -> Result<Recurrent, NodeMisfit> {
    let hidden = size(call.int("hidden_size").ok_or(NodeMisfit::Unsupported)?)?;
    let both_ways = match call.text("direction") {
        "" | "forward" => false,
        "bidirectional" => true,
        _ => return Err(NodeMisfit::Unsupported),
    };
    let strange = ["clip", "layout", "input_forget"].iter().any(|name| call.has(name) && call.int(name) != Some(0));
    // Lengths of sequences, and peepholes.
    if strange || !call.is_absent(4) || !call.is_absent(7) {
        return Err(NodeMisfit::Unsupported);
    }
    Ok(Recurrent { cell: cell(call)?, hidden, both_ways, bias: !call.is_absent(3), last: false, batch_first: true })
}

fn cell(call: &NodeCall) -> Result<RecurrentKind, NodeMisfit> {
    let functions: Vec<String> = call.texts("activations").iter().map(|name| name.to_lowercase()).collect();
    let are = |known: &[&str]| functions.chunks(known.len()).all(|of_direction| of_direction == known);
    match call.node.op_type() {
        "LSTM" if are(&["sigmoid", "tanh", "tanh"]) => Ok(RecurrentKind::Lstm),
        "GRU" if call.flag("linear_before_reset") && are(&["sigmoid", "tanh"]) => Ok(RecurrentKind::Gru),
        "RNN" if are(&["tanh"]) => Ok(RecurrentKind::Tanh),
        "RNN" if are(&["relu"]) => Ok(RecurrentKind::Relu),
        _ => Err(NodeMisfit::Unsupported),
    }
}

fn check_features(to: &GraphTranslation, call: &NodeCall, input: Feature, layer: Recurrent) -> Result<(), NodeMisfit> {
    let [directions, rows, features] = call.fixed(1)?;
    let read = to.builder.shape(input.id).features();
    if [directions, rows, features] == [layer.directions(), layer.rows(), read] {
        return Ok(());
    }
    Err(NodeMisfit::Wrong(format!("reads {read} features, its weights are {directions} x {rows} x {features}")))
}

/// The layer with its weights, which are an earlier one's where it runs again.
fn add(to: &mut GraphTranslation, call: &NodeCall, layer: Recurrent, input: Feature) -> Result<Feature, NodeMisfit> {
    let weights = unknown::weights(call);
    let unknown::ReadParameters { parameters, owner } = unknown::read(to, call, &weights);
    let node = to.add_like(&to.name(call), Op::Recurrent(layer), &[input])?;
    match owner {
        Some(owner) => to.builder.share(node.id, owner).map_err(|error| NodeMisfit::Wrong(error.to_string()))?,
        None => to.builder.set_trained(node.id, parameters),
    }
    for weight in &weights {
        to.ledger.set_owner(&*weight.tensor, node.id);
    }
    Ok(node)
}

/// The last hidden state of each direction, from those of all time steps: the first step is the last one of the way back.
fn last_state(
    to: &mut GraphTranslation,
    call: &NodeCall,
    steps: Feature,
    layer: Recurrent,
) -> Result<Feature, NodeMisfit> {
    let count = to.builder.shape(steps.id).dims()[0];
    let mut slice = |what: &str, from: Feature, axis: usize, start: usize| {
        to.add_like(&format!("{}_{what}", own_name(call)), Op::Slice { axis, start, length: 1 }, &[from])
    };
    let end = slice("end", steps, 0, count - 1)?;
    let state = if layer.both_ways {
        let there = slice("there", end, 1, 0)?;
        let begin = slice("begin", steps, 0, 0)?;
        let back = slice("back", begin, 1, 1)?;
        to.add_like(&format!("{}_both", own_name(call)), Op::Concat { axis: 1 }, &[there, back])?
    } else {
        end
    };
    let shape = Shape::new([layer.directions(), layer.hidden]);
    to.add_like(&format!("{}_state", own_name(call)), Op::Reshape(shape), &[state])
}
