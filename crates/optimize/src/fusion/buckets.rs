//! Buckets as PyTorch's DistributedDataParallel makes them, and the best size of theirs.

use super::{Fusion, Gradient, Link};

/// Bytes of a MiB, the unit of `bucket_cap_mb`.
const MIB: u64 = 1 << 20;
/// The first bucket unless `bucket_cap_mb` is given (`dist._DEFAULT_FIRST_BUCKET_BYTES`).
const FIRST_BYTES: u64 = MIB;
/// The most sizes that are tried: gradients of more MiB are tried in larger strides.
const MOST_CAPS: u64 = 1024;

/// At how many bytes buckets are full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketCaps {
    /// The first bucket, that of the last layers.
    pub first_bytes: u64,
    /// All others.
    pub bytes: u64,
}

impl BucketCaps {
    /// PyTorch's defaults: 1 MiB, then 25 MiB.
    pub const DEFAULT: BucketCaps = BucketCaps { first_bytes: FIRST_BYTES, bytes: 25 * MIB };
}

/// The best size of buckets, with what it brings.
#[derive(Debug, Clone, PartialEq)]
pub struct BestCap {
    /// At how many bytes buckets are full.
    pub caps: BucketCaps,
    /// The buckets.
    pub fusion: Fusion,
}

/// The buckets of PyTorch: a bucket closes as its bytes reach the cap, so the gradient that fills it is part of it
/// (`compute_bucket_assignment_by_size` of `reducer.cpp`).
pub fn buckets(gradients: &[Gradient], link: Link, caps: BucketCaps) -> Fusion {
    let (mut ends, mut bytes) = (Vec::new(), 0);
    for (place, gradient) in gradients.iter().enumerate() {
        bytes += gradient.bytes;
        let cap = if ends.is_empty() { caps.first_bytes } else { caps.bytes };
        if bytes >= cap || place + 1 == gradients.len() {
            ends.push(place + 1);
            bytes = 0;
        }
    }
    Fusion::of_ends(gradients, link, ends)
}

/// The best `bucket_cap_mb`, a whole number, with a first bucket of 1 MiB or of the same size. The default is among
/// those that are tried, and is kept where none is better.
pub fn best_cap(gradients: &[Gradient], link: Link) -> BestCap {
    let total: u64 = gradients.iter().map(|gradient| gradient.bytes).sum();
    let most = total.div_ceil(MIB).max(1);
    let sizes = (1..=most).step_by(most.div_ceil(MOST_CAPS) as usize).map(|size| size * MIB);
    let caps = sizes.flat_map(|bytes| [FIRST_BYTES, bytes].map(|first_bytes| BucketCaps { first_bytes, bytes }));
    let mut best = BestCap { caps: BucketCaps::DEFAULT, fusion: buckets(gradients, link, BucketCaps::DEFAULT) };
    for caps in caps {
        let fusion = buckets(gradients, link, caps);
        if fusion.finished_ms < best.fusion.finished_ms {
            best = BestCap { caps, fusion };
        }
    }
    best
}
