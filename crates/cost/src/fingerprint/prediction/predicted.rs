//! A predicted value, a type of its own so that it is never taken for a measured one.

use perf4sight_base::units::{Bytes, Milliseconds};
use perf4sight_step::workload::Quantity;
use std::fmt;

/// What a fingerprint answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Predicted {
    /// Time of a step.
    Latency(Milliseconds),
    /// Memory of a step.
    Memory(Bytes),
}

impl Predicted {
    /// From the unit of the profile's columns: milliseconds or MiB.
    pub(in crate::fingerprint) fn new(quantity: Quantity, value: f64) -> Self {
        match quantity {
            Quantity::Latency => Predicted::Latency(Milliseconds(value)),
            Quantity::Memory => Predicted::Memory(Bytes::from_mib(value)),
        }
    }

    /// In the unit of the profile's columns: milliseconds or MiB.
    pub fn value(self) -> f64 {
        match self {
            Predicted::Latency(latency) => latency.0,
            Predicted::Memory(memory) => memory.mib(),
        }
    }
}

impl fmt::Display for Predicted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Predicted::Latency(latency) => latency.fmt(f),
            Predicted::Memory(memory) => memory.fmt(f),
        }
    }
}
