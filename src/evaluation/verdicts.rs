//! Verdicts beside what happened: does a step fit?

use crate::fingerprint::{Fingerprint, Observations, Verdict};
use crate::network::Network;
use crate::records::{Record, Variant};
use crate::stats::mean;
use rayon::prelude::*;
use serde::Serialize;
use std::sync::Arc;

/// One row, tried and judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The network at its level.
    pub variant: Variant,
    /// Samples per step.
    pub batch: u64,
    /// Whether it fitted.
    pub fitted: bool,
    /// What the fingerprint says.
    pub verdict: Verdict,
}

/// How verdicts compare with what happened; a step that does not fit is what is looked for. Shares in percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Confusion {
    /// Called unfit, and unfit.
    pub found: usize,
    /// Called unfit, but fitted.
    pub false_alarms: usize,
    /// Called fit, but unfit.
    pub missed: usize,
    /// Called fit, and fitted.
    pub cleared: usize,
    /// Verdicts that were right.
    pub accuracy: f64,
    /// Of those called unfit, the share that was; none where none was called so.
    pub precision: Option<f64>,
    /// Of those unfit, the share called so; none where all fitted.
    pub recall: Option<f64>,
    /// Mean squared difference of probability and outcome: 0 is perfect, 0.25 a coin.
    pub brier: f64,
}

impl Judged {
    /// Judges every row that passed or did not fit; none where the fingerprint gives no verdicts.
    pub(super) fn all(fingerprint: &Fingerprint, observations: &Observations) -> Vec<Judged> {
        let judge = |network: &Arc<Network>, record: &Record, fitted: bool| {
            let Record { variant, workload, .. } = record;
            let verdict = fingerprint.about(network).verdict(workload.batch)?;
            Some(Judged { variant: variant.clone(), batch: workload.batch, fitted, verdict })
        };
        let passed = observations.rows.par_iter().filter_map(|row| judge(&row.network, &row.record, true));
        let failed = observations.failed.par_iter().filter(|attempt| attempt.did_not_fit());
        passed.chain(failed.filter_map(|attempt| judge(&attempt.network, &attempt.record, false))).collect()
    }
}

impl Confusion {
    /// The verdicts taken at even odds; none for no verdicts.
    pub fn of<'a>(judged: impl IntoIterator<Item = &'a Judged>) -> Option<Self> {
        let judged: Vec<&Judged> = judged.into_iter().collect();
        if judged.is_empty() {
            return None;
        }
        let count = |called_fit: bool, fitted: bool| {
            judged.iter().filter(|one| (one.verdict.fits >= 0.5) == called_fit && one.fitted == fitted).count()
        };
        let [found, false_alarms, missed, cleared] =
            [count(false, false), count(false, true), count(true, false), count(true, true)];
        let share = |part: usize, whole: usize| (whole > 0).then(|| 100.0 * part as f64 / whole as f64);
        let surprise = |one: &&Judged| (one.verdict.fits - f64::from(u8::from(one.fitted))).powi(2);
        Some(Confusion {
            found,
            false_alarms,
            missed,
            cleared,
            accuracy: 100.0 * (found + cleared) as f64 / judged.len() as f64,
            precision: share(found, found + false_alarms),
            recall: share(found, found + missed),
            brier: mean(&judged.iter().map(surprise).collect::<Vec<f64>>()),
        })
    }
}
