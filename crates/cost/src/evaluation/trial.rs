//! The predictions of one fingerprint for rows that passed and for steps that did not fit.

use super::largest::LargestBatch;
use super::operations::ClassTime;
use super::verdicts::JudgedStep;
use super::{Evaluation, PredictedRow};
use crate::fingerprint::{FailedAttempt, Fingerprint, MeasuredRow, PreparedStep};
use crate::records::{MeasurementOutcome, RowRecord, Variant};
use perf4sight_network::Network;
use perf4sight_step::workload::Step;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The predictions of a fingerprint.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trial {
    /// The predicted costs of steps.
    pub evaluation: Evaluation,
    /// The verdicts whether steps fit; empty where the fingerprint gives none.
    pub judged: Vec<JudgedStep>,
    /// The largest batch of every variant whose limit was measured; empty where the fingerprint predicts none.
    pub largest: Vec<LargestBatch>,
    /// Classes of operations inside the steps; empty where the profile did not time them, or the fingerprint does not
    /// predict them.
    pub classes: Vec<ClassTime>,
}

/// The equal steps of one variant, at all batch sizes.
struct EqualSteps<'a> {
    variant: &'a Variant,
    step: Step,
    network: &'a Network,
    passed: Vec<&'a MeasuredRow>,
    /// Batch sizes that ran out of memory; skipped steps would make every verdict look better.
    refused: Vec<u64>,
}

impl Trial {
    /// Predicts rows that passed and attempts that failed. Steps that the fingerprint cannot predict have no results
    /// ([`Fingerprint::check_step`]); the published method predicts only its own step.
    pub fn run(fingerprint: &Fingerprint, rows: &[MeasuredRow], failed: &[FailedAttempt]) -> Self {
        let trials: Vec<Trial> = by_variant(rows, failed).par_iter().map(|steps| steps.predict(fingerprint)).collect();
        trials.into_iter().collect()
    }

    pub(super) fn of_networks(&self, wanted: impl Fn(&str) -> bool) -> Self {
        let wanted = |variant: &Variant| wanted(&variant.network);
        Trial {
            evaluation: self.evaluation.filter(|case| wanted(&case.variant)),
            judged: self.judged.iter().filter(|judged| wanted(&judged.variant)).cloned().collect(),
            largest: self.largest.iter().filter(|largest| wanted(&largest.variant)).cloned().collect(),
            classes: self.classes.iter().filter(|time| wanted(&time.variant)).cloned().collect(),
        }
    }
}

impl FromIterator<Trial> for Trial {
    fn from_iter<T: IntoIterator<Item = Trial>>(trials: T) -> Self {
        trials.into_iter().fold(Trial::default(), |mut all, trial| {
            all.evaluation.cases.extend(trial.evaluation.cases);
            all.judged.extend(trial.judged);
            all.largest.extend(trial.largest);
            all.classes.extend(trial.classes);
            all
        })
    }
}

impl EqualSteps<'_> {
    fn predict(&self, fingerprint: &Fingerprint) -> Trial {
        let Ok(about) = fingerprint.about_step(self.network, self.step, None) else { return Trial::default() };
        let fitted = fingerprint.knows(&self.variant.network, self.variant.level);
        let cases = self.passed.iter().map(|row| case(row, &about, fitted)).collect();
        Trial {
            evaluation: Evaluation { cases },
            judged: self.judge_steps(&about),
            largest: self.largest_batches(&about),
            classes: self.passed.iter().flat_map(|row| ClassTime::all(row, &about)).collect(),
        }
    }

    fn batches(&self) -> impl Iterator<Item = u64> {
        self.passed.iter().map(|row| row.record.workload.batch)
    }

    fn judge_steps(&self, about: &PreparedStep) -> Vec<JudgedStep> {
        let tried = self.batches().map(|batch| (batch, true));
        let tried = tried.chain(self.refused.iter().map(|&batch| (batch, false)));
        let judged = tried.filter_map(|(batch, fitted)| {
            let verdict = about.verdict(batch)?;
            Some(JudgedStep { variant: self.variant.clone(), batch, fitted, verdict })
        });
        judged.collect()
    }

    fn largest_batches(&self, about: &PreparedStep) -> Vec<LargestBatch> {
        let passed: Vec<u64> = self.batches().collect();
        LargestBatch::new(self.variant, [&passed, &self.refused], about).into_iter().collect()
    }
}

fn case(row: &MeasuredRow, about: &PreparedStep, fitted: bool) -> PredictedRow {
    let prediction = about.predict(row.record.workload.batch);
    PredictedRow {
        variant: row.record.variant.clone(),
        batch: row.record.workload.batch,
        measured: row.measured,
        predicted: prediction.value,
        interval: prediction.interval,
        fitted,
    }
}

/// Groups rows and failures by variant and step, in the order in which they first appear.
fn by_variant<'a>(rows: &'a [MeasuredRow], failed: &'a [FailedAttempt]) -> Vec<EqualSteps<'a>> {
    let mut indices: BTreeMap<(&Variant, Step, *const Network), usize> = BTreeMap::new();
    let mut groups: Vec<EqualSteps> = Vec::new();
    let mut index = |groups: &mut Vec<EqualSteps<'a>>, record: &'a RowRecord, network: &'a Arc<Network>| {
        let (variant, step) = (&record.variant, record.workload.step);
        *indices.entry((variant, step, Arc::as_ptr(network))).or_insert_with(|| {
            groups.push(EqualSteps { variant, step, network, passed: Vec::new(), refused: Vec::new() });
            groups.len() - 1
        })
    };
    for row in rows {
        let at = index(&mut groups, &row.record, &row.network);
        groups[at].passed.push(row);
    }
    for attempt in failed.iter().filter(|attempt| attempt.record.outcome == MeasurementOutcome::OutOfMemory) {
        let at = index(&mut groups, &attempt.record, &attempt.network);
        groups[at].refused.push(attempt.record.workload.batch);
    }
    groups
}
