//! The failures of a run for reasons other than memory: listed at its end, with remedies.

use crate::device::RunAllowance;
use crate::plan::Configuration;
use crate::records::MeasurementOutcome;
use perf4sight_base::error::Error;
use perf4sight_base::units::list_text;
use perf4sight_report::{Table, TableBuilder};
use std::time::Duration;

/// The maximum number of configurations that are named; the rest is only counted.
const NAMED: usize = 3;

/// The failures of one run, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunFailures(Vec<SimilarFailures>);

/// Failures of one kind, for one reason.
#[derive(Debug, Clone, PartialEq)]
struct SimilarFailures {
    failure: RunFailure,
    configurations: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct RunFailure {
    pub outcome: MeasurementOutcome,
    pub reason: String,
    /// Whether it was ended because the budget left no more time.
    pub of_budget: bool,
}

impl RunFailure {
    /// The failure of a run that had `allowance` and ran for this long.
    pub fn new(outcome: MeasurementOutcome, reason: &str, allowance: &RunAllowance, worked: Duration) -> Self {
        // A device with a shorter timeout than the budget allows ends it sooner.
        let of_budget =
            outcome == MeasurementOutcome::TimedOut && allowance.timeout.is_some_and(|share| worked >= share);
        let share = if of_budget { ", all the time that the budget left for it" } else { "" };
        RunFailure { outcome, reason: format!("{reason}{share}"), of_budget }
    }

    fn remedy(&self) -> &'static str {
        match self.outcome {
            _ if self.of_budget => "give profile.budget more time, or leave this batch size out",
            MeasurementOutcome::TimedOut => "set a longer timeout, or leave this batch size out",
            MeasurementOutcome::Garbled => {
                "the worker has to write one line of JSON to its standard output, and nothing else"
            }
            MeasurementOutcome::Crashed => {
                "run again; if it dies every time, a lower mem_limit shows whether memory is the reason"
            }
            MeasurementOutcome::Failed
            | MeasurementOutcome::OutOfMemory
            | MeasurementOutcome::Skipped
            | MeasurementOutcome::Measured
            | MeasurementOutcome::Disturbed
            | MeasurementOutcome::Throttled
            | MeasurementOutcome::Unexpected => "correct what the worker names, then run again",
        }
    }
}

impl RunFailures {
    pub(super) fn add(&mut self, configuration: &Configuration, failure: RunFailure) {
        let name = configuration.to_string();
        match self.0.iter_mut().find(|alike| alike.failure == failure) {
            Some(alike) => alike.configurations.push(name),
            None => self.0.push(SimilarFailures { failure, configurations: vec![name] }),
        }
    }

    /// How many configurations failed.
    pub fn count(&self) -> usize {
        self.0.iter().map(|alike| alike.configurations.len()).sum()
    }

    /// The failures with reasons and remedies; none without failures. If the budget is `spent`, the same run would
    /// measure nothing more.
    pub(super) fn table(&self, spent: bool) -> Option<Table> {
        let more = if spent { " with a larger budget" } else { "" };
        let title = format!("What failed, and is tried again when the same command is run again{more}");
        let table = TableBuilder::new(title, &self.0)
            .text("outcome", "what", |alike| alike.failure.outcome.to_string())
            .number("configurations", "how many", |alike| alike.configurations.len())
            .text("which", "which", |alike| list_text(&alike.configurations, NAMED))
            .text("why", "why", |alike| alike.failure.reason.clone())
            .text("remedy", "what to do", |alike| alike.failure.remedy())
            .table();
        (!table.is_empty()).then_some(table)
    }

    /// The error of a run that measured nothing.
    pub(super) fn error(&self) -> Option<Error> {
        let first = self.0.first()?;
        let problem = format!("nothing new was measured: {} configurations failed", self.count());
        Some(
            Error::device(format!("{problem}, the first because {}", first.failure.reason))
                .help(first.failure.remedy()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_budget_ended_is_not_told_to_set_a_longer_timeout() {
        let worked = Duration::from_secs(46);
        let of = |timeout| {
            let allowance = RunAllowance { timeout, ..RunAllowance::default() };
            RunFailure::new(MeasurementOutcome::TimedOut, "the worker was still running after 45 s", &allowance, worked)
        };
        let share = of(Some(Duration::from_secs(45)));
        assert!(share.reason.ends_with("all the time that the budget left for it"), "{}", share.reason);
        assert!(share.remedy().contains("profile.budget"), "{}", share.remedy());
        for own in [of(None), of(Some(Duration::from_secs(90)))] {
            assert!(own.remedy().contains("a longer timeout") && !own.reason.contains("budget"), "{own:?}");
        }
    }
}
