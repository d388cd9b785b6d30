//! Normalisations of groups as exporters spell them out.

use super::operation::Operation;
use super::rule::Move::{InputGradient, PassGradient, Reuse};
use super::rule::Rule;
use crate::network::{Binary, Network, Node, Op};

/// Scale and shift of a normalisation of groups, which exporters write as a product and a sum behind it: in PyTorch they are part of its
/// one kernel, whose result is the only one there is.
pub(super) fn affine(rule: &Rule, operation: Operation, binary: Binary) -> Option<Rule> {
    let applies = matches!(binary, Binary::Mul | Binary::Add) && is_affine(operation.network, operation.node);
    let parameters = 1..operation.node.inputs.len();
    applies.then(|| rule.clone().forward([Reuse]).backward([PassGradient(0)]).backward(parameters.map(InputGradient)))
}

/// Whether a node scales or shifts what a normalisation of groups gave, each value by itself.
fn is_affine(network: &Network, node: &Node) -> bool {
    let mut input = network.node(node.inputs[0]);
    let trained = node.inputs[1..].iter().all(|other| matches!(network.node(*other).op, Op::Parameter(_)));
    loop {
        if let Op::Unknown(unknown) = &input.op
            && unknown.normalises_groups()
        {
            return trained && network.input_of(node, 0).elements() == node.shape.elements();
        }
        let scales = input.op == Op::Binary(Binary::Mul) && is_affine(network, input);
        if !scales && !matches!(input.op, Op::Reshape(_) | Op::Flatten) {
            return false;
        }
        input = network.node(input.inputs[0]);
    }
}
