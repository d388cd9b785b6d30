//! The input of a fit: the rows of a profile, each with its network.

mod contradictory;
mod gather;
mod networks;

pub use gather::{GatheredRows, MOST_FITTED, gather};
pub use networks::NetworkFolder;

use crate::records::layers::LayerRecord;
use crate::records::{MeasurementOutcome, RowRecord};
use perf4sight_network::Network;
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Quantity, Step};
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// A row that passed, with the network it was measured on.
#[derive(Debug, Clone)]
pub struct MeasuredRow {
    /// Configuration, outcome and values.
    pub record: RowRecord,
    /// Milliseconds or MiB; positive.
    pub measured: f64,
    /// The network in the file that the row names.
    pub network: Arc<Network>,
    /// The same step operation by operation, where the profile timed them.
    pub layers: Vec<LayerRecord>,
}

/// A row that failed, with the network it was tried on: a censored observation.
#[derive(Debug, Clone)]
pub struct FailedAttempt {
    /// The row that did not fit.
    pub record: RowRecord,
    /// The network in the file that the row names.
    pub network: Arc<Network>,
}

impl FailedAttempt {
    /// Whether the step did not fit: it ran out of memory, or was skipped because a smaller batch had.
    pub fn did_not_fit(&self) -> bool {
        matches!(self.record.outcome, MeasurementOutcome::OutOfMemory | MeasurementOutcome::Skipped)
    }
}

/// The input of a fit.
#[derive(Debug, Clone, Copy)]
pub struct Observations<'a> {
    /// Rows whose step passed, to fit on.
    pub rows: &'a [MeasuredRow],
    /// Rows of calibration networks: used in every fit of latency, never predicted.
    pub taught: &'a [MeasuredRow],
    /// Rows whose step ran out of memory.
    pub failed: &'a [FailedAttempt],
    /// The facts of the device.
    pub platform: &'a Platform,
}

/// Which rows to take from which folders.
#[derive(Debug, Clone)]
pub struct RowSelection<'a> {
    /// Folders of `{variant}-gt.csv` files.
    pub folders: &'a [PathBuf],
    /// As in the names of the rows' files.
    pub networks: &'a [String],
    /// Which levels of each network.
    pub levels: LevelSelection,
    /// The step; rows without a stage count as this one's.
    pub step: Step,
    /// Latency or memory.
    pub quantity: Quantity,
}

/// Which levels of a network; all repeats of a level belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LevelSelection {
    /// These; one without a file is reported as missing.
    Only(BTreeSet<u8>),
    /// All levels but these.
    AllBut(BTreeSet<u8>),
}

impl LevelSelection {
    /// Whether a level is one of them.
    pub fn contain(&self, level: u8) -> bool {
        match self {
            LevelSelection::Only(levels) => levels.contains(&level),
            LevelSelection::AllBut(levels) => !levels.contains(&level),
        }
    }
}

impl fmt::Display for LevelSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (words, levels) = match self {
            LevelSelection::Only(levels) => ("levels", levels),
            LevelSelection::AllBut(levels) => ("all levels but", levels),
        };
        let levels: Vec<String> = levels.iter().map(u8::to_string).collect();
        write!(f, "{words} {}", levels.join(", "))
    }
}
