//! The largest batch size that fits: what a fingerprint says beside what was tried.

use crate::fingerprint::{Fingerprint, MaxBatch, Observations};
use crate::network::Network;
use crate::records::Variant;
use crate::stats::mean;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One variant that was tried up to and beyond its limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Largest {
    /// The network at its level.
    pub variant: Variant,
    /// The batch sizes tried, ascending.
    pub tried: Vec<u64>,
    /// The largest that fitted below every one that did not.
    pub fitted: u64,
    /// The smallest that did not fit.
    pub failed: u64,
    /// What the fingerprint says.
    pub said: MaxBatch,
}

/// How good largest batch sizes are, over variants; shares in percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LargestScores {
    /// Variants that were tried up to and beyond their limit.
    pub variants: usize,
    /// Mean absolute percentage error of the likely value, both sides as the largest batch size tried that fits.
    pub mape: f64,
    /// Share of variants whose safe value did not fit.
    #[serde(rename = "unsafe")]
    pub unsafe_share: f64,
    /// Mean share of the largest that fitted which the safe value makes use of; beyond it nothing more counts.
    pub used: f64,
}

/// A variant and the batch sizes tried of it.
#[derive(Default)]
struct Tried {
    network: Option<Arc<Network>>,
    fitted: Vec<u64>,
    failed: Vec<u64>,
}

impl Largest {
    /// Every variant with a batch size that fitted below one that did not; none where the fingerprint knows no limit.
    pub(super) fn all(fingerprint: &Fingerprint, observations: &Observations) -> Vec<Largest> {
        let mut variants: BTreeMap<&Variant, Tried> = BTreeMap::new();
        for row in observations.rows {
            let tried = variants.entry(&row.record.variant).or_default();
            tried.network = Some(row.network.clone());
            tried.fitted.push(row.record.workload.batch);
        }
        for attempt in observations.failed.iter().filter(|attempt| attempt.did_not_fit()) {
            variants.entry(&attempt.record.variant).or_default().failed.push(attempt.record.workload.batch);
        }
        variants.into_par_iter().filter_map(|(variant, tried)| tried.ask(fingerprint, variant)).collect()
    }

    /// The likely value, as the largest batch size tried that is not above it.
    fn likely_tried(&self) -> u64 {
        self.tried.iter().copied().filter(|batch| *batch <= self.said.likely).max().unwrap_or_default()
    }
}

impl Tried {
    fn ask(self, fingerprint: &Fingerprint, variant: &Variant) -> Option<Largest> {
        let failed = self.failed.iter().copied().min()?;
        let fitted = self.fitted.iter().copied().filter(|batch| *batch < failed).max()?;
        let said = fingerprint.about(self.network.as_deref()?).max_batch()?;
        let mut tried = [self.fitted, self.failed].concat();
        tried.sort_unstable();
        tried.dedup();
        Some(Largest { variant: variant.clone(), tried, fitted, failed, said })
    }
}

impl LargestScores {
    /// Scores of some variants; none for none.
    pub fn of(largest: &[Largest]) -> Option<Self> {
        let over = |of: fn(&Largest) -> f64| 100.0 * mean(&largest.iter().map(of).collect::<Vec<f64>>());
        (!largest.is_empty()).then(|| LargestScores {
            variants: largest.len(),
            mape: over(|one| one.likely_tried().abs_diff(one.fitted) as f64 / one.fitted as f64),
            unsafe_share: over(|one| f64::from(u8::from(one.said.safe >= one.failed))),
            used: over(|one| one.said.safe.min(one.fitted) as f64 / one.fitted as f64),
        })
    }
}
