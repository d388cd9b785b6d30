//! The largest batch size that fits: predictions compared with the batch sizes tried.

use crate::fingerprint::{MaxBatch, PreparedStep};
use crate::records::Variant;
use perf4sight_base::stats::mean;
use serde::Serialize;

/// One variant that was tried up to and beyond its limit.
#[derive(Debug, Clone, PartialEq)]
pub struct LargestBatch {
    /// The network at its level.
    pub variant: Variant,
    /// The batch sizes tried, ascending.
    pub tried: Vec<u64>,
    /// The largest that fitted below every one that did not.
    pub fitted: u64,
    /// The smallest that did not fit.
    pub failed: u64,
    /// The prediction of the fingerprint.
    pub said: MaxBatch,
}

/// The accuracy of predicted largest batch sizes, over variants; shares in percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LargestBatchScores {
    /// Variants that were tried up to and beyond their limit.
    pub variants: usize,
    /// Mean absolute percentage error of the likely value; both values are rounded down to a batch size that was
    /// tried.
    pub mape: f64,
    /// Mean absolute percentage errors of the likely value if the true largest batches, which are somewhere between the
    /// one that fitted and the one that did not, are as near to it and as far from it as they may be.
    pub possible: [f64; 2],
    /// Share of variants whose safe value did not fit.
    #[serde(rename = "unsafe")]
    pub unsafe_share: f64,
    /// Mean share of the largest batch that fitted which the safe value uses, at most all of it.
    pub used: f64,
}

impl LargestBatch {
    /// A variant with the batch sizes that fitted and did not. None unless one fitted below all that did not, and
    /// none where the fingerprint has no limit.
    pub(super) fn new(variant: &Variant, [fitted, failed]: [&[u64]; 2], about: &PreparedStep) -> Option<LargestBatch> {
        let smallest = failed.iter().copied().min()?;
        let largest = fitted.iter().copied().filter(|batch| *batch < smallest).max()?;
        let mut tried = [fitted, failed].concat();
        tried.sort_unstable();
        tried.dedup();
        let said = about.max_batch()?;
        Some(LargestBatch { variant: variant.clone(), tried, fitted: largest, failed: smallest, said })
    }

    /// The likely value, rounded down to a batch size that was tried.
    fn likely_tried(&self) -> u64 {
        self.tried.iter().copied().filter(|batch| *batch <= self.said.likely).max().unwrap_or_default()
    }

    /// Percentage errors of the likely value, compared with the true largest batch that is nearest to it and with the one
    /// that is farthest from it.
    fn error_bounds(&self) -> [f64; 2] {
        let (likely, last) = (self.said.likely, self.failed - 1);
        let off = |truth: u64| likely.abs_diff(truth) as f64 / truth as f64;
        [off(likely.clamp(self.fitted, last)), off(self.fitted).max(off(last))]
    }
}

impl LargestBatchScores {
    /// Scores of some variants; none without variants.
    pub fn from_variants(largest: &[LargestBatch]) -> Option<Self> {
        let over = |of: fn(&LargestBatch) -> f64| 100.0 * mean(&largest.iter().map(of).collect::<Vec<f64>>());
        (!largest.is_empty()).then(|| LargestBatchScores {
            variants: largest.len(),
            mape: over(|one| one.likely_tried().abs_diff(one.fitted) as f64 / one.fitted as f64),
            possible: [over(|one| one.error_bounds()[0]), over(|one| one.error_bounds()[1])],
            unsafe_share: over(|one| f64::from(u8::from(one.said.safe >= one.failed))),
            used: over(|one| one.said.safe.min(one.fitted) as f64 / one.fitted as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn largest(safe: u64, likely: u64) -> LargestBatch {
        // 40 fitted although 30 had not, as happens on real devices: the first that did not fit counts.
        let (variant, said) = (Variant::new("net", 0), MaxBatch { safe, likely });
        LargestBatch { variant, tried: vec![10, 20, 30, 40, 50], fitted: 20, failed: 30, said }
    }

    #[test]
    fn errors_count_between_batch_sizes_that_were_tried() {
        // 29 is as good as 20, 31 as bad as 30 (+50 %); 15 of 20 is 75 % used, and 30 is all of it but unsafe.
        let scores = LargestBatchScores::from_variants(&[largest(15, 29), largest(30, 31)]).unwrap();
        assert_eq!((scores.variants, scores.mape, scores.unsafe_share, scores.used), (2, 25.0, 50.0, 87.5));
        assert!(LargestBatchScores::from_variants(&[]).is_none());
    }

    #[test]
    fn errors_are_no_smaller_than_the_gap_between_what_ran_and_what_did_not() {
        // The truth is one of 20 to 29. Of 29 it is 0 % off at best, and (29 - 20) / 20 = 45 % at worst; of 31 at best
        // (31 - 29) / 29 = 6.9 %, at worst 55 %.
        let scores = LargestBatchScores::from_variants(&[largest(15, 29)]).unwrap();
        assert_eq!((scores.mape, scores.possible), (0.0, [0.0, 45.0]));
        let [best, worst] = LargestBatchScores::from_variants(&[largest(30, 31)]).unwrap().possible;
        assert!((best - 200.0 / 29.0).abs() < 1e-9 && (worst - 55.0).abs() < 1e-9, "{best} {worst}");
    }
}
