//! Which rows of a profile: of which networks, levels, stage and quantity.

use perf4sight_step::workload::{Quantity, Step};
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

/// Which rows to take from which folders.
#[derive(Debug, Clone)]
pub struct Selection<'a> {
    /// Folders of `{variant}-gt.csv` files.
    pub folders: &'a [PathBuf],
    /// Names of networks.
    pub networks: &'a [String],
    /// Their levels.
    pub levels: Levels,
    /// What the steps did; rows that name no stage are taken to be of this one's.
    pub step: Step,
    /// Latency or memory.
    pub quantity: Quantity,
}

/// Which levels of a network; all repeats of a level belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Levels {
    /// These; one without a file is reported as missing.
    Only(BTreeSet<u8>),
    /// Whatever there is, without these.
    AllBut(BTreeSet<u8>),
}

impl Levels {
    pub(super) fn contain(&self, level: u8) -> bool {
        match self {
            Levels::Only(levels) => levels.contains(&level),
            Levels::AllBut(levels) => !levels.contains(&level),
        }
    }
}

/// "levels 0, 30" or "all levels but 0, 30".
impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (words, levels) = match self {
            Levels::Only(levels) => ("levels", levels),
            Levels::AllBut(levels) => ("all levels but", levels),
        };
        let levels: Vec<String> = levels.iter().map(u8::to_string).collect();
        write!(f, "{words} {}", levels.join(", "))
    }
}
