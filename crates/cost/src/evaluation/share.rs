//! Subsets of observations: to fit on, and to leave out.

use crate::fingerprint::{FailedAttempt, MeasuredRow, Observations};
use crate::records::Variant;
use perf4sight_platform::Platform;
use std::collections::BTreeSet;

#[derive(Debug, Clone)]
pub(super) struct ObservationSubset<'a> {
    pub rows: Vec<MeasuredRow>,
    taught: &'a [MeasuredRow],
    pub failed: Vec<FailedAttempt>,
    platform: &'a Platform,
}

impl<'a> ObservationSubset<'a> {
    /// The observations whose variants satisfy `belongs`; rows of calibration networks are in every subset.
    pub fn select(observations: &Observations<'a>, belongs: impl Fn(&Variant) -> bool) -> Self {
        let rows = observations.rows.iter().filter(|row| belongs(&row.record.variant)).cloned();
        let failed = observations.failed.iter().filter(|attempt| belongs(&attempt.record.variant)).cloned();
        let Observations { taught, platform, .. } = *observations;
        ObservationSubset { rows: rows.collect(), taught, failed: failed.collect(), platform }
    }

    /// Adds the rows and failures of another subset.
    pub fn add(&mut self, more: ObservationSubset) {
        self.rows.extend(more.rows);
        self.failed.extend(more.failed);
    }

    /// The subset as observations to fit on.
    pub fn observations(&self) -> Observations<'_> {
        self.on_platform(self.platform)
    }

    pub fn on_platform<'b>(&'b self, platform: &'b Platform) -> Observations<'b> {
        Observations { rows: &self.rows, taught: self.taught, failed: &self.failed, platform }
    }
}

/// The names of all networks with a row that passed, in alphabetical order.
pub(super) fn networks(observations: &Observations) -> Vec<String> {
    let names: BTreeSet<&String> = observations.rows.iter().map(|row| &row.record.variant.network).collect();
    names.into_iter().cloned().collect()
}
