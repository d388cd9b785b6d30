//! Chooses the most informative row. A Gaussian process over all candidates gives the variance of each; the chosen row
//! reduces the total variance most.
//!
//! The variances depend only on which configurations were measured, not on the measured values (D. A. Cohn, Z.
//! Ghahramani, M. I. Jordan, "Active learning with statistical models", 1996: the row that lowers the mean variance
//! most). The covariance of two rows falls with their distance in the quantities that cost depends on. It is smaller
//! between different networks: half of the prior variance is specific to each network.

use super::candidate::{PLACES, PlanCandidate};

/// Length scales of the logarithms of batch size, multiply-accumulates, activations and memory: a factor of three in
/// sizes, of fifteen in the batch size, in which cost is smooth. Half of these values costs a quarter of a point of
/// accuracy (`docs/accuracy/adaptive-profiles.md`).
const LENGTHS: [f64; PLACES] = [2.7, 1.1, 1.1, 1.1];

/// The share of the prior variance that all networks have in common; the rest is specific to each network.
const COMMON: f64 = 0.5;

/// The variance specific to a variant, compared with 1 for the gradual part. They are equal so that rows are spread
/// over variants.
const VARIANT: f64 = 1.0;

/// The variance of a measurement, compared with 1 for the prior variance.
const NOISE: f64 = 0.05;

/// About this many candidates represent all of them: the variance is summed over these.
const REFERENCES: usize = 700;

/// The current variances and covariances of all candidates.
#[derive(Debug, Clone)]
pub(super) struct PlanDesign {
    references: Vec<usize>,
    /// The covariance of every candidate with every reference, by candidate.
    covariances: Vec<f64>,
    variances: Vec<f64>,
    /// For each row so far, how it lowered the variances: the columns of a Cholesky factor.
    learned: Vec<Vec<f64>>,
}

impl PlanDesign {
    /// The prior, before any row.
    pub fn new(candidates: &[PlanCandidate]) -> Self {
        let stride = candidates.len().div_ceil(REFERENCES).max(1);
        let references: Vec<usize> = (0..candidates.len()).step_by(stride).collect();
        let pairs = candidates.iter().flat_map(|one| references.iter().map(|&other| alike(one, &candidates[other])));
        PlanDesign {
            covariances: pairs.collect(),
            variances: candidates.iter().map(|one| alike(one, one)).collect(),
            references,
            learned: Vec::new(),
        }
    }

    /// Adds a row of a candidate.
    pub fn observe(&mut self, candidates: &[PlanCandidate], at: usize) {
        let mut column: Vec<f64> = candidates.iter().map(|other| alike(&candidates[at], other)).collect();
        for learned in &self.learned {
            let own = learned[at];
            column.iter_mut().zip(learned).for_each(|(covariance, other)| *covariance -= own * other);
        }
        let scale = (column[at] + NOISE).sqrt().recip();
        column.iter_mut().for_each(|covariance| *covariance *= scale);
        let of_references: Vec<f64> = self.references.iter().map(|&reference| column[reference]).collect();
        for (row, own) in self.covariances.chunks_mut(self.references.len()).zip(&column) {
            row.iter_mut().zip(&of_references).for_each(|(covariance, other)| *covariance -= own * other);
        }
        self.variances.iter_mut().zip(&column).for_each(|(variance, own)| *variance -= own * own);
        self.learned.push(column);
    }

    /// By how much a row of a candidate would lower the weighted sum of variances; `weights` has a weight for every
    /// candidate.
    pub fn gain(&self, at: usize, weights: &[f64]) -> f64 {
        let width = self.references.len();
        let row = &self.covariances[at * width..(at + 1) * width];
        let lowered =
            row.iter().zip(&self.references).map(|(covariance, &other)| weights[other] * covariance * covariance);
        lowered.sum::<f64>() / (self.variances[at] + NOISE)
    }

    pub fn variance(&self, at: usize) -> f64 {
        self.variances[at]
    }
}

/// The covariance of two candidates before anything is measured.
fn alike(one: &PlanCandidate, other: &PlanCandidate) -> f64 {
    if one.configuration.workload.step != other.configuration.workload.step {
        return 0.0;
    }
    let offsets = one.place.iter().zip(&other.place).zip(LENGTHS).map(|((a, b), length)| ((a - b) / length).powi(2));
    let near = (-0.5 * offsets.sum::<f64>()).exp();
    let [network, variant] = [one.network == other.network, one.variant == other.variant].map(f64::from);
    near * (COMMON + (1.0 - COMMON) * network) + VARIANT * variant
}
