//! The kernels of operations that are bound by memory: element-wise functions, normalisation, pooling, copies.

use super::kernel::{Access, Amount, Class, Pass};
use super::layer::Layer;
use crate::network::{Backward, Traffic};
use crate::workload::Stage;

/// Adds the kernels of an operation that multiplies no matrices; none where it moves nothing.
pub(super) fn add(layer: &mut Layer, class: Class, traffic: &Traffic) {
    let access = if traffic.strided { Access::Strided } else { Access::Contiguous };
    let (forward, trains) = match layer.step.stage {
        Stage::Training => (traffic.training, layer.network.trains(layer.node)),
        Stage::Inference => (traffic.inference, false),
    };
    if forward > 0.0 {
        layer.moves(Pass::Forward, class, access, Amount::per_sample(layer.bytes(forward)));
    }
    let backward = match &traffic.backward {
        Backward::Once(elements) => *elements,
        Backward::Each(elements) => {
            elements.iter().zip(&layer.gradients).filter(|(_, wanted)| **wanted).map(|(elements, _)| elements).sum()
        }
    };
    if backward > 0.0 && (layer.passes_on() || trains) {
        layer.moves(Pass::InputGradient, class, access, Amount::per_sample(layer.bytes(backward)));
    }
}
