//! Measurements of a rank that are not in its trace, and its iterations without the overhead of the profiler.

use super::drift::Drift;
use crate::categories::sets::Sets;
use crate::operations::Operation;
use perf4sight_record::Overhead;
use std::collections::BTreeMap;

/// The contents of the file next to a trace; empty if there is none.
#[derive(Debug, Clone, Default)]
pub struct Correction {
    /// Each iteration without the overhead of recording; empty if that is unknown.
    pub iterations: Vec<Corrected>,
    /// Nanoseconds of processor time of each iteration, all threads of the process together; empty if not measured.
    pub processor: Vec<u64>,
    /// Nanoseconds of each iteration in which the main thread was ready to run but had no processor; empty if not
    /// measured.
    pub delayed: Vec<u64>,
    /// The overhead of recording, if measured.
    pub overhead: Option<Overhead>,
    /// The change of the machine's speed during the recording.
    pub drift: Option<Drift>,
    /// The same for processor time.
    pub processor_drift: Option<Drift>,
    /// Whether recording slowed Python itself down, which a trace does not show.
    pub slows_python: bool,
    /// The number of ranks of the run, if there were several.
    pub ranks: Option<u32>,
    /// Warnings, in sentences.
    pub warnings: Vec<String>,
}

/// An iteration without the overhead of the profiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corrected {
    /// Its time in nanoseconds.
    pub total: i64,
    /// Its time by category; none if the events do not explain the overhead.
    pub divided: Option<Divided>,
}

/// The time of a corrected iteration by category and operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divided {
    /// By category; the busy time of the accelerators is as recorded.
    pub sets: Sets,
    /// The same by operation; the parts add up to the whole.
    pub operations: BTreeMap<Operation, Sets>,
}

impl Corrected {
    /// The time by category, if known.
    pub fn sets(&self) -> Option<&Sets> {
        self.divided.as_ref().map(|divided| &divided.sets)
    }
}
