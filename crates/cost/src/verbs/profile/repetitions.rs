//! Rows that are measured more than once: the time limit of a repetition, the revised row, and the agreement of all
//! repetitions.

use super::planned::PlannedMeasurement;
use crate::device::protocol::StepRule;
use crate::device::{Measurement, RunAllowance};
use crate::plan::{MeasurementPace, RowDoubt, doubts};
use crate::records::{MeasurementOutcome, Repeatability, RowReading, RowRecord, WorkerRun, agreement};
use perf4sight_base::stats::{median, percentile};
use perf4sight_base::units::Milliseconds;
use perf4sight_machine::Conditions;
use std::time::Duration;

/// Each of two repetitions takes half the steps and half the time of a single measurement.
const HALF: StepRule = StepRule { minimum: 2, minimum_seconds: 0.25, spread: 0.02, maximum_seconds: 2.5 };

/// The share of a measurement's time for timed steps; start-up and warm-up take the rest.
const STEPS: f64 = 0.5;

/// The timeout of a worker: this share of the remaining time, or the given seconds if they are longer. On a machine
/// with fifteen programs for two processors a start alone took half a minute. The last worker may start just before
/// the budget ends, so a budget of three minutes may take almost four.
const PATIENCE: f64 = 0.25;
const LEAST_PATIENCE: f64 = 45.0;

/// The limits of a run at this pace; layers are timed only once.
pub(super) fn allowance(pace: Option<MeasurementPace>, layers: bool) -> RunAllowance {
    let Some(MeasurementPace { repetitions, seconds, short, disturbed }) = pace else { return RunAllowance::default() };
    let split = repetitions > 1 && !layers;
    let whole = if split { HALF } else { StepRule::default() };
    let Some([each, left]) = seconds else {
        return RunAllowance { steps: split.then_some(whole), ..RunAllowance::default() };
    };
    let most = STEPS * each;
    let steps = StepRule {
        minimum: if short { 1 } else { whole.minimum },
        minimum_seconds: whole.minimum_seconds.min(most),
        maximum_seconds: whole.maximum_seconds.min(most),
        ..whole
    };
    let timeout = Duration::from_secs_f64((PATIENCE * left).max(LEAST_PATIENCE));
    RunAllowance { steps: Some(steps), timeout: Some(timeout), among_others: short && disturbed }
}

/// The run that gave a measurement, with the machine's conditions; none if nothing was measured.
pub(super) fn attempt(planned: &PlannedMeasurement, run: &Measurement, kept: bool) -> Option<WorkerRun> {
    let Measurement::Measured { latency, conditions, .. } = run else { return None };
    Some(WorkerRun {
        variant: planned.configuration.variant.clone(),
        workload: planned.configuration.workload,
        outcome: run.outcome()?,
        doubt: run.reason_to_distrust().map(|(_, why)| why),
        kept,
        milliseconds: latency.as_ref().map(|latency| Milliseconds(latency.median)),
        conditions: Conditions::clone(conditions),
    })
}

/// The row after another repetition; none if it does not change. An undisturbed repetition replaces a disturbed first
/// measurement; a disturbed repetition is not added to undisturbed ones.
pub(super) fn revise_row(row: &RowRecord, run: &Measurement) -> Option<RowRecord> {
    let Measurement::Measured { latency: Some(latency), .. } = run else { return None };
    let doubt = run.reason_to_distrust();
    let doubtful = matches!(row.outcome, MeasurementOutcome::Disturbed | MeasurementOutcome::Throttled);
    let (mut visits, steps) = match &doubt {
        Some(_) if !doubtful => return None,
        None if doubtful && row.visits.len() == 1 => (Vec::new(), 0),
        _ => (row.visits.clone(), row.steps.unwrap_or_default()),
    };
    visits.push(latency.median);
    let agreed = agreement(&visits)?;
    Some(RowRecord {
        outcome: doubt.map_or(MeasurementOutcome::Measured, |_| row.outcome),
        reading: RowReading::Latency(Some(Milliseconds(agreed.milliseconds))),
        steps: Some(steps + latency.steps),
        spread: Some(if visits.len() > 1 { agreed.spread } else { latency.spread }),
        visits,
        ..row.clone()
    })
}

/// The rows whose mark changes at the end, with their indices: rows that stay doubtful get a mark, rows that are no
/// longer doubtful lose it.
pub(super) fn changed_marks(rows: &[RowRecord]) -> Vec<(usize, RowRecord)> {
    let doubts = doubts(rows);
    let timed = rows.iter().enumerate().filter(|(_, row)| !row.visits.is_empty());
    let marked = timed.filter_map(|(place, row)| {
        // Any other mark has another reason.
        let judged = matches!(row.outcome, MeasurementOutcome::Measured | MeasurementOutcome::Unexpected)
            .then_some(doubts.get(&place));
        let outcome = judged.map_or(row.outcome, |doubt| match doubt {
            Some(RowDoubt::Repetitions(_)) => MeasurementOutcome::Disturbed,
            Some(RowDoubt::Unexpected(_)) => MeasurementOutcome::Unexpected,
            None => MeasurementOutcome::Measured,
        });
        (outcome != row.outcome).then(|| (place, RowRecord { outcome, ..row.clone() }))
    });
    marked.collect()
}

/// The agreement of the repetitions of all rows, `wanted` each; none if nothing was repeated.
pub(super) fn repeatability(rows: &[RowRecord], wanted: usize) -> Option<Repeatability> {
    let spreads: Vec<f64> = rows.iter().filter(|row| row.visits.len() > 1).filter_map(|row| row.spread).collect();
    let of = |count: fn(&RowRecord, usize) -> bool| rows.iter().filter(|row| count(row, wanted)).count();
    (!spreads.is_empty()).then(|| Repeatability {
        rows: spreads.len(),
        single: of(|row, _| row.visits.len() == 1),
        more: of(|row, wanted| row.visits.len() > wanted),
        marked: of(|row, _| row.outcome.doubtful()),
        median: median(&spreads),
        most: percentile(&spreads, 90.0),
    })
}
