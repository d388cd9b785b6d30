//! Evaluation of fingerprints: predictions compared with measurements, and the scores of any part of them.
//!
//! An [`Evaluation`] is of one fingerprint, a [`Trial`] adds its verdicts. A [`FitProtocol`] leaves out networks or
//! levels, fits without them and tests the fit on them. A [`AccuracyStudy`] compares the protocols of a fingerprint on the
//! same rows.

mod accuracy;
mod fits;
mod largest;
mod learning;
mod left_out;
mod operations;
mod share;
mod study;
mod subsets;
mod trial;
mod verdicts;

pub use accuracy::{Accuracy, NetworkAccuracy};
pub use fits::PlannedFits;
pub use largest::{LargestBatch, LargestBatchScores};
pub use learning::LearningPoint;
pub use left_out::{ChosenFit, FitCandidate, FitProtocol};
pub use operations::{ClassScores, ClassTime};
pub use study::{AccuracyStudy, MethodTests, RowScatter};
pub use subsets::IntervalCoverage;
pub use trial::Trial;
pub use verdicts::{ConfusionMatrix, JudgedStep};

use crate::fingerprint::{Fingerprint, MeasuredRow, PredictedValue, PredictionInterval};
use crate::records::Variant;
use perf4sight_base::stats::{ErrorScores, mean};
use std::collections::BTreeMap;

/// One row, measured and predicted.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictedRow {
    /// The network at its level.
    pub variant: Variant,
    /// Samples per step.
    pub batch: u64,
    /// Milliseconds or MiB.
    pub measured: f64,
    /// What the fingerprint says of the row.
    pub predicted: PredictedValue,
    /// The 90 % interval of the prediction, if it has one.
    pub interval: Option<PredictionInterval>,
    /// Whether the fingerprint was fitted on rows of this network at this level.
    pub fitted: bool,
}

impl PredictedRow {
    /// Signed error in percent of the measurement: positive where the prediction is too high.
    pub fn error(&self) -> f64 {
        100.0 * (self.predicted.value() - self.measured) / self.measured
    }
}

/// A fingerprint's predictions for rows it was, or was not, fitted on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evaluation {
    /// One case per row of a step that the fingerprint can predict, in the order of the rows, but with the rows of a
    /// variant together.
    pub cases: Vec<PredictedRow>,
}

impl Evaluation {
    /// Predicts every row that the fingerprint can predict.
    pub fn from_rows(fingerprint: &Fingerprint, rows: &[MeasuredRow]) -> Self {
        Trial::run(fingerprint, rows, &[]).evaluation
    }

    /// The cases for which `keep` holds, in order.
    pub fn filter(&self, keep: impl Fn(&PredictedRow) -> bool) -> Self {
        Evaluation { cases: self.cases.iter().filter(|case| keep(case)).cloned().collect() }
    }

    /// The cases at levels that the fingerprint was not fitted on: the others do not show the accuracy for new
    /// networks.
    pub fn unseen_cases(&self) -> Self {
        self.filter(|case| !case.fitted)
    }

    /// The cases at level 0, or those at all others. If a profile was pruned elsewhere, only level 0 is certainly the
    /// network that was measured.
    pub fn at_level_0(&self, unpruned: bool) -> Self {
        self.filter(|case| (case.variant.level == 0) == unpruned)
    }

    /// Mean absolute percentage error, every network weighing the same; none where there are no cases.
    pub fn mean_over_networks(&self) -> Option<f64> {
        Some(self.scores_over_networks()?.mape)
    }

    /// The means of the networks' scores, every network weighing the same; none where there are no cases.
    pub fn scores_over_networks(&self) -> Option<ErrorScores> {
        let networks: Vec<ErrorScores> = self.by(|case| case.variant.network.clone()).into_values().collect();
        ErrorScores::over_groups(&networks)
    }

    /// Share of the cases, in percent, whose measurement is in its interval, every network weighing the same; none
    /// where there are no intervals.
    pub fn coverage_90(&self) -> Option<f64> {
        let mut networks: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for case in &self.cases {
            let inside = f64::from(u8::from(case.interval?.contains(case.measured)));
            networks.entry(&case.variant.network).or_default().push(inside);
        }
        let shares: Vec<f64> = networks.values().map(|inside| 100.0 * mean(inside)).collect();
        (!shares.is_empty()).then(|| mean(&shares))
    }

    /// Scores over all cases; none where there are no cases.
    pub fn scores(&self) -> Option<ErrorScores> {
        scores(self.cases.iter())
    }

    /// Scores of the groups of cases by `key`: network, level, batch size.
    pub fn by<K: Ord>(&self, key: impl Fn(&PredictedRow) -> K) -> BTreeMap<K, ErrorScores> {
        let mut groups: BTreeMap<K, Vec<&PredictedRow>> = BTreeMap::new();
        for case in &self.cases {
            groups.entry(key(case)).or_default().push(case);
        }
        groups.into_iter().filter_map(|(key, cases)| Some((key, scores(cases)?))).collect()
    }

    /// The `count` cases of largest error, worst first.
    pub fn worst(&self, count: usize) -> Vec<&PredictedRow> {
        let mut cases: Vec<&PredictedRow> = self.cases.iter().collect();
        cases.sort_by(|a, b| b.error().abs().total_cmp(&a.error().abs()));
        cases.truncate(count);
        cases
    }
}

fn scores<'a>(cases: impl IntoIterator<Item = &'a PredictedRow>) -> Option<ErrorScores> {
    let (measured, predicted): (Vec<f64>, Vec<f64>) =
        cases.into_iter().map(|case| (case.measured, case.predicted.value())).unzip();
    ErrorScores::compute(&measured, &predicted)
}
