//! The rule by which PyTorch assigns gradients to buckets.

use std::ops::Range;

/// Sizes in bytes at which buckets are full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketLimits {
    /// Of the first bucket.
    pub first: u64,
    /// Of the others.
    pub others: u64,
}

impl BucketLimits {
    /// PyTorch's default where no `bucket_cap_mb` is given: a first bucket of 1 MiB, so that communication begins early,
    /// then 25 MiB.
    pub const DEFAULT: BucketLimits = BucketLimits { first: 1 << 20, others: 25 << 20 };

    /// The limits of a `bucket_cap_mb`, which PyTorch counts in MiB and then takes for the first bucket too.
    pub fn of_cap(mebibytes: f64) -> BucketLimits {
        let bytes = (mebibytes * f64::from(1 << 20)) as u64;
        BucketLimits { first: bytes, others: bytes }
    }
}

/// The gradients of each bucket, for gradients of these sizes in the order in which they were ready in the first step: a
/// bucket is full as soon as it reaches its limit (`compute_bucket_assignment_by_size` in PyTorch's reducer.cpp).
///
/// ```
/// use perf4sight_replay::buckets::{BucketLimits, assign};
/// assert_eq!(assign(&[5, 5, 5, 5, 2], BucketLimits { first: 4, others: 10 }), [0..1, 1..3, 3..5]);
/// ```
pub fn assign(gradients: &[u64], limits: BucketLimits) -> Vec<Range<usize>> {
    let mut buckets: Vec<Range<usize>> = Vec::new();
    let (mut first, mut bytes) = (0, 0u64);
    for (index, gradient) in gradients.iter().enumerate() {
        bytes = bytes.saturating_add(*gradient);
        let limit = if buckets.is_empty() { limits.first } else { limits.others };
        if bytes >= limit {
            buckets.push(first..index + 1);
            (first, bytes) = (index + 1, 0);
        }
    }
    if first < gradients.len() {
        buckets.push(first..gradients.len());
    }
    buckets
}

/// The same of several backward passes: each gradient has the number of its pass and its size.
pub fn assign_passes(gradients: impl Iterator<Item = (u32, u64)>, limits: BucketLimits) -> Vec<Range<usize>> {
    let gradients: Vec<(u32, u64)> = gradients.collect();
    let mut buckets = Vec::new();
    let mut first = 0;
    for pass in gradients.chunk_by(|(one, _), (next, _)| one == next) {
        let sizes: Vec<u64> = pass.iter().map(|(_, bytes)| *bytes).collect();
        buckets.extend(assign(&sizes, limits).into_iter().map(|own| first + own.start..first + own.end));
        first += pass.len();
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bucket_has_gradients_of_two_passes() {
        let limits = BucketLimits { first: 10, others: 10 };
        assert_eq!(assign_passes([(0, 5), (0, 6), (0, 2), (1, 5), (1, 6)].into_iter(), limits), [0..2, 2..3, 3..5]);
    }

    /// What PyTorch 2.11 logged for the MLP of twelve layers of 1024 x 1024 and one of 10 at `bucket_cap_mb = 8`.
    #[test]
    fn buckets_are_those_that_pytorch_logged() {
        let mut gradients = vec![40, 40_960];
        gradients.extend([4_096, 4_194_304].repeat(12));
        let sizes = |range: Range<usize>| gradients[range].iter().sum::<u64>();
        let buckets: Vec<u64> = assign(&gradients, BucketLimits::of_cap(8.0)).into_iter().map(sizes).collect();
        assert_eq!(buckets, [8_437_800, 8_396_800, 8_396_800, 8_396_800, 8_396_800, 8_396_800]);
    }
}
