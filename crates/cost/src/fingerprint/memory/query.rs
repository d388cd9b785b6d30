//! The inputs of the memory model for one step.

use super::curve::{Curve, Load};
use super::kernels::Kernels;
use perf4sight_memory::{Peak, Simulation};

#[derive(Debug, Clone, Copy)]
pub(super) struct Query {
    /// Samples of a pass: those in memory at a time.
    pub batch: u64,
    pub parameters: u64,
    pub kernels: Kernels,
    pub simulated: Simulated,
}

impl Query {
    /// MiB by the curve.
    pub fn curve(&self, curve: &Curve) -> f64 {
        curve.at(&Load { demand: self.simulated.reserved + self.kernels.code, batch: self.batch })
    }

    pub fn whole(&self) -> Vec<f64> {
        vec![self.simulated.reserved, self.simulated.allocated, self.parameters as f64, self.batch as f64]
    }

    pub fn rest(&self) -> Vec<f64> {
        vec![self.simulated.reserved, self.batch as f64]
    }
}

/// Simulated memory of one step, in MiB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Simulated {
    pub reserved: f64,
    pub allocated: f64,
}

impl Simulated {
    pub fn new(simulation: &Simulation, batch: u64) -> Self {
        simulation.peak(batch).into()
    }

    /// A lower bound of the peak, where it is faster to find.
    pub fn at_least(simulation: &Simulation, batch: u64) -> Option<Self> {
        simulation.peak_at_least(batch).map(Simulated::from)
    }
}

impl From<Peak> for Simulated {
    fn from(peak: Peak) -> Self {
        Simulated { reserved: peak.reserved.mib(), allocated: peak.allocated.mib() }
    }
}
