//! The kernels of autocast: operands cast to the number format of an operation, and their gradients cast back.

use super::kernel::{BatchQuantity, KernelPass};
use super::layer::LayerKernels;
use perf4sight_network::{ElementKind, NodeId, NumberTypes};

/// Adds the casts of an operation's inputs and weights; `numbers` has the formats of every node.
pub(super) fn add(layer: &mut LayerKernels, numbers: &[NumberTypes]) {
    let inputs: Vec<(usize, NodeId)> = layer.node.inputs.iter().copied().enumerate().collect();
    for (index, input) in inputs {
        let (node, from) = (layer.network.node(input), numbers[input.index()].result);
        if from == layer.numbers.result || node.element != ElementKind::Number {
            continue;
        }
        let elements = node.shape.elements() as f64;
        let [wide, narrow] = [from, layer.numbers.result].map(|number| number.bytes() as f64 * elements);
        let moved = BatchQuantity::per_sample(wide + narrow);
        layer.casts(KernelPass::Forward, moved, BatchQuantity::per_sample(narrow));
        if layer.gradients[index] {
            layer.casts(KernelPass::InputGradient, moved, BatchQuantity::per_sample(wide));
        }
    }
    if layer.numbers.weights != layer.step.precision.held_format() {
        let weights = layer.network.weights_of(layer.node) as f64;
        let learned = layer.network.learned_of(layer.node).iter().sum::<u64>() as f64;
        let [read, gradients] =
            [weights, learned].map(|elements| [layer.weight_bytes(elements), layer.held_bytes(elements)]);
        layer.casts(KernelPass::Forward, BatchQuantity::fixed(read[0] + read[1]), BatchQuantity::fixed(read[0]));
        if layer.learns_any() {
            layer.casts(
                KernelPass::WeightGradient,
                BatchQuantity::fixed(gradients[0] + gradients[1]),
                BatchQuantity::fixed(gradients[1]),
            );
        }
    }
}
