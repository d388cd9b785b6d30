//! What a fit sees of a device: rows that passed, rows that did not, and the facts known of it beforehand.

use crate::records::layers::LayerRecord;
use crate::records::{Outcome, Record};
use perf4sight_network::Network;
use perf4sight_platform::Platform;
use std::sync::Arc;

/// A row that passed, with the network it was measured on.
#[derive(Debug, Clone)]
pub struct Row {
    /// The row.
    pub record: Record,
    /// Milliseconds or MiB; positive.
    pub measured: f64,
    /// The network that the row's file name stands for.
    pub network: Arc<Network>,
    /// The same step operation by operation, where the profile timed them.
    pub layers: Vec<LayerRecord>,
}

/// A row that failed, with the network it was tried on: a censored observation.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The row.
    pub record: Record,
    /// The network that the row's file name stands for.
    pub network: Arc<Network>,
}

impl Attempt {
    /// Whether the step did not fit: it ran out of memory, or was not even tried because a smaller batch had.
    pub fn did_not_fit(&self) -> bool {
        matches!(self.record.outcome, Outcome::OutOfMemory | Outcome::Skipped)
    }
}

/// What a fit sees.
#[derive(Debug, Clone, Copy)]
pub struct Observations<'a> {
    /// Rows that passed.
    pub rows: &'a [Row],
    /// Rows of the networks that only teach what operations cost: in every fit of latency, and never asked about.
    pub taught: &'a [Row],
    /// Rows that failed.
    pub failed: &'a [Attempt],
    /// The facts of the device.
    pub platform: &'a Platform,
}
