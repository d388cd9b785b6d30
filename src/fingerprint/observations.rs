//! What a fit sees of a device: rows that passed, rows that did not, and the facts known of it beforehand.

use super::rows::{Gathered, Row};
use crate::network::Network;
use crate::records::{Outcome, Record};
use crate::target::Target;
use std::sync::Arc;

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
    /// Rows that failed.
    pub failed: &'a [Attempt],
    /// The facts of the device.
    pub target: &'a Target,
}

impl Gathered {
    /// These rows as observations of a device.
    pub fn observations<'a>(&'a self, target: &'a Target) -> Observations<'a> {
        Observations { rows: &self.rows, failed: &self.failed, target }
    }
}
