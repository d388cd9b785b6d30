//! Which row is most informative: a Gaussian process over everything that could be measured says how well each is known, and the row is
//! chosen that makes all of it known best.
//!
//! Only where something was measured matters for that, not what came of it (D. A. Cohn, Z. Ghahramani, M. I. Jordan, "Active
//! learning with statistical models", 1996: the row that lowers the mean variance most). What a row says of another falls with how
//! far apart they are in what cost depends on, and is less for another network: half of what is known of a network is its own.

use super::candidate::{Candidate, PLACES};

/// Logarithms of batch size, multiply-accumulates, activations and memory over which a row loses most of its say: a factor of three
/// in sizes, of fifteen in the batch size, in which cost is smooth. Half of it costs a quarter of a point of accuracy (`docs/accuracy/adaptive-profiles.md`).
const LENGTHS: [f64; PLACES] = [2.7, 1.1, 1.1, 1.1];

/// What is known of a network for all networks is this part of what is known of it; the rest is its own.
const COMMON: f64 = 0.5;

/// What sets a variant apart from its neighbours at other levels, beside 1 for all that changes gradually: as much, so that rows are
/// spread over variants.
const VARIANT: f64 = 1.0;

/// What a measurement leaves open, beside 1 for what is open before it.
const NOISE: f64 = 0.05;

/// As many candidates as this stand for all: what a row says is summed over them.
const REFERENCES: usize = 700;

/// How well everything is known.
#[derive(Debug, Clone)]
pub(super) struct Design {
    references: Vec<usize>,
    /// Of every candidate with every reference, by candidate.
    covariances: Vec<f64>,
    variances: Vec<f64>,
    /// For each row so far, how it lowered the variances: the columns of a Cholesky factor.
    learned: Vec<Vec<f64>>,
}

impl Design {
    /// Nothing is known yet.
    pub fn new(candidates: &[Candidate]) -> Self {
        let stride = candidates.len().div_ceil(REFERENCES).max(1);
        let references: Vec<usize> = (0..candidates.len()).step_by(stride).collect();
        let pairs = candidates.iter().flat_map(|one| references.iter().map(|&other| alike(one, &candidates[other])));
        Design {
            covariances: pairs.collect(),
            variances: candidates.iter().map(|one| alike(one, one)).collect(),
            references,
            learned: Vec::new(),
        }
    }

    /// Takes note of a row of a candidate.
    pub fn observe(&mut self, candidates: &[Candidate], at: usize) {
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

    /// By how much a row of a candidate would lower the variance of all that matters: `weights` of every candidate.
    pub fn gain(&self, at: usize, weights: &[f64]) -> f64 {
        let width = self.references.len();
        let row = &self.covariances[at * width..(at + 1) * width];
        let lowered =
            row.iter().zip(&self.references).map(|(covariance, &other)| weights[other] * covariance * covariance);
        lowered.sum::<f64>() / (self.variances[at] + NOISE)
    }

    /// How little is known of a candidate.
    pub fn variance(&self, at: usize) -> f64 {
        self.variances[at]
    }
}

/// The covariance of two candidates before anything is measured.
fn alike(one: &Candidate, other: &Candidate) -> f64 {
    if one.configuration.workload.step != other.configuration.workload.step {
        return 0.0;
    }
    let offsets = one.place.iter().zip(&other.place).zip(LENGTHS).map(|((a, b), length)| ((a - b) / length).powi(2));
    let near = (-0.5 * offsets.sum::<f64>()).exp();
    let [network, variant] = [one.network == other.network, one.variant == other.variant].map(f64::from);
    near * (COMMON + (1.0 - COMMON) * network) + VARIANT * variant
}
