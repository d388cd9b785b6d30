//! The kernels of operations that are bound by memory: element-wise functions, normalisation, pooling, copies.

use super::kernel::{Access, Amount, Class, Pass};
use super::layer::Layer;
use perf4sight_network::{Backward, Embedding, Traffic};

/// Adds the kernels of an operation without matrix products; none where it moves nothing.
pub(super) fn add(layer: &mut Layer, class: Class, traffic: &Traffic) {
    let access = if traffic.strided { Access::Strided } else { Access::Contiguous };
    let as_in_training = layer.network.works_as_in_training(layer.node, layer.step);
    let forward = if as_in_training { traffic.training } else { traffic.inference };
    if forward > 0.0 {
        layer.moves(Pass::Forward, class, access, Amount::per_sample(layer.bytes(forward)));
    }
    let backward = match &traffic.backward {
        Backward::Once(elements) => *elements,
        Backward::Each(elements) => {
            elements.iter().zip(&layer.gradients).filter(|(_, wanted)| **wanted).map(|(elements, _)| elements).sum()
        }
        Backward::Normalised { batch, kept } => {
            if as_in_training {
                *batch
            } else {
                *kept
            }
        }
    };
    if backward > 0.0 && (layer.passes_on() || layer.learns_any()) {
        layer.moves(Pass::InputGradient, class, access, Amount::per_sample(layer.bytes(backward)));
    }
}

/// Adds a lookup: rows read and written, and a gradient as large as the table, filled with zeros and added to
/// (`embedding_dense_backward` of aten/src/ATen/native/Embedding.cpp).
pub(super) fn add_embedding(layer: &mut Layer, embedding: &Embedding) {
    let amount = |elements: f64| match embedding.fixed {
        Some(_) => Amount::fixed(layer.bytes(elements)),
        None => Amount::per_sample(layer.bytes(elements)),
    };
    let (rows, added) = (amount(2.0 * layer.outputs()), amount(3.0 * layer.outputs()));
    layer.moves(Pass::Forward, Class::Copy, Access::Strided, rows);
    if layer.step.trains() && layer.network.trains(layer.node) {
        let table = layer.weight_bytes((embedding.rows * embedding.width) as f64);
        let gradient = Amount { fixed: added.fixed + table, ..added };
        layer.moves(Pass::WeightGradient, Class::Copy, Access::Strided, gradient);
    }
}
