//! Rows that are measured more than once: how long a repetition may take, what a row becomes by it, and what is said of all in the end.

use super::planned::Planned;
use crate::device::protocol::StepRule;
use crate::device::{Allowance, Measurement};
use crate::plan::{Doubt, Pace, doubts};
use crate::records::{Attempt, Outcome, Reading, Record, Repeatability, agreement};
use perf4sight_base::stats::{median, percentile};
use perf4sight_base::units::Milliseconds;
use perf4sight_machine::Conditions;
use std::time::Duration;

/// One of two repetitions takes half the steps and half the time of a measurement that is made once.
const HALF: StepRule = StepRule { minimum: 2, minimum_seconds: 0.25, spread: 0.02, maximum_seconds: 2.5 };

/// The part of a measurement's time that may go into timed steps; start-up and warm-up take the rest.
const STEPS: f64 = 0.5;

/// A worker may take this part of the time that is left, or so many seconds if these are more, before it is ended. On a machine with
/// fifteen programs for two processors a start alone took half a minute. The last one may begin when all but nothing is left, so that
/// three minutes become less than four.
const PATIENCE: f64 = 0.25;
const LEAST_PATIENCE: f64 = 45.0;

/// What a run may take at this pace; layers are timed once only.
pub(super) fn allowance(pace: Option<Pace>, layers: bool) -> Allowance {
    let Some(Pace { repetitions, seconds, short, disturbed }) = pace else { return Allowance::default() };
    let split = repetitions > 1 && !layers;
    let whole = if split { HALF } else { StepRule::default() };
    let Some([each, left]) = seconds else {
        return Allowance { steps: split.then_some(whole), ..Allowance::default() };
    };
    let most = STEPS * each;
    let steps = StepRule {
        minimum: if short { 1 } else { whole.minimum },
        minimum_seconds: whole.minimum_seconds.min(most),
        maximum_seconds: whole.maximum_seconds.min(most),
        ..whole
    };
    let timeout = Duration::from_secs_f64((PATIENCE * left).max(LEAST_PATIENCE));
    Allowance { steps: Some(steps), timeout: Some(timeout), among_others: short && disturbed }
}

/// The run behind a measurement with what the machine reported around it; of runs that measured nothing, nothing.
pub(super) fn attempt(planned: &Planned, run: &Measurement, kept: bool) -> Option<Attempt> {
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

/// What a row becomes by another repetition; none where it stays as it is. An undisturbed one takes the place of a disturbed first one,
/// and a disturbed one adds nothing to undisturbed ones.
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
            Some(Doubt::Repetitions(_)) => Outcome::Disturbed,
            Some(Doubt::Unexpected(_)) => Outcome::Unexpected,
            None => Outcome::Measured,
        });
        (outcome != row.outcome).then(|| (place, Record { outcome, ..row.clone() }))
    });
    marked.collect()
}

/// How far the repetitions of all rows, `wanted` each, lie apart; none where nothing was repeated.
pub(super) fn repeatability(rows: &[Record], wanted: usize) -> Option<Repeatability> {
    let spreads: Vec<f64> = rows.iter().filter(|row| row.visits.len() > 1).filter_map(|row| row.spread).collect();
    let of = |count: fn(&Record, usize) -> bool| rows.iter().filter(|row| count(row, wanted)).count();
    (!spreads.is_empty()).then(|| Repeatability {
        rows: spreads.len(),
        single: of(|row, _| row.visits.len() == 1),
        more: of(|row, wanted| row.visits.len() > wanted),
        marked: of(|row, _| row.outcome.doubtful()),
        median: median(&spreads),
        most: percentile(&spreads, 90.0),
    })
}
