//! One network before the fitted latency of a device, asked about another step than those that were profiled.

use super::prepared::{Prepared, WORST_TWENTIETH};
use crate::fingerprint::prediction::{Band, Predictor, Shares, TimedOperation};
use crate::fingerprint::rows::Row;

/// Standard deviation of the time, in logarithms, for every factor of e that physics says a step adds to the profiled one or leaves out of it:
/// the root of the squared errors over the squared differences, which is 0.03 for parts that are trained and 0.16 for passes, the larger of the two, in
/// the table of other steps of `docs/accuracy/latency.md`. Other optimizers differ there by less than equal steps do.
const BY_PHYSICS: f64 = 0.16;

/// A step that was profiled, and one that was not: what both do takes as long as was measured, and what they do not share what physics says.
pub(in crate::fingerprint) struct Changed<'a> {
    pub(super) own: Prepared<'a>,
    pub(super) asked: Prepared<'a>,
}

impl Changed<'_> {
    /// By what factor the step takes longer than the profiled one.
    fn factor(&self, batch: u64) -> f64 {
        self.asked.promised(batch) / self.own.promised(batch)
    }

    /// By how many factors of e the two steps differ: what the profiled one does alone and what the other one does alone, beside what both do.
    /// A step that is dearer in one thing and cheaper in another is no more certain for taking as long.
    fn difference(&self, batch: u64) -> f64 {
        let [own, asked] = [&self.own, &self.asked].map(|step| step.passes(batch));
        let common: f64 = own.iter().filter_map(|(pass, time)| Some(time.min(*asked.get(pass)?))).sum();
        // Every step goes forward through every operation.
        [own, asked].map(|passes| (passes.values().sum::<f64>() / common).ln()).iter().sum()
    }
}

impl Predictor for Changed<'_> {
    fn at(&self, batch: u64) -> f64 {
        self.own.at(batch) * self.factor(batch)
    }

    fn band(&self, batch: u64) -> Option<Band> {
        let band = self.own.band(batch)?;
        let more = WORST_TWENTIETH * BY_PHYSICS * self.difference(batch);
        Some(Band { ends: band.ends.map(|end| end.signum() * end.hypot(more)), ..band })
    }

    fn operations(&self, row: &Row) -> Vec<TimedOperation> {
        self.asked.operations(row)
    }

    fn shares(&self, batch: u64) -> Option<Shares> {
        self.asked.shares_of(batch, self.at(batch))
    }
}
