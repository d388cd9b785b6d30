//! The kernels of fully connected layers and of products of activations.

use super::kernel::{AccessPattern, BatchQuantity, KernelClass, KernelPass, MatrixProduct};
use super::layer::LayerKernels;
use perf4sight_network::Linear;

pub(super) fn add_linear(layer: &mut LayerKernels, linear: &Linear) {
    let outputs = linear.out_features as f64;
    let tokens = layer.outputs() / outputs;
    let inputs = layer.inputs() / tokens;
    let [features, results] = [inputs, outputs].map(BatchQuantity::fixed);
    let samples = BatchQuantity::per_sample(tokens);
    let traffic =
        BatchQuantity { fixed: layer.weight_bytes(inputs * outputs), sample: layer.bytes(tokens * (inputs + outputs)) };
    let product = |rows, columns, inner| MatrixProduct { rows, columns, inner, blocks: BatchQuantity::fixed(1.0) };
    layer.multiplies(KernelPass::Forward, KernelClass::Linear, product(results, samples, features), traffic);
    if layer.passes_on() {
        layer.multiplies(KernelPass::InputGradient, KernelClass::Linear, product(features, samples, results), traffic);
    }
    if layer.trains(0) {
        layer.multiplies(KernelPass::WeightGradient, KernelClass::Linear, product(results, features, samples), traffic);
    }
    if linear.bias && layer.trains(1) {
        let reduced = BatchQuantity::per_sample(layer.bytes(tokens * outputs));
        layer.add_movement(KernelPass::WeightGradient, KernelClass::Linear, AccessPattern::Contiguous, reduced);
    }
}

/// Adds a product of two activations and the two products of its gradients.
pub(super) fn add_matmul(layer: &mut LayerKernels) {
    let [left, right] = [0, 1].map(|input| layer.network.input_of(layer.node, input).dims().to_vec());
    // Both have at least two axes, which building the network checks.
    let (rows, inner) = (left[left.len() - 2] as f64, left[left.len() - 1] as f64);
    let columns = right[right.len() - 1] as f64;
    let blocks = layer.outputs() / (rows * columns);
    let elements = blocks * (rows * inner + inner * columns + rows * columns);
    let product = |rows, columns, inner| MatrixProduct {
        rows: BatchQuantity::fixed(rows),
        columns: BatchQuantity::fixed(columns),
        inner: BatchQuantity::fixed(inner),
        blocks: BatchQuantity::per_sample(blocks),
    };
    let traffic = BatchQuantity::per_sample(layer.bytes(elements));
    layer.multiplies(KernelPass::Forward, KernelClass::MatMul, product(rows, columns, inner), traffic);
    let gradients = [product(rows, inner, columns), product(inner, columns, rows)];
    for (gradient, wanted) in gradients.into_iter().zip(layer.gradients.clone()) {
        if wanted {
            layer.multiplies(KernelPass::InputGradient, KernelClass::MatMul, gradient, traffic);
        }
    }
}

/// Adds the two products of an attention and the five of its gradients, which compute the scores again
/// (aten/src/ATen/native/cpu/FlashAttentionKernel.cpp). Scores stay in caches.
pub(super) fn add_attention(layer: &mut LayerKernels) {
    let sides = |input: usize| layer.network.input_of(layer.node, input).image().map(|side| side as f64);
    let [[rows, inner], [keys, columns]] = [0, 2].map(sides);
    let blocks = layer.outputs() / (rows * columns);
    let product = |rows, columns, inner| MatrixProduct {
        rows: BatchQuantity::fixed(rows),
        columns: BatchQuantity::fixed(columns),
        inner: BatchQuantity::fixed(inner),
        blocks: BatchQuantity::per_sample(blocks),
    };
    let traffic = BatchQuantity::per_sample(layer.bytes(blocks * (rows + keys) * (inner + columns) / 2.0));
    let (scores, mixed) = (product(rows, keys, inner), product(rows, columns, keys));
    for forward in [scores, mixed] {
        layer.multiplies(KernelPass::Forward, KernelClass::MatMul, forward, traffic);
    }
    if layer.passes_on() {
        let gradients = [product(keys, columns, rows), product(rows, keys, columns), product(rows, inner, keys)];
        for gradient in gradients.into_iter().chain([scores, product(keys, inner, rows)]) {
            layer.multiplies(KernelPass::InputGradient, KernelClass::MatMul, gradient, traffic);
        }
    }
}
