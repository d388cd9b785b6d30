//! What runs a job once under limits: here, on several nodes, or simulated.

use super::points::{Configuration, Run};
use crate::Span;
use perf4sight_base::error::Result;
use perf4sight_limit::Survey;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a run gets though less is left of the budget: the three seconds that a rate takes to be known, the start and the warm-up.
pub(super) const LEAST_RUN: Duration = Duration::from_secs(5);

/// Runs a job.
pub(super) trait Runner {
    /// What can be limited where it runs.
    fn survey(&self) -> &Survey;

    /// How many nodes it runs on.
    fn nodes(&self) -> usize;

    /// Time since this measurement began.
    fn elapsed(&self) -> Duration;

    /// Runs the job once, until its rate is known or the goal is reached; none after Ctrl-C.
    ///
    /// # Errors
    /// A command that cannot be started, limits that cannot be held, a folder that cannot be written to; a node that is gone.
    fn run(&self, configuration: Configuration, goal: Goal) -> Result<Option<Run>>;
}

/// How long a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Goal {
    /// Iterations at the beginning that do not count.
    pub warm_up: u64,
    /// So many have to follow, though the rate may be known before.
    pub least: u64,
    /// So many may follow, though the rate may not be known then; further ones do not count.
    pub most: Option<u64>,
    /// Time after which it ends anyway.
    pub time: Duration,
}

impl Goal {
    /// The steps that count.
    pub fn span(self) -> Span {
        Span { warm_up: self.warm_up as usize, most: self.most }
    }
}

/// Says when a run ends: it may not be alone.
pub(super) trait Pace {
    /// Whether it ends now, by whether its own rate is known well enough, and how long it has been going on.
    fn ends(&mut self, known: bool, after: Duration) -> bool;

    /// Whether it is about to end, so that to fail is to have been ended.
    fn is_closing(&self) -> bool;
}

/// A run that is alone: its rate and its time count.
pub(super) struct Alone(pub Duration);

impl Pace for Alone {
    fn ends(&mut self, known: bool, after: Duration) -> bool {
        known || after >= self.0
    }

    fn is_closing(&self) -> bool {
        false
    }
}
