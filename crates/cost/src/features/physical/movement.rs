//! The kernels of operations that are bound by memory: element-wise functions, normalisation, pooling, copies.

use super::kernel::{AccessPattern, BatchQuantity, KernelClass, KernelPass};
use super::layer::LayerKernels;
use perf4sight_network::{BackwardTraffic, Embedding, MemoryTraffic};

/// Adds the kernels of an operation without matrix products; none where it moves nothing.
pub(super) fn add(layer: &mut LayerKernels, class: KernelClass, traffic: &MemoryTraffic) {
    let access = if traffic.strided { AccessPattern::Strided } else { AccessPattern::Contiguous };
    let as_in_training = layer.network.works_as_in_training(layer.node, layer.step);
    let forward = if as_in_training { traffic.training } else { traffic.inference };
    if forward > 0.0 {
        layer.add_movement(KernelPass::Forward, class, access, BatchQuantity::per_sample(layer.bytes(forward)));
    }
    let backward = match &traffic.backward {
        BackwardTraffic::Once(elements) => *elements,
        BackwardTraffic::Each(elements) => {
            elements.iter().zip(&layer.gradients).filter(|(_, wanted)| **wanted).map(|(elements, _)| elements).sum()
        }
        BackwardTraffic::Normalised { batch, kept } => {
            if as_in_training {
                *batch
            } else {
                *kept
            }
        }
    };
    if backward > 0.0 && (layer.passes_on() || layer.learns_any()) {
        layer.add_movement(KernelPass::InputGradient, class, access, BatchQuantity::per_sample(layer.bytes(backward)));
    }
}

/// Adds a lookup: rows read and written, and a gradient as large as the table, filled with zeros and added to
/// (`embedding_dense_backward` of aten/src/ATen/native/Embedding.cpp).
pub(super) fn add_embedding(layer: &mut LayerKernels, embedding: &Embedding) {
    let amount = |elements: f64| match embedding.fixed {
        Some(_) => BatchQuantity::fixed(layer.bytes(elements)),
        None => BatchQuantity::per_sample(layer.bytes(elements)),
    };
    let (rows, added) = (amount(2.0 * layer.outputs()), amount(3.0 * layer.outputs()));
    layer.add_movement(KernelPass::Forward, KernelClass::Copy, AccessPattern::Strided, rows);
    if layer.step.trains() && layer.network.trains(layer.node) {
        let table = layer.weight_bytes((embedding.rows * embedding.width) as f64);
        let gradient = BatchQuantity { fixed: added.fixed + table, ..added };
        layer.add_movement(KernelPass::WeightGradient, KernelClass::Copy, AccessPattern::Strided, gradient);
    }
}
