//! What the simulation says of one step: the numbers memory is predicted from.

use perf4sight_memory::{Peak, Simulation};

/// Simulated memory of one step, in MiB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Simulated {
    pub reserved: f64,
    pub allocated: f64,
}

impl Simulated {
    pub fn of(simulation: &Simulation, batch: u64) -> Self {
        Simulated::from(simulation.peak(batch))
    }

    /// What it says at least, where that is found faster.
    pub fn at_least(simulation: &Simulation, batch: u64) -> Option<Self> {
        simulation.peak_at_least(batch).map(Simulated::from)
    }
}

impl From<Peak> for Simulated {
    fn from(peak: Peak) -> Self {
        Simulated { reserved: peak.reserved.mib(), allocated: peak.allocated.mib() }
    }
}
