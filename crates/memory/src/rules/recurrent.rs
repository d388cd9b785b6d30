//! Recurrent layers, also those known by name and price alone: the tensors that PyTorch keeps for every time step.
//!
//! Measured in PyTorch 2.11 on a processor, as multiples of the result, rounded up (benches/recurrent.py). Libraries of
//! GPUs keep other tensors; nothing was measured there.

use super::operation::Operation;
use super::rule::Move::Keep;
use super::rule::{Rule, borrowing};
use crate::amount::Amount;
use perf4sight_network::Keeping;
use perf4sight_network::op::{At, continued};

/// Other sizes than the measured ones keep up to a quarter more or less (docs/accuracy/simulated-memory.md).
const QUARTERS: u64 = 4;

/// Axes of a sample of the last hidden state: the directions, and what is hidden.
const LAST_STATE: usize = 2;

/// Memory of a kind of layer apart from its result, in thirds of the result.
struct Held {
    /// Until backward ran.
    kept: u64,
    /// While it runs forward.
    forward: u64,
    /// While it runs backward.
    backward: u64,
}

/// The rule of an operation, with its memory where it is a recurrent one; it also keeps a permuted copy of its
/// input. A layer with several results is one operation: its first result stands for it.
pub(super) fn rule(rule: Rule, operation: Operation, name: &str) -> Rule {
    let Some(Held { kept, forward, backward }) = held(name).filter(|_| !is_further_result(operation)) else {
        return rule;
    };
    let (all_steps, unread) = all_steps(operation);
    let quarters = match operation.network.keeping() {
        Keeping::Least => QUARTERS - 1,
        Keeping::Likely => QUARTERS,
        Keeping::Most => QUARTERS + 1,
    };
    let thirds = |times: u64| all_steps.times(times * quarters).divided_by(3 * QUARTERS);
    let rule = rule.forward(unread.then_some(Keep(all_steps)));
    let rule = rule.forward([Keep(thirds(kept)), Keep(operation.input(0))]);
    // oneDNN has a kernel for an LSTM's layer; the others are operators for every time step.
    if !operation.within_kernels && name == "LSTM" {
        return rule;
    }
    // Each direction is a layer of its own.
    let of_direction = |times: u64| thirds(times).divided_by(directions(operation));
    Rule {
        forward: borrowing(rule.forward, of_direction(forward)),
        backward: borrowing(rule.backward, of_direction(backward)),
        ..rule
    }
}

/// Directions are the last axis but one of every result.
fn directions(operation: Operation) -> u64 {
    operation.node.shape.dims().iter().rev().nth(1).map_or(1, |&directions| directions as u64)
}

fn is_further_result(operation: Operation) -> bool {
    let at = At { nodes: operation.network.nodes(), node: operation.node };
    continued(at).next().is_some()
}

/// Bytes of the results of all time steps, and whether they are made without being read: ONNX's `Y` has an axis for the steps, its
/// `Y_h` of the last step has none.
fn all_steps(operation: Operation) -> (Amount, bool) {
    match operation.node.shape.rank() > LAST_STATE {
        true => (operation.output(), false),
        false => {
            let steps = operation.network.input_of(operation.node, 0).dims().first().copied().unwrap_or(1);
            (operation.output().times(steps as u64), true)
        }
    }
}

fn held(name: &str) -> Option<Held> {
    match name {
        "LSTM" => Some(Held { kept: 49, forward: 12, backward: 18 }),
        "GRU" => Some(Held { kept: 21, forward: 9, backward: 3 }),
        "RNN" => Some(Held { kept: 3, forward: 3, backward: 3 }),
        _ => None,
    }
}
