//! One network with the fitted latency of a device, for predictions of the profiled step or another one.

use super::narrow::NarrowFactors;
use super::predicted_steps::PredictedSteps;
use super::prepared::{PreparedLatency, WORST_TWENTIETH};
use crate::fingerprint::prediction::{IntervalBand, LatencyShares, Predictor, TimedOperation};
use crate::fingerprint::rows::MeasuredRow;
use std::sync::Arc;

/// Standard deviation of the time, in logarithms, for every factor of e that a step adds to the profiled one or
/// leaves out of it, according to physics. It is the root of the squared errors over the squared differences: 0.11
/// for parts that are trained, 0.10 for segments and 0.25 for passes, the largest of the three, in the tables of
/// other steps of `docs/accuracy/latency.md`. Other optimizers differ there by less than equal steps do.
const BY_PHYSICS: f64 = 0.25;

/// A step of one network with the fitted latency of a device. For another step than the profiled one, the operations
/// of both are predicted by the fit, and the others by physics.
pub(in crate::fingerprint) struct RequestedStep<'a> {
    pub(super) profiled: Arc<PreparedLatency<'a>>,
    /// None for the profiled step itself.
    pub(super) asked: Option<PredictedSteps<'a>>,
    /// Where the requested step has another precision: the same step at the profiled precision, and the speed at the
    /// other.
    pub(super) narrow: Option<(PredictedSteps<'a>, NarrowFactors)>,
}

impl RequestedStep<'_> {
    fn promise(&self) -> &PredictedSteps<'_> {
        self.asked.as_ref().unwrap_or(&self.profiled.promise)
    }

    /// The difference of two steps in factors of e: the work that only one of them does, relative to the work of
    /// both. A step that is dearer in one part and cheaper in another is no more certain because its total is the
    /// same.
    fn difference(&self, asked: &PredictedSteps, batch: u64) -> f64 {
        // The time at another precision was measured, and has its own uncertainty.
        let asked = self.narrow.as_ref().map_or(asked, |(alike, _)| alike);
        let [own, asked] = [&self.profiled.promise, asked].map(|step| step.passes(batch));
        let common: f64 = own.iter().flatten().zip(asked.iter().flatten()).map(|(own, asked)| own.min(*asked)).sum();
        // Every step runs the forward of every operation.
        [own, asked].map(|passes| (passes.iter().flatten().sum::<f64>() / common).ln()).iter().sum()
    }
}

impl Predictor for RequestedStep<'_> {
    fn predict(&self, batch: u64) -> f64 {
        let longer = |asked: &PredictedSteps| asked.milliseconds(batch) / self.profiled.promise.milliseconds(batch);
        self.profiled.milliseconds(batch) * self.asked.as_ref().map_or(1.0, longer)
    }

    fn band(&self, batch: u64) -> Option<IntervalBand> {
        let band = self.profiled.band(batch)?;
        let Some(asked) = &self.asked else { return Some(band) };
        let narrow = self.narrow.as_ref().map_or(0.0, |(_, narrow)| narrow.deviation(asked.narrow_shares(batch)));
        let more = WORST_TWENTIETH * (BY_PHYSICS * self.difference(asked, batch)).hypot(narrow);
        Some(IntervalBand { ends: band.ends.map(|end| end.signum() * end.hypot(more)), ..band })
    }

    fn operations(&self, row: &MeasuredRow) -> Vec<TimedOperation> {
        self.promise().operations(row)
    }

    fn shares(&self, batch: u64) -> Option<LatencyShares> {
        Some(self.promise().shares_of(batch, self.predict(batch)))
    }
}
