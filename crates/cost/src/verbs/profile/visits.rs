//! Rows that are timed in several visits: how long one may take, what a row becomes by it, and what is said of all in the end.

use super::planned::Planned;
use crate::device::protocol::StepRule;
use crate::device::{Allowance, Measurement};
use crate::plan::{Doubt, Pace, doubts};
use crate::records::{Attempt, Outcome, Reading, Record, Wander, agreement};
use perf4sight_base::stats::{median, percentile};
use perf4sight_base::units::Milliseconds;
use perf4sight_machine::Conditions;
use std::time::Duration;

/// One of two visits takes half the steps and half the time of a measurement that is made once.
const VISIT: StepRule = StepRule { minimum: 2, minimum_seconds: 0.25, spread: 0.02, maximum_seconds: 2.5 };

/// The part of a visit's time that may go into timed steps; start-up and warm-up take the rest.
const STEPS: f64 = 0.5;

/// A worker may take this part of the time that is left, or so many seconds if these are more, before it is ended. On a machine with
/// fifteen programs for two processors a start alone took half a minute. The last visit may begin when all but nothing is left, so that
/// three minutes become less than four.
const PATIENCE: f64 = 0.5;
const LEAST_PATIENCE: f64 = 45.0;

/// What a run may take at this pace; layers are timed in one visit only.
pub(super) fn allowance(pace: Option<Pace>, layers: bool) -> Allowance {
    let Some(Pace { visits, seconds }) = pace else { return Allowance::default() };
    let split = visits > 1 && !layers;
    let whole = if split { VISIT } else { StepRule::default() };
    let limited = seconds.map(|[each, left]| {
        let most = STEPS * each;
        let steps = StepRule {
            minimum_seconds: whole.minimum_seconds.min(most),
            maximum_seconds: whole.maximum_seconds.min(most),
            ..whole
        };
        (steps, Duration::from_secs_f64((PATIENCE * left).max(LEAST_PATIENCE)))
    });
    match limited {
        Some((steps, timeout)) => Allowance { steps: Some(steps), timeout: Some(timeout) },
        None => Allowance { steps: split.then_some(whole), timeout: None },
    }
}

/// The run behind a visit with what the machine told around it; of runs that measured nothing, nothing.
pub(super) fn told(planned: &Planned, run: &Measurement, kept: bool) -> Option<Attempt> {
    let Measurement::Measured { latency, conditions, .. } = run else { return None };
    Some(Attempt {
        variant: planned.configuration.variant.clone(),
        workload: planned.configuration.workload,
        outcome: run.outcome()?,
        doubt: run.doubt().map(|(_, why)| why),
        kept,
        milliseconds: latency.as_ref().map(|latency| Milliseconds(latency.median)),
        conditions: Conditions::clone(conditions),
    })
}

/// What a row becomes by another visit; none where it stays as it is. A visit beyond doubt takes the place of a first one that was
/// doubtful, and a doubtful one adds nothing to what is beyond doubt.
pub(super) fn revised(row: &Record, run: &Measurement) -> Option<Record> {
    let Measurement::Measured { latency: Some(latency), .. } = run else { return None };
    let doubt = run.doubt();
    let doubtful = matches!(row.outcome, Outcome::Disturbed | Outcome::Throttled);
    let (mut visits, steps) = match &doubt {
        Some(_) if !doubtful => return None,
        None if doubtful && row.visits.len() == 1 => (Vec::new(), 0),
        _ => (row.visits.clone(), row.steps.unwrap_or_default()),
    };
    visits.push(latency.median);
    let agreed = agreement(&visits)?;
    Some(Record {
        outcome: doubt.map_or(Outcome::Measured, |_| row.outcome),
        reading: Reading::Latency(Some(Milliseconds(agreed.milliseconds))),
        steps: Some(steps + latency.steps),
        spread: Some(if visits.len() > 1 { agreed.spread } else { latency.spread }),
        visits,
        ..row.clone()
    })
}

/// The rows whose mark changes in the end, by their places: those that stay doubtful get one, those that are not any more lose it.
pub(super) fn marks(rows: &[Record]) -> Vec<(usize, Record)> {
    let doubts = doubts(rows);
    let timed = rows.iter().enumerate().filter(|(_, row)| !row.visits.is_empty());
    let marked = timed.filter_map(|(place, row)| {
        // Any other mark has a reason of its own.
        let judged = matches!(row.outcome, Outcome::Measured | Outcome::Unexpected).then_some(doubts.get(&place));
        let outcome = judged.map_or(row.outcome, |doubt| match doubt {
            Some(Doubt::Visits(_)) => Outcome::Disturbed,
            Some(Doubt::Unexpected(_)) => Outcome::Unexpected,
            None => Outcome::Measured,
        });
        (outcome != row.outcome).then(|| (place, Record { outcome, ..row.clone() }))
    });
    marked.collect()
}

/// How far the visits to all rows lie apart, where these were to get so many; none where nothing was visited twice.
pub(super) fn wander(rows: &[Record], visits: usize) -> Option<Wander> {
    let count = |wanted: &dyn Fn(&Record) -> bool| rows.iter().filter(|row| wanted(row)).count();
    let several = rows.iter().filter(|row| row.visits.len() > 1);
    let spreads: Vec<f64> = several.filter_map(|row| row.spread).collect();
    if spreads.is_empty() {
        return None;
    }
    Some(Wander {
        rows: spreads.len(),
        single: count(&|row| row.visits.len() == 1),
        more: count(&|row| row.visits.len() > visits),
        marked: count(&|row| row.outcome.doubtful()),
        median: median(&spreads),
        most: percentile(&spreads, 90.0),
    })
}
