//! The numbers of CPUs to try a job with.

use serde::{Deserialize, Serialize};

/// Numbers of CPUs with a fixed step, up to a largest one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuGrid {
    cpus: Vec<f64>,
    step: f64,
}

/// Up to this many CPUs the usual step is a quarter.
const QUARTERS: f64 = 6.0;
/// Up to this many it is a half. Of more CPUs, a knee needs only whole ones.
const HALVES: f64 = 12.0;

impl CpuGrid {
    /// All multiples of the step below the most, and the most itself. Both are positive; with a step above the most,
    /// only the most.
    pub fn new(most: f64, step: f64) -> Self {
        let below = (1..).map(|number| f64::from(number) * step).take_while(|cpus| *cpus < most);
        CpuGrid { cpus: below.chain([most]).collect(), step }
    }

    /// The default step: small jobs run on fractions of CPUs.
    pub fn usual_step(most: f64) -> f64 {
        match most {
            most if most <= QUARTERS => 0.25,
            most if most <= HALVES => 0.5,
            _ => 1.0,
        }
    }

    /// Without the numbers of CPUs that the job cannot run with.
    #[must_use]
    pub fn without(mut self, cpus: &[f64]) -> Self {
        self.cpus.retain(|candidate| !cpus.contains(candidate));
        self
    }

    /// All numbers, from the least to the most.
    pub fn cpus(&self) -> &[f64] {
        &self.cpus
    }

    /// The step between them, except for the last one.
    pub fn step(&self) -> f64 {
        self.step
    }

    /// The previous number of CPUs; none for the least.
    pub fn previous(&self, cpus: f64) -> Option<f64> {
        self.cpus.iter().copied().take_while(|candidate| *candidate < cpus).last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_end_at_the_most() {
        assert_eq!(CpuGrid::new(2.0, 0.5).cpus(), [0.5, 1.0, 1.5, 2.0]);
        assert_eq!(CpuGrid::new(2.5, 1.0).cpus(), [1.0, 2.0, 2.5]);
        assert_eq!(CpuGrid::new(0.5, 1.0).cpus(), [0.5]);
        assert_eq!(CpuGrid::new(24.0, CpuGrid::usual_step(24.0)).cpus().len(), 24);
        assert_eq!(CpuGrid::new(6.0, CpuGrid::usual_step(6.0)).cpus().len(), 24);
    }

    #[test]
    fn what_cannot_be_run_is_no_neighbour() {
        let grid = CpuGrid::new(4.0, 1.0).without(&[2.0]);
        assert_eq!((grid.previous(3.0), grid.previous(1.0)), (Some(1.0), None));
    }
}
