//! The inputs of the memory model for one step.

use super::curve::{MemoryLoad, UsageCurve};
use super::kernels::NetworkKernels;
use perf4sight_memory::{PeakMemory, Simulation};

#[derive(Debug, Clone, Copy)]
pub(super) struct MemoryQuery {
    /// Samples of a pass: those in memory at a time.
    pub batch: u64,
    pub parameters: u64,
    pub kernels: NetworkKernels,
    pub simulated: SimulatedMemory,
}

impl MemoryQuery {
    /// MiB by the curve.
    pub fn curve(&self, curve: &UsageCurve) -> f64 {
        curve.used_memory(&MemoryLoad { demand: self.simulated.reserved + self.kernels.code, batch: self.batch })
    }

    pub fn all_features(&self) -> Vec<f64> {
        vec![self.simulated.reserved, self.simulated.allocated, self.parameters as f64, self.batch as f64]
    }

    pub fn short_features(&self) -> Vec<f64> {
        vec![self.simulated.reserved, self.batch as f64]
    }
}

/// Simulated memory of one step, in MiB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SimulatedMemory {
    pub reserved: f64,
    pub allocated: f64,
}

impl SimulatedMemory {
    pub fn new(simulation: &Simulation, batch: u64) -> Self {
        simulation.peak(batch).into()
    }

    /// A lower bound of the peak, where it is faster to find.
    pub fn at_least(simulation: &Simulation, batch: u64) -> Option<Self> {
        simulation.peak_at_least(batch).map(SimulatedMemory::from)
    }
}

impl From<PeakMemory> for SimulatedMemory {
    fn from(peak: PeakMemory) -> Self {
        SimulatedMemory { reserved: peak.reserved.mib(), allocated: peak.allocated.mib() }
    }
}
