//! The interface that runs a job once under limits: here, on several nodes, or simulated.

use super::points::{PointRun, ResourceConfiguration};
use crate::StepSpan;
use perf4sight_base::error::Result;
use perf4sight_limit::LimitSurvey;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The least time of a run, even if less is left of the budget: three seconds until the rate is known, the start and
/// the warm-up.
pub(super) const LEAST_RUN: Duration = Duration::from_secs(5);

pub(super) trait Runner {
    /// The limits that are possible where it runs.
    fn survey(&self) -> &LimitSurvey;

    fn nodes(&self) -> usize;

    /// Whether the same command measures points that were disturbed or failed once more.
    fn repeats(&self) -> bool {
        true
    }

    /// Time since this measurement began.
    fn elapsed(&self) -> Duration;

    /// Runs the job once, until its rate is known or the goal is reached; none after Ctrl-C.
    ///
    /// # Errors
    /// A command that cannot be started, limits that cannot be enforced, a folder that cannot be written to; a node
    /// that disconnects.
    fn run(&self, configuration: ResourceConfiguration, goal: RunGoal) -> Result<Option<PointRun>>;
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct RunGoal {
    /// Warm-up iterations, which do not count.
    pub warm_up: u64,
    /// The least iterations after that, even if the rate is known before.
    pub least: u64,
    /// The most iterations after that, even if the rate is not known then; later ones do not count.
    pub most: Option<u64>,
    /// Time after which it ends in any case.
    pub time: Duration,
}

impl RunGoal {
    pub fn span(self) -> StepSpan {
        StepSpan { warm_up: self.warm_up as usize, most: self.most }
    }
}

/// Decides when a run ends; other nodes may take part in it.
pub(super) trait EndDecision {
    /// Whether it ends now; `known` is whether its own rate is known well enough, `after` how long it has been running.
    fn ends(&mut self, known: bool, after: Duration) -> bool;

    /// Whether it is about to end, so that a failure counts as the end.
    fn is_closing(&self) -> bool;
}

/// A run on this node alone: its rate and its time limit decide.
pub(super) struct SingleNode(pub Duration);

impl EndDecision for SingleNode {
    fn ends(&mut self, known: bool, after: Duration) -> bool {
        known || after >= self.0
    }

    fn is_closing(&self) -> bool {
        false
    }
}
