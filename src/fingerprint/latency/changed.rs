//! One network before the fitted latency of a device, asked about another step than those that were profiled.

use super::prepared::Prepared;
use crate::fingerprint::prediction::{Band, Predictor, Shares, TimedOperation};
use crate::fingerprint::rows::Row;

/// Standard deviation of the time, in logarithms, for every factor of e by which physics says that it differs from the profiled step's.
const BY_PHYSICS: f64 = 0.25;

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
}

impl Predictor for Changed<'_> {
    fn at(&self, batch: u64) -> f64 {
        self.own.at(batch) * self.factor(batch)
    }

    fn band(&self, batch: u64) -> Option<Band> {
        let band = self.own.band(batch)?;
        let more = BY_PHYSICS * self.factor(batch).ln().abs();
        Some(Band { ends: band.ends.map(|end| end.signum() * end.hypot(more)), ..band })
    }

    fn operations(&self, row: &Row) -> Vec<TimedOperation> {
        self.asked.operations(row)
    }

    fn shares(&self, batch: u64) -> Option<Shares> {
        self.asked.shares_of(batch, self.at(batch))
    }
}
