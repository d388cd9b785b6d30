//! Normalisations: what they keep for backward, whole or spelt out by an exporter.

use super::amount::{Amount, product};
use super::operations::Place;
use super::rule::Move::{InputGradient, Keep, Output, PassGradient, Reuse, WeightGradient};
use super::rule::{Move, Rule, Saved};
use crate::network::{Binary, ELEMENT, Network, Node, Op};

/// Normalises every group of channels by itself: what `InstanceNormalization` and `GroupNormalization` of a file are in PyTorch.
///
/// `native_group_norm` (aten/src/ATen/native/group_norm.cpp) saves its input, and mean and inverse deviation of every group.
pub(super) fn groups(rule: Rule, place: Place) -> Rule {
    let groups = match place.network.input_of(place.node, 0).dims() {
        // As exporters write it: the groups are what channels are elsewhere.
        [groups, ..] => *groups as u64,
        [] => 1,
    };
    let statistics = Keep(Amount::per_sample(product([ELEMENT, groups])));
    let weights: Vec<Move> = (0..rule.weights.len()).map(WeightGradient).collect();
    rule.forward([Output, statistics, statistics])
        .saves([Saved::Input(0)])
        .backward([InputGradient(0)])
        .backward(weights)
}

/// Whether an operation is a normalisation of groups.
pub(super) fn is_groups(op: &Op) -> bool {
    matches!(op, Op::Unknown(unknown) if ["InstanceNormalization", "GroupNormalization"].contains(&&*unknown.op_type))
}

/// Scale and shift of a normalisation of groups, which exporters write as a product and a sum behind it: in PyTorch they are part of its
/// one kernel, whose result is the only one there is.
pub(super) fn affine(rule: &Rule, place: Place, binary: Binary) -> Option<Rule> {
    let applies = matches!(binary, Binary::Mul | Binary::Add) && is_affine(place.network, place.node);
    let parameters = 1..place.node.inputs.len();
    applies.then(|| rule.clone().forward([Reuse]).backward([PassGradient(0)]).backward(parameters.map(InputGradient)))
}

/// Whether a node scales or shifts what a normalisation of groups gave, each value by itself.
fn is_affine(network: &Network, node: &Node) -> bool {
    let mut input = network.node(node.inputs[0]);
    let trained = node.inputs[1..].iter().all(|other| matches!(network.node(*other).op, Op::Parameter(_)));
    loop {
        match &input.op {
            op if is_groups(op) => return trained && network.input_of(node, 0).elements() == node.shape.elements(),
            Op::Reshape(_) | Op::Flatten => {}
            Op::Binary(Binary::Mul) if is_affine(network, input) => {}
            _ => return false,
        }
        input = network.node(input.inputs[0]);
    }
}
