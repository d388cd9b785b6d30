//! What a layer and a head take beyond the physical model.
//!
//! Layers of the same size deviate alike wherever they run, as a share of their time. Those of other sizes do not: they are other
//! kernels, and another tensor degree has other collectives.

use super::parameters::LogParameters;
use super::parts::PreparedPlan;
use crate::plan::TransformerPlan;
use ndarray::Array2;
use serde::{Deserialize, Serialize};

/// What a layer and a head compute on a GPU: tensor degree, micro-batch, width, tokens, heads, words.
pub(super) type PlanSize = [u64; 6];

/// Standard deviations, as shares of the time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct DeviationScales {
    /// Of the time of layers of a size.
    pub layer: f64,
    /// Of the time of heads of a size.
    pub head: f64,
    /// Of one measurement.
    pub noise: f64,
}

/// Standard deviations of the logarithms of strength and noise around the usual ones, before anything is measured.
const STRENGTH_SPREAD: f64 = 0.3;
const NOISE_SPREAD: f64 = 0.7;

/// Where a plan's deviations enter its step.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlanInfluence {
    size: PlanSize,
    /// The share of the step that is layers.
    layers: f64,
    head: f64,
}

impl DeviationScales {
    /// Chosen on the rows of vTrain; see `docs/cost-model.md`. [`DeviationScales::all`] are those that a fit chooses from.
    pub const USUAL: DeviationScales = DeviationScales { layer: 0.10, head: 0.10, noise: 0.015 };

    /// Combinations of noise and strength of deviations.
    pub fn all() -> impl Iterator<Item = DeviationScales> {
        let strengths = [0.5, 0.7, 1.0, 1.4, 2.0];
        let noises = [0.003, 0.008, 0.015, 0.03, 0.06];
        let DeviationScales { layer, head, .. } = DeviationScales::USUAL;
        strengths.into_iter().flat_map(move |strength| {
            noises.map(|noise| DeviationScales { layer: layer * strength, head: head * strength, noise })
        })
    }

    /// What rows leave of scales: the mean of their squares, each combination as probable as it makes the rows and was before. Few rows
    /// say little, and wide scales that they leave possible make intervals wide, as a Student distribution is wider than a normal one.
    pub fn posterior_scales(improbabilities: &[(f64, DeviationScales)]) -> DeviationScales {
        let all = improbabilities.iter().map(|(rows, scales)| (rows + scales.improbability(), scales));
        let least = all.clone().map(|(improbability, _)| improbability).fold(f64::INFINITY, f64::min);
        let mut sums = [0.0; 4];
        for (improbability, scales) in all {
            let weight = (0.5 * (least - improbability)).exp();
            let squares = [1.0, scales.layer.powi(2), scales.head.powi(2), scales.noise.powi(2)];
            sums.iter_mut().zip(squares).for_each(|(sum, square)| *sum += weight * square);
        }
        let [layer, head, noise] = [sums[1], sums[2], sums[3]].map(|sum| (sum / sums[0]).sqrt());
        DeviationScales { layer, head, noise }
    }

    /// How far they are from the usual ones: twice the negative logarithm of their density before anything is measured.
    fn improbability(&self) -> f64 {
        let far = |one: f64, usual: f64, spread: f64| ((one / usual).ln() / spread).powi(2);
        far(self.layer, DeviationScales::USUAL.layer, STRENGTH_SPREAD)
            + far(self.noise, DeviationScales::USUAL.noise, NOISE_SPREAD)
    }
}

impl PlanInfluence {
    pub fn new(prepared: &PreparedPlan, logs: &LogParameters) -> Self {
        let parts = prepared.parts(logs);
        let total = parts.total();
        PlanInfluence { size: size(&prepared.plan), layers: parts.layers / total, head: parts.head / total }
    }

    /// Covariance of the logarithms of two plans' steps, without noise.
    pub fn covariance(&self, other: &PlanInfluence, scales: &DeviationScales) -> f64 {
        match self.size == other.size {
            true => self.layers * other.layers * scales.layer.powi(2) + self.head * other.head * scales.head.powi(2),
            false => 0.0,
        }
    }
}

/// Covariances among rows, with noise.
pub(super) fn covariance(rows: &[PlanInfluence], scales: &DeviationScales) -> Array2<f64> {
    Array2::from_shape_fn((rows.len(), rows.len()), |(one, other)| {
        let noise = if one == other { scales.noise.powi(2) } else { 0.0 };
        rows[one].covariance(&rows[other], scales) + noise
    })
}

/// Whether a number of plans says what a layer or head computes on a GPU; the others say how these are arranged.
pub(super) fn is_of_size(name: &str) -> bool {
    ["tensor_parallel", "micro_batch", "hidden", "sequence", "heads", "vocabulary"].contains(&name)
}

/// The size of a plan's layers and head.
pub(super) fn size(plan: &TransformerPlan) -> PlanSize {
    [plan.tensor_parallel, plan.micro_batch, plan.hidden, plan.sequence, plan.heads, plan.vocabulary]
}
