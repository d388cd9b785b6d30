//! Buckets as PyTorch's DistributedDataParallel makes them, and which sizes of theirs there are to choose from.

use super::{AllReduceLink, BucketFusion, ReadyGradient};
use perf4sight_replay::buckets::{BucketLimits, assign_passes};
use std::collections::BTreeMap;

/// Bytes of a MiB, the unit of `bucket_cap_mb`.
const MIB: u64 = 1 << 20;
/// The most sizes that are tried: gradients of more MiB are tried in larger strides.
const MOST_CAPS: u64 = 1024;
/// Sizes below 1 MiB, for small networks: PyTorch takes any number (`int(bucket_cap_mb * 1024 * 1024)`).
const SMALL: [u64; 3] = [MIB / 8, MIB / 4, MIB / 2];

/// Sizes of buckets that a user of PyTorch can choose, and the buckets they make.
#[derive(Debug, Clone, PartialEq)]
pub struct BucketChoice {
    /// At how many bytes buckets are full.
    pub limits: BucketLimits,
    /// The buckets.
    pub fusion: BucketFusion,
}

/// The buckets of PyTorch ([`assign_passes`]) and when the last one is reduced.
pub fn buckets(gradients: &[ReadyGradient], link: AllReduceLink, limits: BucketLimits) -> BucketFusion {
    let buckets = assign_passes(gradients.iter().map(|gradient| (gradient.pass, gradient.bytes)), limits);
    BucketFusion::of_ends(gradients, link, buckets.into_iter().map(|bucket| bucket.end).collect())
}

/// All buckets that a `bucket_cap_mb` of whole numbers, or of an eighth, a quarter or a half, makes, the earliest reduced first; of limits that make the same
/// buckets the default, else the smallest whole number. Without a `bucket_cap_mb` the first bucket may be of another size
/// (`dist._DEFAULT_FIRST_BUCKET_BYTES`).
pub fn choices(gradients: &[ReadyGradient], link: AllReduceLink) -> Vec<BucketChoice> {
    let total: u64 = gradients.iter().map(|gradient| gradient.bytes).sum();
    let most = total.div_ceil(MIB).max(1);
    let whole = (1..=most).step_by(most.div_ceil(MOST_CAPS) as usize).map(|size| size * MIB);
    let sizes = || whole.clone().chain(SMALL);
    let caps = sizes().map(|bytes| BucketLimits { first: bytes, others: bytes });
    let firsts = sizes().map(|first| BucketLimits { first, ..BucketLimits::DEFAULT });
    let mut distinct: BTreeMap<Vec<usize>, BucketChoice> = BTreeMap::new();
    for limits in [BucketLimits::DEFAULT].into_iter().chain(caps).chain(firsts) {
        let fusion = buckets(gradients, link, limits);
        distinct.entry(fusion.ends.clone()).or_insert(BucketChoice { limits, fusion });
    }
    let mut choices: Vec<BucketChoice> = distinct.into_values().collect();
    choices.sort_by(|one, other| one.fusion.finished_ms.total_cmp(&other.fusion.finished_ms));
    choices
}

/// The best sizes of buckets; the default where none are better.
pub fn best_cap(gradients: &[ReadyGradient], link: AllReduceLink) -> BucketChoice {
    best_of(gradients, link, |_| true)
}

/// The best sizes of buckets that a compiled model can have: `DDPOptimizer` refuses first buckets that are larger than others, and takes those
/// of `dist._DEFAULT_FIRST_BUCKET_BYTES` with any `bucket_cap_mb` (torch/_dynamo/backends/distributed.py of PyTorch 2.15).
pub fn best_compiled_cap(gradients: &[ReadyGradient], link: AllReduceLink) -> BucketChoice {
    best_of(gradients, link, |limits| match limits.first == limits.others {
        true => limits.others >= BucketLimits::DEFAULT.first,
        false => limits.first <= limits.others,
    })
}

fn best_of(
    gradients: &[ReadyGradient],
    link: AllReduceLink,
    is_possible: impl Fn(BucketLimits) -> bool,
) -> BucketChoice {
    let default =
        BucketChoice { limits: BucketLimits::DEFAULT, fusion: buckets(gradients, link, BucketLimits::DEFAULT) };
    let best = choices(gradients, link).into_iter().find(|choice| is_possible(choice.limits));
    best.filter(|best| best.fusion.finished_ms < default.fusion.finished_ms).unwrap_or(default)
}
