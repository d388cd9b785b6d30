//! What a plan decides after every row.

use super::ledger::Ledger;
use super::sweep::Configuration;
use crate::records::Learned;
use perf4sight_base::error::Result;
use perf4sight_base::units::Milliseconds;
use std::fmt;

/// A way to choose what is measured next. All it goes by is what has been measured, so a profile that was interrupted goes on as
/// if it had not been.
pub trait Plan {
    /// What comes next, given the rows so far and the seconds they took.
    ///
    /// # Errors
    /// What makes going on impossible.
    fn next(&mut self, ledger: &Ledger, seconds: f64) -> Result<Decision>;

    /// How fast to measure; none: as the device does by itself.
    fn pace(&self, _ledger: &Ledger, _seconds: f64) -> Option<Pace> {
        None
    }

    /// How many measurements may be left at most.
    fn left(&self, ledger: &Ledger) -> usize;

    /// What it estimated the rows to be worth, oldest first; nothing where it goes by no estimate.
    fn learned(&self) -> &[Learned] {
        &[]
    }
}

/// What there is time for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// How often a row is measured.
    pub repetitions: u32,
    /// Seconds for each of the measurements that are left, and in all; none where time is not limited.
    pub seconds: Option<[f64; 2]>,
    /// Whether measurements take so much longer that there is no time for more than one step of each.
    pub short: bool,
    /// Whether other programs disturbed any, or kept one from ending.
    pub disturbed: bool,
}

/// What a plan wants to be done next.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Measure this.
    Measure(Configuration),
    /// Measure the time of a row again.
    Repeat {
        /// What is measured.
        configuration: Configuration,
        /// The place of its row in the ledger.
        place: usize,
    },
    /// Do not run this: a smaller batch ran out of memory.
    Skip(Configuration),
    /// There is nothing to do until something that is under way has ended.
    Wait,
    /// There is nothing more to do.
    Stop(Ending),
}

/// Why a profile is finished.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ending {
    /// Every configuration has its rows, does not fit or was tried in vain.
    Complete,
    /// The budget is spent.
    Budget {
        /// Seconds there were to spend.
        seconds: f64,
        /// Configurations that were still to be measured, at most.
        unmeasured: usize,
    },
    /// As many rows as the plan takes at most.
    Rows {
        /// Configurations that were measured.
        measured: usize,
        /// Configurations there are.
        of: usize,
    },
    /// More rows no longer make predictions better.
    Flat {
        /// Configurations that were measured.
        measured: usize,
    },
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Ending::Complete => write!(f, "everything is measured that can be"),
            Ending::Budget { seconds, .. } => write!(f, "the budget of {} is spent", Milliseconds(1000.0 * seconds)),
            Ending::Rows { measured, of } => {
                write!(f, "measured {measured} of {of} configurations, as many as the plan takes")
            }
            Ending::Flat { measured } => {
                write!(f, "measured {measured} configurations; more would no longer lower the estimated error")
            }
        }
    }
}
