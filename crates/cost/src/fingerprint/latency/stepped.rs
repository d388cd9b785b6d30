//! One network before the fitted latency of a device, asked about the step that was profiled, or another one.

use super::narrow::Narrow;
use super::prepared::{Prepared, WORST_TWENTIETH};
use super::promise::Promise;
use crate::fingerprint::prediction::{Band, Predictor, Shares, TimedOperation};
use crate::fingerprint::rows::Row;
use std::sync::Arc;

/// Standard deviation of the time, in logarithms, for every factor of e that physics says a step adds to the profiled one or leaves out of it:
/// the root of the squared errors over the squared differences, which is 0.11 for parts that are trained, 0.10 for segments and 0.25 for passes, the largest
/// of the three, in the tables of other steps of `docs/accuracy/latency.md`. Other optimizers differ there by less than equal steps do.
const BY_PHYSICS: f64 = 0.25;

/// A step of one network before the fitted latency of a device. Of another step than the profiled one what both do takes as long as was measured, and what
/// they do not share what physics says.
pub(in crate::fingerprint) struct Stepped<'a> {
    pub(super) profiled: Arc<Prepared<'a>>,
    /// None where it is the profiled one that is asked about.
    pub(super) asked: Option<Promise<'a>>,
    /// Where the asked one computes with other numbers: the same step in those that were profiled, and what is known of the others.
    pub(super) narrow: Option<(Promise<'a>, Narrow)>,
}

impl Stepped<'_> {
    fn promise(&self) -> &Promise<'_> {
        self.asked.as_ref().unwrap_or(&self.profiled.promise)
    }

    /// By how many factors of e two steps differ: what the profiled one does alone and what the other one does alone, besides what both do.
    /// A step that is dearer in one thing and cheaper in another is no more certain for taking as long.
    fn difference(&self, asked: &Promise, batch: u64) -> f64 {
        // How long other numbers take was measured, and has a doubt of its own.
        let asked = self.narrow.as_ref().map_or(asked, |(alike, _)| alike);
        let [own, asked] = [&self.profiled.promise, asked].map(|step| step.passes(batch));
        let common: f64 = own.iter().flatten().zip(asked.iter().flatten()).map(|(own, asked)| own.min(*asked)).sum();
        // Every step goes forward through every operation.
        [own, asked].map(|passes| (passes.iter().flatten().sum::<f64>() / common).ln()).iter().sum()
    }
}

impl Predictor for Stepped<'_> {
    fn at(&self, batch: u64) -> f64 {
        let longer = |asked: &Promise| asked.promised(batch) / self.profiled.promise.promised(batch);
        self.profiled.at(batch) * self.asked.as_ref().map_or(1.0, longer)
    }

    fn band(&self, batch: u64) -> Option<Band> {
        let band = self.profiled.band(batch)?;
        let Some(asked) = &self.asked else { return Some(band) };
        let narrow = self.narrow.as_ref().map_or(0.0, |(_, narrow)| narrow.doubt(asked.narrow_shares(batch)));
        let more = WORST_TWENTIETH * (BY_PHYSICS * self.difference(asked, batch)).hypot(narrow);
        Some(Band { ends: band.ends.map(|end| end.signum() * end.hypot(more)), ..band })
    }

    fn operations(&self, row: &Row) -> Vec<TimedOperation> {
        self.promise().operations(row)
    }

    fn shares(&self, batch: u64) -> Option<Shares> {
        Some(self.promise().shares_of(batch, self.at(batch)))
    }
}
