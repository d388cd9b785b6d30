//! The hybrid method: memory by simulation, latency by physical terms, and only what is left over by fitting.

use super::latency::Latency;
use super::memory::Memory;
use super::rows::{Attempt, Observations, Row};
use crate::error::{Error, Result};
use crate::workload::{Quantity, Step};
use serde::{Deserialize, Serialize};

/// What it fitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Hybrid {
    Memory(Box<Memory>),
    Latency(Box<Latency>),
}

impl Hybrid {
    pub fn fit(step: Step, quantity: Quantity, seed: u64, observations: &Observations) -> Result<Self> {
        match quantity {
            Quantity::Memory => Memory::fit(step, seed, observations).map(|memory| Hybrid::Memory(Box::new(memory))),
            Quantity::Latency => Ok(Hybrid::Latency(Box::new(Latency::fit(step, seed, observations)?))),
        }
    }

    /// The same with more rows.
    pub fn calibrate(&self, step: Step, rows: &[Row], failed: &[Attempt]) -> Result<Self> {
        match self {
            Hybrid::Memory(memory) => Ok(Hybrid::Memory(Box::new(memory.calibrate(step, rows, failed)?))),
            Hybrid::Latency(latency) => Ok(Hybrid::Latency(Box::new(latency.calibrate(step, rows)))),
        }
    }

    /// Refuses what speaks of another quantity than the file says, and what no fit gives.
    pub fn check(&self, quantity: Quantity) -> Result<()> {
        match (self, quantity) {
            (Hybrid::Memory(memory), Quantity::Memory) => memory.check(),
            (Hybrid::Latency(latency), Quantity::Latency) => latency.check(),
            _ => Err(Error::input("what this fingerprint fitted is not what it speaks of")),
        }
    }
}
