//! What is known of the iterations of a rank beside its trace, and how long they take without the profiler.

use super::drift::Drift;
use crate::categories::sets::Sets;
use crate::operations::Operation;
use perf4sight_record::Overhead;
use std::collections::BTreeMap;

/// What the file beside a trace adds to it; nothing where there is none.
#[derive(Debug, Clone, Default)]
pub struct Correction {
    /// Each iteration without what recording adds; empty where that is not known.
    pub iterations: Vec<Corrected>,
    /// Nanoseconds of processor time of each iteration, all threads of the process together; empty where that was not measured.
    pub processor: Vec<u64>,
    /// Nanoseconds of each in which the main thread was ready to run and had no processor; empty where that was not measured.
    pub delayed: Vec<u64>,
    /// What recording adds to an iteration, where that was measured.
    pub overhead: Option<Overhead>,
    /// How the machine's speed changed meanwhile.
    pub drift: Option<Drift>,
    /// How processor time did.
    pub processor_drift: Option<Drift>,
    /// Whether recording slowed Python itself down, which a trace does not show.
    pub slows_python: bool,
    /// How many ranks the run had, where there were several.
    pub ranks: Option<u32>,
    /// What a reader should know, in sentences.
    pub warnings: Vec<String>,
}

/// An iteration as it were without the profiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corrected {
    /// Its nanoseconds.
    pub total: i64,
    /// Whose they are; none where the events do not tell it.
    pub divided: Option<Divided>,
}

/// Whose time a corrected iteration is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divided {
    /// By category; the accelerators are busy as long as measured.
    pub sets: Sets,
    /// The same by operation; they add up to all of it.
    pub operations: BTreeMap<Operation, Sets>,
}

impl Corrected {
    /// By category, where that is known.
    pub fn sets(&self) -> Option<&Sets> {
        self.divided.as_ref().map(|divided| &divided.sets)
    }
}
