//! Buckets as frameworks read them.

use super::{Fusion, Gradient};
use perf4sight_replay::buckets::Limits;
use serde_json::{Value, json};
use std::fmt::Write;
use std::ops::Range;

/// Bytes of a MiB, the unit of `bucket_cap_mb`.
const MIB: u64 = 1 << 20;

/// What to write in a program of PyTorch: the argument of DistributedDataParallel. Another first bucket than the others
/// is possible with the default `bucket_cap_mb` alone (torch/nn/parallel/distributed.py of PyTorch 2.11).
pub fn pytorch_arguments(limits: Limits) -> String {
    match limits {
        Limits::DEFAULT => "DistributedDataParallel(...) without bucket_cap_mb".to_owned(),
        Limits { first, others } if first == others => {
            format!("DistributedDataParallel(..., bucket_cap_mb={})", others / MIB)
        }
        Limits { first, .. } => format!(
            "dist._DEFAULT_FIRST_BUCKET_BYTES = {first} before DistributedDataParallel(...) without bucket_cap_mb"
        ),
    }
}

fn joined(places: Range<usize>, separator: &str) -> String {
    places.map(|place| place.to_string()).collect::<Vec<_>>().join(separator)
}

/// The published mapping: gradients of each bucket, by their places, `{"mapping": ["0+1+2", "3+4"]}`.
pub fn group_mapping(fusion: &Fusion) -> Value {
    json!({ "mapping": fusion.buckets().map(|places| joined(places, "+")).collect::<Vec<_>>() })
}

/// The published list of parts for BytePS: a line for each bucket with the bytes of a part; every bucket is one part.
pub fn partitions(gradients: &[Gradient], fusion: &Fusion) -> String {
    fusion.buckets().fold(String::new(), |mut text, places| {
        let name = joined(places.clone(), "_");
        // A string takes any text.
        let _ = writeln!(text, "Distributed_Push_Pull/BytePSPushPull.{name} {}", bytes(gradients, places));
        text
    })
}

fn bytes(gradients: &[Gradient], places: Range<usize>) -> u64 {
    gradients[places].iter().map(|gradient| gradient.bytes).sum()
}

/// `HOROVOD_FUSION_THRESHOLD` in bytes: no bucket of Horovod may exceed it, so it is the largest one's size.
pub fn horovod_threshold(gradients: &[Gradient], fusion: &Fusion) -> u64 {
    fusion.buckets().map(|places| bytes(gradients, places)).max().unwrap_or(0)
}
