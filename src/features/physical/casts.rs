//! The kernels of autocast: operands copied into the numbers that an operation computes with, and their gradients back.

use super::kernel::{Access, Amount, Class, Pass};
use super::layer::Layer;
use crate::network::{Element, NodeId, Numbers};

/// Adds the casts of an operation's inputs and weights; `numbers` are those of every node.
pub(super) fn add(layer: &mut Layer, numbers: &[Numbers]) {
    let inputs: Vec<(usize, NodeId)> = layer.node.inputs.iter().copied().enumerate().collect();
    for (index, input) in inputs {
        let (node, from) = (layer.network.node(input), numbers[input.index()].result);
        if from == layer.numbers.result || node.element != Element::Number {
            continue;
        }
        let moved = (from.bytes() + layer.numbers.result.bytes()) as f64 * node.shape.elements() as f64;
        moves(layer, Pass::Forward, Amount::per_sample(moved));
        if layer.gradients[index] {
            moves(layer, Pass::InputGradient, Amount::per_sample(moved));
        }
    }
    if layer.numbers.weights != layer.step.precision.held() {
        let weights = layer.network.weights_of(layer.node) as f64;
        let moved = |elements: f64| Amount::fixed(layer.weight_bytes(elements) + layer.held_bytes(elements));
        let learned: u64 = layer.network.learned_of(layer.node).iter().sum();
        let [read, gradients] = [weights, learned as f64].map(moved);
        moves(layer, Pass::Forward, read);
        if layer.learns_any() {
            moves(layer, Pass::WeightGradient, gradients);
        }
    }
}

/// A cast is an operation of its own: the processor starts it.
fn moves(layer: &mut Layer, pass: Pass, traffic: Amount) {
    layer.moves(pass, Class::Copy, Access::Contiguous, traffic);
    layer.launched(1.0);
}
