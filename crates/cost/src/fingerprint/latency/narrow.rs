//! Latency at a narrower precision than the profiled one, from a few rows: factors on the physical time of products,
//! and of all other kernels.

use super::cholesky::NormalEquations;
use super::cholesky::{Cholesky, dot};
use crate::features::physical::{Kernel, KernelPass};
use perf4sight_platform::{Platform, TensorMemory};
use serde::{Deserialize, Serialize};

/// Two kinds of kernels: products, at the processor's speed for such numbers, and all others, which move and convert
/// them.
const KINDS: usize = 2;

/// The prior of a factor: its mean and its standard deviation.
type FactorPrior = [f64; 2];

/// The physical time as it is: some devices compute eight times as many products of narrow numbers, others emulate
/// them.
const AS_PROMISED: FactorPrior = [1.0, 1.0];

/// Processors compute all kernels but products in single precision, so these take as long as there: twice the physical
/// time of their fewer bytes. On one core of an EPYC, the only one examined, rows give 1.4 to 2.5
/// (`docs/accuracy/latency.md`).
const AS_IN_SINGLE_PRECISION: FactorPrior = [2.0, 0.5];

/// The smallest possible factor.
const LEAST: f64 = 0.01;

/// Standard deviation, in logarithms, of a network that the two factors do not explain. With it nine of ten 90 %
/// intervals contain the measurements of networks of other families (`docs/accuracy/latency.md`, other precisions).
const NOISE: f64 = 0.09;

/// Iterations of the Gauss-Newton method: a step's time is a sum, linear in the factors except where launches
/// overlap.
const CORRECTIONS: usize = 8;

const SINGLE: f64 = 4.0;

/// Factors on the physical time of kernels at a narrower precision than single, as stored in a file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NarrowFactors {
    /// Factors of products, and of all other kernels.
    center: [f64; KINDS],
    /// The inverse of their covariance.
    certainty: [[f64; KINDS]; KINDS],
}

/// Measured milliseconds of a step, and its prediction as a function of the factors.
pub(super) type NarrowObservation<'a> = (f64, Box<dyn Fn(&NarrowFactors) -> f64 + 'a>);

/// Whether a kernel with narrow numbers is one of products or of the other kind. None where its numbers are not
/// narrow, such as weights that an optimizer changes.
pub(super) fn kind(kernel: &Kernel) -> Option<usize> {
    let is_narrow = kernel.element < SINGLE && kernel.pass != KernelPass::Update;
    is_narrow.then_some(usize::from(kernel.product.is_none()))
}

impl NarrowFactors {
    /// The prior of a device.
    pub fn prior(platform: &Platform) -> Self {
        let others = match platform.memory {
            TensorMemory::Host => AS_IN_SINGLE_PRECISION,
            TensorMemory::Dedicated | TensorMemory::Unified => AS_PROMISED,
        };
        let [products, others] = [AS_PROMISED, others].map(|[mean, deviation]| (mean, deviation.powi(-2)));
        NarrowFactors { center: [products.0, others.0], certainty: [[products.1, 0.0], [0.0, others.1]] }
    }

    pub fn factor(&self, kernel: &Kernel) -> f64 {
        kind(kernel).map_or(1.0, |kind| self.center[kind])
    }

    /// Updated by measured steps.
    pub fn updated(&self, rows: &[NarrowObservation<'_>]) -> Self {
        let mut at = *self;
        for _ in 0..CORRECTIONS {
            let normal = self.equations(rows, &at);
            // Information only grows, and the prior already gives some.
            let Some(change) = normal.solve(0.0) else { break };
            at = at.shifted(change);
        }
        NarrowFactors { certainty: self.equations(rows, &at).matrix, ..at }
    }

    fn equations(&self, rows: &[NarrowObservation<'_>], at: &NarrowFactors) -> NormalEquations<KINDS> {
        const STEP: f64 = 1e-4;
        let offset = std::array::from_fn(|kind| at.center[kind] - self.center[kind]);
        let known = NormalEquations { matrix: self.certainty, right: [0.0; KINDS] };
        let mut normal = known.with_prior_offset(&offset).0;
        for (measured, predicted) in rows {
            let here = predicted(at);
            let slopes = std::array::from_fn(|kind| {
                let aside = std::array::from_fn(|other| if other == kind { STEP } else { 0.0 });
                (predicted(&at.shifted(aside)) - here) / STEP / (NOISE * measured)
            });
            normal.add(&slopes, (here - measured) / (NOISE * measured), 1.0);
        }
        normal
    }

    fn shifted(&self, change: [f64; KINDS]) -> Self {
        NarrowFactors { center: std::array::from_fn(|kind| (self.center[kind] + change[kind]).max(LEAST)), ..*self }
    }

    /// Standard deviation, in logarithms, of a step in which the kinds of kernels have these shares of the time.
    pub fn deviation(&self, shares: [f64; KINDS]) -> f64 {
        let shares: [f64; KINDS] = std::array::from_fn(|kind| shares[kind] / self.center[kind]);
        let certainty = Cholesky::decompose(KINDS, |row, column| self.certainty[row][column]);
        let variance = certainty.map_or(0.0, |certainty| dot(&shares, &certainty.solve(&shares)));
        (variance + NOISE * NOISE).sqrt()
    }

    /// Whether a fit can give these values.
    pub fn is_valid(&self) -> bool {
        let is_factor = self.center.iter().all(|factor| (LEAST..=1e6).contains(factor));
        is_factor && Cholesky::decompose(KINDS, |row, column| self.certainty[row][column]).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The prior of a device limited by its memory.
    fn prior() -> NarrowFactors {
        NarrowFactors::prior(&Platform::for_name("orin").unwrap())
    }

    /// Two steps of 100 ms in single precision: one of 90 ms products, the other of 30. Products three times as fast and all else as fast as ever
    /// make them 40 and 80.
    #[test]
    fn two_steps_tell_products_from_everything_else() {
        let step = |products: f64| {
            move |narrow: &NarrowFactors| products * narrow.center[0] + (100.0 - products) * narrow.center[1]
        };
        let (first, second) = (step(90.0), step(30.0));
        let narrow = prior().updated(&[(40.0, Box::new(first)), (80.0, Box::new(second))]);
        // The prior, two thirds of a standard deviation away, weighs less than the 9 % error of the rows.
        let factors = narrow.center;
        assert!((factors[0] - 1.0 / 3.0).abs() < 0.03 && (factors[1] - 1.0).abs() < 0.03, "{factors:?}");
        assert!(narrow.deviation([0.5, 0.5]) < prior().deviation([0.5, 0.5]));
        assert!(narrow.deviation([0.5, 0.5]) >= NOISE && narrow.is_valid());
    }

    #[test]
    fn what_was_learned_before_counts_on() {
        let step = |narrow: &NarrowFactors| 50.0 * narrow.center[0] + 50.0 * narrow.center[1];
        let other = |narrow: &NarrowFactors| 80.0 * narrow.center[0] + 20.0 * narrow.center[1];
        let one_after_the_other = prior().updated(&[(60.0, Box::new(step))]).updated(&[(40.0, Box::new(other))]);
        let together = prior().updated(&[(60.0, Box::new(step)), (40.0, Box::new(other))]);
        let apart = [0, 1].map(|kind| (one_after_the_other.center[kind] - together.center[kind]).abs());
        assert!(apart.iter().all(|apart| *apart < 1e-6), "sums are linear: {apart:?}");
    }
}
