//! What is asked about one step.

use super::curve::{Curve, Load};
use super::digest::{Digested, Known};
use super::kernels::Kernels;
use super::simulated::Simulated;

/// What is asked of one step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Query {
    /// Samples of a pass: as many as lie there at a time.
    pub batch: u64,
    pub parameters: u64,
    pub kernels: Kernels,
    pub simulated: Simulated,
}

impl Query {
    /// MiB by the curve.
    pub(super) fn curve(&self, curve: &Curve) -> f64 {
        curve.at(&Load { demand: self.simulated.reserved + self.kernels.code, batch: self.batch })
    }

    pub(super) fn whole(&self) -> Vec<f64> {
        vec![self.simulated.reserved, self.simulated.allocated, self.parameters as f64, self.batch as f64]
    }

    pub(super) fn rest(&self) -> Vec<f64> {
        vec![self.simulated.reserved, self.batch as f64]
    }
}

impl Known {
    /// What is asked of the trees about one of its steps.
    pub(super) fn query(&self, step: &Digested) -> Query {
        let &Digested { batch, simulated, .. } = step;
        Query { batch, parameters: self.parameters, kernels: self.kernels(), simulated }
    }
}
