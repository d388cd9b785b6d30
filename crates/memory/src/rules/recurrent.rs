//! Recurrent layers, of which the network has only the name and the cost: the tensors that PyTorch keeps for every time
//! step.
//!
//! Measured in PyTorch 2.11 on a processor, as multiples of the result, rounded up (benches/recurrent.py). Libraries of
//! GPUs keep other tensors; nothing was measured there.

use super::operation::Operation;
use super::rule::Move::Keep;
use super::rule::{Rule, borrowing};

/// Memory of a kind of layer apart from its result, in thirds of the result.
struct Held {
    /// Until backward ran.
    kept: u64,
    /// While it runs forward.
    forward: u64,
    /// While it runs backward.
    backward: u64,
}

/// The rule of an unknown operation, with its memory where it is a recurrent one; it also keeps a permuted copy of its
/// input.
pub(super) fn rule(rule: Rule, operation: Operation, name: &str) -> Rule {
    let Some(Held { kept, forward, backward }) = held(name) else { return rule };
    let thirds = |times: u64| operation.output().times(times).divided_by(3);
    let rule = rule.forward([Keep(thirds(kept)), Keep(operation.input(0))]);
    Rule {
        forward: borrowing(rule.forward, thirds(forward)),
        backward: borrowing(rule.backward, thirds(backward)),
        ..rule
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
