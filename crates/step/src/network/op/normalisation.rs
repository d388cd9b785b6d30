//! Normalisations, and softmax, which is one without weights.

use super::facts::{At, Beside, Coupling, Facts, Gradient, Nature, Needs, Spans, Storage, Traffic, Weight};
use crate::network::Shape;

/// What is normalised along an axis keeps its shape.
pub(super) fn shape(axis: usize, input: &Shape) -> Result<Shape, String> {
    match axis < input.rank() {
        true => Ok(input.clone()),
        false => Err(format!("has no axis {axis} in {input}")),
    }
}

/// Normalises channels over all samples of a batch, with scale and shift; keeps running mean and variance.
pub(super) fn batch<'a>(at: At) -> Facts<'a> {
    let channels = Shape::new([at.output().channels()]);
    let outputs = at.outputs();
    // Training reads the input for the statistics and again to apply them; the gradient reads input and gradient twice.
    let traffic = Traffic { inference: 2.0 * outputs, ..Traffic::of(3.0 * outputs, 5.0 * outputs) };
    Facts { buffers: vec![channels.clone(); 2], traffic, ..scaled(channels, 0) }
}

/// Normalises every sample by itself over the axes from `axis` on, with scale and shift.
pub(super) fn layer<'a>(at: At, axis: usize) -> Facts<'a> {
    let (rows, normalised) = at.output().dims().split_at(axis);
    let outputs = at.outputs();
    Facts {
        // aten/src/ATen/native/layer_norm.cpp: mean and inverse deviation of every normalised row.
        beside: Some(Beside::Statistics(Shape::new(rows).elements())),
        traffic: Traffic::of(3.0 * outputs, 5.0 * outputs),
        ..scaled(Shape::new(normalised), axis)
    }
}

/// What normalises and has a scale and a shift of these dimensions, which lie along the result's axes from `first` on.
fn scaled<'a>(dims: Shape, first: usize) -> Facts<'a> {
    let weight = Weight { dims, spans: Spans::Result { first } };
    Facts {
        weights: vec![weight; 2],
        needs: Needs::Inputs,
        ..Facts::of(Nature::Normalisation, Coupling::Same, Gradient::Made)
    }
}

pub(super) fn softmax<'a>(at: At) -> Facts<'a> {
    let outputs = at.outputs();
    Facts {
        needs: Needs::Result,
        storage: Storage::Needed,
        traffic: Traffic::of(3.0 * outputs, 4.0 * outputs),
        ..Facts::of(Nature::Softmax, Coupling::Same, Gradient::Made)
    }
}
