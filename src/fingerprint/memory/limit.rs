//! Does a step fit: a logistic on the logarithm of what it needs over what the device gives.

use serde::{Deserialize, Serialize};

/// Where steps stop to fit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limit {
    /// Simulated MiB at which a step is as likely to fit as not.
    pub threshold: f64,
    /// How fast the odds fall: natural logarithm of the odds per logarithm of simulated over threshold.
    pub steepness: f64,
}

/// One step that was tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial {
    pub simulated: f64,
    pub fitted: bool,
    pub weight: f64,
}

impl Limit {
    /// Probability that a step of this many simulated MiB fits.
    pub fn fits(&self, simulated: f64) -> f64 {
        1.0 / (1.0 + (self.steepness * (simulated / self.threshold).ln()).exp())
    }

    /// The largest simulated MiB that fit with at least that probability.
    pub fn reach(&self, probability: f64) -> f64 {
        self.threshold * (((1.0 - probability) / probability).ln() / self.steepness).exp()
    }

    /// From steps that were tried; none unless some fitted and some did not.
    pub fn fit(trials: &[Trial]) -> Option<Self> {
        let some = |fitted: bool| trials.iter().any(|trial| trial.fitted == fitted);
        if !(some(true) && some(false)) {
            return None;
        }
        let needs = trials.iter().map(|trial| trial.simulated);
        let candidates = needs.clone().map(|threshold| Limit { threshold, steepness: 30.0 });
        candidates.min_by(|a, b| a.loss(trials).total_cmp(&b.loss(trials)))
    }

    fn loss(&self, trials: &[Trial]) -> f64 {
        let loss = |trial: &Trial| {
            let right = if trial.fitted { self.fits(trial.simulated) } else { 1.0 - self.fits(trial.simulated) };
            -trial.weight * right.max(1e-9).ln()
        };
        trials.iter().map(loss).sum()
    }
}
