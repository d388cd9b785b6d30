//! The hybrid method: memory by simulation, latency by physical terms, and only what is left over by fitting.

use super::memory::Memory;
use super::observations::Observations;
use super::published::Published;
use super::rows::Row;
use super::spread::Spread;
use crate::error::{Error, Result};
use crate::workload::{Quantity, Stage};
use serde::{Deserialize, Serialize};

/// What it fitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Hybrid {
    Memory(Memory),
    Latency(Published),
}

impl Hybrid {
    pub fn fit(stage: Stage, quantity: Quantity, seed: u64, observations: &Observations) -> Result<Self> {
        match quantity {
            Quantity::Memory => Ok(Hybrid::Memory(Memory::fit(stage, observations))),
            Quantity::Latency => Published::fit(stage, seed, observations.rows).map(Hybrid::Latency),
        }
    }

    /// The same, fitted with more rows.
    pub fn calibrate(&self, stage: Stage, rows: &[Row]) -> Result<Self> {
        match self {
            Hybrid::Memory(memory) => Ok(Hybrid::Memory(memory.calibrate(stage, rows))),
            Hybrid::Latency(_) => Err(Error::input("this latency fingerprint keeps no rows to refit with")),
        }
    }

    /// Refuses what speaks of another quantity than the file says.
    pub fn check(&self, stage: Stage, quantity: Quantity) -> Result<()> {
        match (self, quantity) {
            (Hybrid::Memory(_), Quantity::Memory) => Ok(()),
            (Hybrid::Latency(latency), Quantity::Latency) => latency.check(stage),
            _ => Err(Error::input("what this fingerprint fitted is not what it speaks of")),
        }
    }

    pub fn spread(&self) -> Option<Spread> {
        match self {
            Hybrid::Memory(memory) => memory.spread(),
            Hybrid::Latency(_) => None,
        }
    }
}
