//! The decision of a plan after every row.

use super::ledger::MeasurementLedger;
use super::sweep::Configuration;
use crate::records::ErrorEstimate;
use perf4sight_base::error::Result;
use perf4sight_base::units::Milliseconds;
use std::fmt;

/// A strategy that chooses the next measurement. It depends only on the measurements so far, so an interrupted profile
/// continues as if it had not been interrupted.
pub trait Plan {
    /// The next decision, given the rows so far and the seconds they took.
    ///
    /// # Errors
    /// The reason why the plan cannot continue.
    fn next(&mut self, ledger: &MeasurementLedger, seconds: f64) -> Result<PlanDecision>;

    /// How fast to measure; none: at the device's own pace.
    fn pace(&self, _ledger: &MeasurementLedger, _seconds: f64) -> Option<MeasurementPace> {
        None
    }

    /// An upper bound on the number of remaining measurements.
    fn remaining(&self, ledger: &MeasurementLedger) -> usize;

    /// The estimated errors of fits on the rows, oldest first; empty if the plan uses no estimates.
    fn error_estimates(&self) -> &[ErrorEstimate] {
        &[]
    }
}

/// The pace of measurements that the remaining time allows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasurementPace {
    /// How often each row is measured.
    pub repetitions: u32,
    /// Seconds for each remaining measurement, and for all of them; none if time is not limited.
    pub seconds: Option<[f64; 2]>,
    /// Whether measurements take so much longer than planned that there is time for only one step of each.
    pub short: bool,
    /// Whether other programs disturbed any measurement, or kept one from ending.
    pub disturbed: bool,
}

/// The next action that a plan chooses.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanDecision {
    /// Run this configuration.
    Measure(Configuration),
    /// Measure the time of a row again.
    Repeat {
        /// As in the row, with its next round.
        configuration: Configuration,
        /// The index of its row in the ledger.
        place: usize,
    },
    /// Do not run this: a smaller batch ran out of memory.
    Skip(Configuration),
    /// There is nothing to do until a running measurement has ended.
    Wait,
    /// There is nothing more to do.
    Stop(PlanEnding),
}

/// The reason why a profile is finished.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PlanEnding {
    /// Every configuration has its rows, does not fit or failed.
    Complete,
    /// No time is left.
    Budget {
        /// The budget of the run.
        seconds: f64,
        /// An upper bound on the configurations that were still to be measured.
        unmeasured: usize,
    },
    /// The plan's maximum number of rows is reached.
    Rows {
        /// How many configurations were measured.
        measured: usize,
        /// How many there are.
        of: usize,
    },
    /// More rows no longer make predictions better.
    Flat {
        /// How many configurations were measured.
        measured: usize,
    },
}

impl fmt::Display for PlanEnding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PlanEnding::Complete => write!(f, "everything is measured that can be"),
            PlanEnding::Budget { seconds, .. } => {
                write!(f, "the budget of {} is spent", Milliseconds(1000.0 * seconds))
            }
            PlanEnding::Rows { measured, of } => {
                write!(f, "measured {measured} of {of} configurations, as many as the plan takes")
            }
            PlanEnding::Flat { measured } => {
                write!(f, "measured {measured} configurations; more would no longer lower the estimated error")
            }
        }
    }
}
