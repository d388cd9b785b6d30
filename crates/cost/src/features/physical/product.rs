//! The kernels of fully connected layers and of products of activations.

use super::kernel::{Access, Amount, Class, Pass, Product};
use super::layer::Layer;
use perf4sight_network::Linear;

pub(super) fn add_linear(layer: &mut Layer, linear: &Linear) {
    let outputs = linear.out_features as f64;
    let tokens = layer.outputs() / outputs;
    let inputs = layer.inputs() / tokens;
    let [features, results] = [inputs, outputs].map(Amount::fixed);
    let samples = Amount::per_sample(tokens);
    let traffic =
        Amount { fixed: layer.weight_bytes(inputs * outputs), sample: layer.bytes(tokens * (inputs + outputs)) };
    let product = |rows, columns, inner| Product { rows, columns, inner, blocks: Amount::fixed(1.0) };
    layer.multiplies(Pass::Forward, Class::Linear, product(results, samples, features), traffic);
    if layer.passes_on() {
        layer.multiplies(Pass::InputGradient, Class::Linear, product(features, samples, results), traffic);
    }
    if layer.learns(0) {
        layer.multiplies(Pass::WeightGradient, Class::Linear, product(results, features, samples), traffic);
    }
    if linear.bias && layer.learns(1) {
        let reduced = Amount::per_sample(layer.bytes(tokens * outputs));
        layer.moves(Pass::WeightGradient, Class::Linear, Access::Contiguous, reduced);
    }
}

/// Adds a product of two activations and the two products of its gradients.
pub(super) fn add_matmul(layer: &mut Layer) {
    let [left, right] = [0, 1].map(|input| layer.network.input_of(layer.node, input).dims().to_vec());
    // Both have at least two axes, which building the network checks.
    let (rows, inner) = (left[left.len() - 2] as f64, left[left.len() - 1] as f64);
    let columns = right[right.len() - 1] as f64;
    let blocks = layer.outputs() / (rows * columns);
    let elements = blocks * (rows * inner + inner * columns + rows * columns);
    let product = |rows, columns, inner| Product {
        rows: Amount::fixed(rows),
        columns: Amount::fixed(columns),
        inner: Amount::fixed(inner),
        blocks: Amount::per_sample(blocks),
    };
    let traffic = Amount::per_sample(layer.bytes(elements));
    layer.multiplies(Pass::Forward, Class::MatMul, product(rows, columns, inner), traffic);
    let gradients = [product(rows, inner, columns), product(inner, columns, rows)];
    for (gradient, wanted) in gradients.into_iter().zip(layer.gradients.clone()) {
        if wanted {
            layer.multiplies(Pass::InputGradient, Class::MatMul, gradient, traffic);
        }
    }
}

/// Adds the two products of an attention and the five of its gradients, which compute the scores again
/// (aten/src/ATen/native/cpu/FlashAttentionKernel.cpp). Scores stay in caches.
pub(super) fn add_attention(layer: &mut Layer) {
    let sides = |input: usize| layer.network.input_of(layer.node, input).image().map(|side| side as f64);
    let [[rows, inner], [keys, columns]] = [0, 2].map(sides);
    let blocks = layer.outputs() / (rows * columns);
    let product = |rows, columns, inner| Product {
        rows: Amount::fixed(rows),
        columns: Amount::fixed(columns),
        inner: Amount::fixed(inner),
        blocks: Amount::per_sample(blocks),
    };
    let traffic = Amount::per_sample(layer.bytes(blocks * (rows + keys) * (inner + columns) / 2.0));
    let (scores, mixed) = (product(rows, keys, inner), product(rows, columns, keys));
    for forward in [scores, mixed] {
        layer.multiplies(Pass::Forward, Class::MatMul, forward, traffic);
    }
    if layer.passes_on() {
        let gradients = [product(keys, columns, rows), product(rows, keys, columns), product(rows, inner, keys)];
        for gradient in gradients.into_iter().chain([scores, product(keys, inner, rows)]) {
            layer.multiplies(Pass::InputGradient, Class::MatMul, gradient, traffic);
        }
    }
}
