//! Buckets as frameworks read them.

use super::{BestCap, Fusion, Gradient};
use serde_json::{Value, json};

/// Bytes of a MiB, the unit of `bucket_cap_mb`.
const MIB: u64 = 1 << 20;

/// What to write in a program of PyTorch: the argument of DistributedDataParallel, and the size of the first bucket
/// where it is another one.
pub fn pytorch_arguments(best: &BestCap) -> String {
    let argument = format!("bucket_cap_mb={}", best.caps.bytes / MIB);
    match best.caps.first_bytes == best.caps.bytes {
        true => argument,
        false => format!("{argument}, dist._DEFAULT_FIRST_BUCKET_BYTES={}", best.caps.first_bytes),
    }
}

/// The published mapping: gradients of each bucket, by their places, `{"mapping": ["0+1+2", "3+4"]}`.
pub fn horovod_mapping(fusion: &Fusion) -> Value {
    let buckets = fusion.buckets().map(|places| places.map(|place| place.to_string()).collect::<Vec<_>>().join("+"));
    json!({ "mapping": buckets.collect::<Vec<_>>() })
}

/// `HOROVOD_FUSION_THRESHOLD` in bytes: no bucket of Horovod may exceed it, so it is the largest one's size.
pub fn horovod_threshold(gradients: &[Gradient], fusion: &Fusion) -> u64 {
    let bytes = |places: std::ops::Range<usize>| gradients[places].iter().map(|gradient| gradient.bytes).sum();
    fusion.buckets().map(bytes).max().unwrap_or(0)
}
