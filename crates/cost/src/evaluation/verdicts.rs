//! Verdicts compared with outcomes: does a step fit?

use crate::fingerprint::{FitDecision, FitVerdict};
use crate::records::Variant;
use perf4sight_base::stats::mean;
use serde::Serialize;

/// One step that was tried, with its verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedStep {
    /// The network at its level.
    pub variant: Variant,
    /// Samples per step.
    pub batch: u64,
    /// The outcome of the row.
    pub fitted: bool,
    /// What the fingerprint says of its step.
    pub verdict: FitVerdict,
}

/// Verdicts compared with outcomes; a step that does not fit is the positive case. Shares in percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ConfusionMatrix {
    /// Predicted not to fit, and did not.
    pub found: usize,
    /// Predicted not to fit, but fitted.
    pub false_alarms: usize,
    /// Predicted to fit, but did not.
    pub missed: usize,
    /// Predicted to fit, and fitted.
    pub cleared: usize,
    /// How many of all these had a probability between 10 and 90 %.
    pub borderline: usize,
    /// The share of verdicts that were right, in percent.
    pub accuracy: f64,
    /// The accuracy of always predicting that a step fits: verdicts are useful where they exceed it.
    pub always_fits: f64,
    /// The share of correct verdicts among those predicted not to fit; none without such verdicts.
    pub precision: Option<f64>,
    /// The share of steps found among those that did not fit; none where all fitted.
    pub recall: Option<f64>,
    /// Mean squared difference of probability and outcome: 0 is perfect, 0.25 a coin.
    pub brier: f64,
}

impl ConfusionMatrix {
    /// The number of steps that did not fit.
    pub fn unfit(&self) -> usize {
        self.found + self.missed
    }

    /// How many rows were judged.
    pub fn rows(&self) -> usize {
        self.found + self.false_alarms + self.missed + self.cleared
    }

    /// The verdicts at a threshold of 0.5; none without verdicts.
    pub fn from_verdicts<'a>(judged: impl IntoIterator<Item = &'a JudgedStep>) -> Option<Self> {
        let judged: Vec<&JudgedStep> = judged.into_iter().collect();
        if judged.is_empty() {
            return None;
        }
        let count = |called_fit: bool, fitted: bool| {
            judged.iter().filter(|one| (one.verdict.fits >= 0.5) == called_fit && one.fitted == fitted).count()
        };
        let [found, false_alarms, missed, cleared] =
            [count(false, false), count(false, true), count(true, false), count(true, true)];
        let share = |part: usize, whole: usize| (whole > 0).then(|| 100.0 * part as f64 / whole as f64);
        let surprise = |one: &&JudgedStep| (one.verdict.fits - f64::from(u8::from(one.fitted))).powi(2);
        Some(ConfusionMatrix {
            found,
            false_alarms,
            missed,
            cleared,
            borderline: judged.iter().filter(|one| one.verdict.call == FitDecision::Borderline).count(),
            accuracy: 100.0 * (found + cleared) as f64 / judged.len() as f64,
            always_fits: 100.0 * (cleared + false_alarms) as f64 / judged.len() as f64,
            precision: share(found, found + false_alarms),
            recall: share(found, found + missed),
            brier: mean(&judged.iter().map(surprise).collect::<Vec<f64>>()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_of_a_table_counted_by_hand() {
        let said = [
            (true, 1.0, FitDecision::Fits),
            (true, 0.6, FitDecision::Borderline),
            (true, 0.0, FitDecision::DoesNotFit),
        ];
        let unfit = [(false, 0.0, FitDecision::DoesNotFit), (false, 0.8, FitDecision::Borderline)];
        let judged = said.into_iter().chain(unfit).map(|(fitted, fits, call)| {
            let verdict = FitVerdict { fits, call };
            JudgedStep { variant: Variant::new("net", 0), batch: 1, fitted, verdict }
        });
        let judged: Vec<JudgedStep> = judged.collect();
        let scores = ConfusionMatrix::from_verdicts(&judged).unwrap();
        let ConfusionMatrix {
            found,
            false_alarms,
            missed,
            cleared,
            borderline,
            accuracy,
            precision,
            recall,
            brier,
            ..
        } = scores;
        assert_eq!([found, false_alarms, missed, cleared, borderline], [1, 1, 1, 2, 2]);
        assert_eq!((accuracy, precision, recall), (60.0, Some(50.0), Some(50.0)));
        // Three of five fitted.
        assert_eq!((scores.unfit(), scores.always_fits), (2, 60.0));
        // (0 + 0.16 + 1 + 0 + 0.64) / 5
        assert!((brier - 0.36).abs() < 1e-12);
        assert_eq!(ConfusionMatrix::from_verdicts(&judged[..1]).unwrap().recall, None);
        assert!(ConfusionMatrix::from_verdicts(&[]).is_none());
    }
}
