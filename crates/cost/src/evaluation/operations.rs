//! Measured and predicted times of operation classes inside a step, where a profile timed steps operation by
//! operation.

use crate::fingerprint::{MeasuredRow, PreparedStep, TimedOperation};
use crate::records::Variant;
use perf4sight_base::stats::ErrorScores;
use perf4sight_base::units::Milliseconds;
use serde::Serialize;
use std::collections::BTreeMap;

/// All operations of one class in one step.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassTime {
    /// The network at its level.
    pub variant: Variant,
    /// Samples per step.
    pub batch: u64,
    /// As [`KernelClass::name`](crate::features::physical::KernelClass::name).
    pub class: &'static str,
    /// The sum of the times measured in place.
    pub measured: Milliseconds,
    /// The sum of the predicted times.
    pub predicted: Milliseconds,
}

/// The accuracy of the predicted time of a class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClassScores {
    /// Percent of the measured time of all classes.
    pub share: f64,
    /// Percent of the predicted time of all classes.
    pub predicted_share: f64,
    /// Its time in single steps.
    #[serde(flatten)]
    pub scores: ErrorScores,
}

impl ClassTime {
    /// The classes of one row; none where its operations were not timed, or the fingerprint does not predict
    /// operations.
    pub(super) fn all(row: &MeasuredRow, about: &PreparedStep) -> Vec<ClassTime> {
        let mut sums: BTreeMap<&'static str, [f64; 2]> = BTreeMap::new();
        for TimedOperation { class, measured, predicted } in about.operations(row) {
            let sum = sums.entry(class).or_default();
            *sum = [sum[0] + measured.0, sum[1] + predicted.0];
        }
        let time = |(class, [measured, predicted]): (_, [f64; 2])| ClassTime {
            variant: row.record.variant.clone(),
            batch: row.record.workload.batch,
            class,
            measured: Milliseconds(measured),
            predicted: Milliseconds(predicted),
        };
        sums.into_iter().map(time).collect()
    }
}

impl ClassScores {
    /// The scores of every class over all steps.
    pub fn by_class(times: &[ClassTime]) -> BTreeMap<&'static str, ClassScores> {
        let mut classes: BTreeMap<&'static str, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
        for time in times {
            let (measured, predicted) = classes.entry(time.class).or_default();
            measured.push(time.measured.0);
            predicted.push(time.predicted.0);
        }
        let total = |of: fn(&ClassTime) -> f64| times.iter().map(of).sum::<f64>();
        let totals = [total(|time| time.measured.0), total(|time| time.predicted.0)];
        let share = |times: &[f64], total: f64| 100.0 * times.iter().sum::<f64>() / total;
        let scores = classes.into_iter().filter_map(|(class, (measured, predicted))| {
            let [share, predicted_share] = [share(&measured, totals[0]), share(&predicted, totals[1])];
            Some((class, ClassScores { share, predicted_share, scores: ErrorScores::compute(&measured, &predicted)? }))
        });
        scores.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_time_and_errors_of_single_steps() {
        let time = |batch, class, measured, predicted| ClassTime {
            variant: Variant::new("net", 0),
            batch,
            class,
            measured: Milliseconds(measured),
            predicted: Milliseconds(predicted),
        };
        let times = [time(1, "dense", 2.0, 3.0), time(2, "dense", 4.0, 3.0), time(1, "pooling", 2.0, 2.0)];
        let scores = ClassScores::by_class(&times);
        // 6 of 8 ms; errors of +50 % and -25 %.
        assert_eq!((scores["dense"].share, scores["dense"].scores.mape), (75.0, 37.5));
        assert_eq!((scores["pooling"].predicted_share, scores["pooling"].scores.rows), (25.0, 1));
    }
}
