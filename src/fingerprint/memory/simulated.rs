//! What the simulation says of one step: the numbers memory is predicted from.

use crate::memory::Simulation;

/// Simulated memory of one step, in MiB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Simulated {
    pub reserved: f64,
    pub allocated: f64,
}

impl Simulated {
    pub fn of(simulation: &Simulation, batch: u64) -> Self {
        let peak = simulation.peak(batch);
        Simulated { reserved: peak.reserved.mib(), allocated: peak.allocated.mib() }
    }
}
