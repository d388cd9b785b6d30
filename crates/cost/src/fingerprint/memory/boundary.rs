//! The limit learned from failures: a decision tree finds it, and the odds of fitting fall with the logarithm of need
//! over limit.

use super::search::search;
use linfa::dataset::Dataset;
use linfa::traits::Fit;
use linfa_trees::DecisionTree;
use ndarray::{Array1, Array2};
use perf4sight_base::error::{Error, Result};
use perf4sight_platform::Allocator;
use serde::{Deserialize, Serialize};

/// The boundary between steps that fit and steps that do not.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryBoundary {
    /// Simulated MiB at which a step is as likely to fit as not.
    threshold: f64,
    /// Natural logarithm of the odds lost per natural logarithm of simulated over threshold.
    steepness: f64,
}

/// A step that was tried, and what became of it.
#[derive(Debug, Clone, Copy)]
pub struct TriedStep {
    /// Simulated MiB.
    pub demand: f64,
    /// False if it ran out of memory.
    pub fitted: bool,
}

/// The largest steepness that rows can show: one percent more memory halves the odds.
const SHARPEST: f64 = 70.0;

/// Without failures the device's capacity is used as the limit; a tenth more memory halves the odds.
const ASSUMED_STEEPNESS: f64 = 7.0;

/// Minimum probability that the safe batch size fits.
const SAFE: f64 = 0.95;

/// A simulation cannot predict exactly how a caching allocator cuts its memory: real steps took up to a quarter more
/// than simulated (`docs/accuracy/memory.md`). The safe size leaves that room.
const CACHING_ROOM: f64 = 0.8;

impl MemoryBoundary {
    /// Whether the numbers of a file are possible for a fit.
    pub fn is_valid(&self) -> bool {
        self.threshold > 0.0 && self.threshold.is_finite() && self.steepness > 0.0 && self.steepness.is_finite()
    }

    /// Probability that a step of this many simulated MiB fits.
    pub fn fit_probability(&self, demand: f64) -> f64 {
        1.0 / (1.0 + (self.steepness * (demand / self.threshold).ln()).exp())
    }

    /// Simulated MiB that are as likely to fit as not.
    pub fn likely_demand(&self) -> f64 {
        self.threshold
    }

    /// The largest simulated MiB that are safe.
    pub fn safe_demand(&self, allocator: Allocator) -> f64 {
        let sure = self.threshold * (((1.0 - SAFE) / SAFE).ln() / self.steepness).exp();
        match allocator {
            Allocator::Direct => sure,
            Allocator::Caching { .. } => sure.min(CACHING_ROOM * self.threshold),
        }
    }

    /// Fits the limit to some steps, every one weighing the same. None unless some fitted, some did not, and the
    /// latter needed more.
    ///
    /// # Errors
    /// The decision tree cannot be fitted.
    pub fn fit(trials: &[TriedStep]) -> Result<Option<Self>> {
        let Some(threshold) = split_demand(trials)? else { return Ok(None) };
        let ([steepness], _) = search([(0.3 * SHARPEST).ln()], [0.5], |[steepness]| {
            let boundary = MemoryBoundary { threshold, steepness: steepness.exp() };
            if boundary.steepness <= SHARPEST { boundary.negative_log_likelihood(trials) } else { f64::INFINITY }
        });
        Ok(Some(MemoryBoundary { threshold, steepness: steepness.exp() }))
    }

    /// The limit of a device without failures: its capacity, or the largest step that fitted if that is more.
    pub fn without_failures(capacity: f64, trials: &[TriedStep]) -> Self {
        let threshold = trials.iter().map(|trial| trial.demand).fold(capacity, f64::max);
        MemoryBoundary { threshold, steepness: ASSUMED_STEEPNESS }
    }

    /// Negative logarithm of the likelihood.
    fn negative_log_likelihood(&self, trials: &[TriedStep]) -> f64 {
        let surprise = |trial: &TriedStep| {
            let odds = self.steepness * (trial.demand / self.threshold).ln();
            let against = if trial.fitted { odds } else { -odds };
            if against > 30.0 { against } else { against.exp().ln_1p() }
        };
        trials.iter().map(surprise).sum()
    }
}

/// The split of a decision tree between steps that fit and steps that do not. One split on the allocator's memory:
/// deeper trees, and trees on more quantities, fit coincidences of the profiled networks (`docs/accuracy/memory.md`).
fn split_demand(trials: &[TriedStep]) -> Result<Option<f64>> {
    let demands: Vec<f64> = trials.iter().map(|trial| trial.demand).collect();
    let fitted: Array1<bool> = trials.iter().map(|trial| trial.fitted).collect();
    let sides = |wanted: bool| trials.iter().filter(move |trial| trial.fitted == wanted).map(|trial| trial.demand);
    let (Some(least), Some(most)) = (sides(false).reduce(f64::min), sides(true).reduce(f64::max)) else {
        return Ok(None);
    };
    if least > most {
        // The two sides do not overlap: the middle of the gap, as the tree would split without its minimum gain.
        return Ok(Some(0.5 * (least + most)));
    }
    let records = Array2::from_shape_fn((demands.len(), 1), |(row, _)| demands[row]);
    let tree = DecisionTree::params().max_depth(Some(1)).fit(&Dataset::new(records, fitted));
    let tree =
        tree.map_err(|cause| Error::input(format!("no decision tree grows on what did and did not fit: {cause}")))?;
    let root = tree.root_node();
    Ok((!root.is_leaf()).then(|| root.split().1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trials(fitted: &[f64], failed: &[f64]) -> Vec<TriedStep> {
        let trial = |fitted| move |&demand: &f64| TriedStep { demand, fitted };
        fitted.iter().map(trial(true)).chain(failed.iter().map(trial(false))).collect()
    }

    #[test]
    fn the_threshold_lies_between_what_fitted_and_what_did_not() {
        let boundary = MemoryBoundary::fit(&trials(&[100.0, 400.0, 480.0], &[520.0, 900.0])).unwrap().unwrap();
        assert!(boundary.fit_probability(480.0) > 0.5 && boundary.fit_probability(520.0) < 0.5, "{boundary:?}");
        assert!(
            boundary.safe_demand(Allocator::Direct) < boundary.likely_demand()
                && boundary.fit_probability(100.0) > 0.999
        );
        assert!(MemoryBoundary::fit(&trials(&[100.0], &[])).unwrap().is_none());
    }

    #[test]
    fn contradictions_make_it_less_sure() {
        let clear = MemoryBoundary::fit(&trials(&[100.0, 480.0], &[520.0, 900.0])).unwrap().unwrap();
        let vague = MemoryBoundary::fit(&trials(&[100.0, 480.0, 620.0], &[400.0, 520.0, 900.0])).unwrap().unwrap();
        assert!(vague.fit_probability(300.0) < clear.fit_probability(300.0));
        assert!(vague.safe_demand(Allocator::Direct) < clear.safe_demand(Allocator::Direct));
    }
}
