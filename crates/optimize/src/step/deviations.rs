//! What a layer and a head take beyond the physical model, as a Gaussian process over what they compute.
//!
//! Layers of the same size deviate alike wherever they run: as a share of the layer's time, deviations of similar
//! sizes are similar, and of the same size equal.

use super::parameters::Logs;
use super::parts::Prepared;
use crate::plan::Plan;
use ndarray::Array2;
use serde::{Deserialize, Serialize};

/// Numbers that say what a layer computes: tensor degree, micro-batch, width, tokens, heads.
const COORDINATES: usize = 5;
/// Doublings over which deviations stay similar. Another tensor degree is another code path, with collectives of
/// another length: deviations carry over less than to another size.
const LENGTHS: [f64; COORDINATES] = [0.6, 1.2, 1.2, 1.2, 1.2];

/// Standard deviations, as shares of the time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Scales {
    /// Of a layer's time, similar among similar sizes.
    pub layer: f64,
    /// Of a layer's time, of a size alone.
    pub size: f64,
    /// Of the head's time.
    pub head: f64,
    /// Of one measurement.
    pub noise: f64,
}

/// Where a plan's deviations enter its step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Influence {
    place: [f64; COORDINATES],
    /// The share of the step that is layers.
    layers: f64,
    head: f64,
}

impl Scales {
    /// Chosen on the rows of vTrain; see `docs/cost-model.md`. [`Scales::all`] are those that a fit chooses from.
    pub const USUAL: Scales = Scales { layer: 0.10, size: 0.04, head: 0.10, noise: 0.015 };

    /// Combinations of noise and strength of deviations.
    pub fn all() -> impl Iterator<Item = Scales> {
        let strengths = [0.5, 1.0, 2.0];
        let noises = [0.003, 0.008, 0.015, 0.03, 0.06];
        let usual = Scales::USUAL;
        strengths.into_iter().flat_map(move |strength| {
            noises.map(|noise| Scales {
                layer: usual.layer * strength,
                size: usual.size * strength,
                head: usual.head * strength,
                noise,
            })
        })
    }
}

impl Influence {
    pub fn new(prepared: &Prepared, logs: &Logs) -> Self {
        let parts = prepared.parts(logs);
        let total = parts.total();
        Influence { place: place(&prepared.plan), layers: parts.layers / total, head: parts.head / total }
    }

    /// Covariance of the logarithms of two plans' steps, without noise.
    pub fn covariance(&self, other: &Influence, scales: &Scales) -> f64 {
        let squared: f64 = self.place.iter().zip(other.place).map(|(one, other)| (one - other).powi(2)).sum();
        let similar = (-0.5 * squared).exp();
        // Coordinates are logarithms of whole numbers: equal sizes give equal bits.
        let equal = if squared == 0.0 { 1.0 } else { 0.0 };
        let layer = scales.layer.powi(2) * similar + scales.size.powi(2) * equal;
        self.layers * other.layers * layer + self.head * other.head * scales.head.powi(2) * similar
    }
}

/// Covariances among rows, with noise.
pub(super) fn covariance(rows: &[Influence], scales: &Scales) -> Array2<f64> {
    Array2::from_shape_fn((rows.len(), rows.len()), |(one, other)| {
        let noise = if one == other { scales.noise.powi(2) } else { 0.0 };
        rows[one].covariance(&rows[other], scales) + noise
    })
}

fn place(plan: &Plan) -> [f64; COORDINATES] {
    let numbers = [plan.tensor_parallel, plan.micro_batch, plan.hidden, plan.sequence, plan.heads];
    let mut place = numbers.map(|number| (number as f64).log2());
    place.iter_mut().zip(LENGTHS).for_each(|(coordinate, length)| *coordinate /= length);
    place
}
