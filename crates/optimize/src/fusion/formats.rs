//! Buckets as frameworks read them.

use super::{AllReduceLink, BucketFusion, ReadyGradient};
use perf4sight_replay::buckets::BucketLimits;
use serde_json::{Value, json};
use std::fmt::Write;
use std::ops::Range;

/// Bytes of a MiB, the unit of `bucket_cap_mb`.
const MIB: u64 = 1 << 20;

/// What to write in a program of PyTorch: the argument of DistributedDataParallel. Another first bucket than the others
/// is possible with the default `bucket_cap_mb` alone (torch/nn/parallel/distributed.py of PyTorch 2.11).
pub fn pytorch_arguments(limits: BucketLimits) -> String {
    match limits {
        BucketLimits::DEFAULT => "DistributedDataParallel(...) without bucket_cap_mb".to_owned(),
        BucketLimits { first, others } if first == others => {
            format!("DistributedDataParallel(..., bucket_cap_mb={})", others as f64 / MIB as f64)
        }
        BucketLimits { first, .. } => format!(
            "dist._DEFAULT_FIRST_BUCKET_BYTES = {first} before DistributedDataParallel(...) without bucket_cap_mb"
        ),
    }
}

/// The argument that makes PyTorch 2.15 make exactly these buckets: the i-th is full at the i-th number of MiB, which may be fractions
/// (`_BucketCapacityConfig` in torch/nn/parallel/distributed.py). Of the numbers that make a bucket the one with the fewest digits.
pub fn pytorch_list(gradients: &[ReadyGradient], fusion: &BucketFusion) -> String {
    let caps = fusion.buckets().map(|places| {
        let without_last = bytes(gradients, places.start..places.end - 1);
        shortest_cap(without_last, bytes(gradients, places))
    });
    let caps: Vec<String> = caps.map(|cap| cap.to_string()).collect();
    format!("DistributedDataParallel(..., bucket_cap_mb_list=[{}])", caps.join(", "))
}

/// The decimal number of MiB with the fewest digits that is more than some bytes and at most others.
fn shortest_cap(more_than: u64, at_most: u64) -> f64 {
    let exact = at_most as f64 / MIB as f64;
    let mut rounded = (0..=6).map(|digits| {
        let unit = 10_f64.powi(digits);
        (exact * unit).floor() / unit
    });
    let is_between = |cap: &f64| ((cap * MIB as f64) as u64) > more_than;
    rounded.find(is_between).unwrap_or(exact)
}

fn join_places(places: Range<usize>, separator: &str) -> String {
    places.map(|place| place.to_string()).collect::<Vec<_>>().join(separator)
}

/// The published mapping: gradients of each bucket, by their places, `{"mapping": ["0+1+2", "3+4"]}`.
pub fn group_mapping(fusion: &BucketFusion) -> Value {
    json!({ "mapping": fusion.buckets().map(|places| join_places(places, "+")).collect::<Vec<_>>() })
}

/// The published list of parts for BytePS: a line for each bucket with the bytes of a part; every bucket is one part.
pub fn partitions(gradients: &[ReadyGradient], fusion: &BucketFusion) -> String {
    fusion.buckets().fold(String::new(), |mut text, places| {
        let name = join_places(places.clone(), "_");
        // A string takes any text.
        let _ = writeln!(text, "Distributed_Push_Pull/BytePSPushPull.{name} {}", bytes(gradients, places));
        text
    })
}

fn bytes(gradients: &[ReadyGradient], places: Range<usize>) -> u64 {
    gradients[places].iter().map(|gradient| gradient.bytes).sum()
}

/// `HOROVOD_FUSION_THRESHOLD` in bytes: no bucket of Horovod may exceed it, so it is the largest one's size.
pub fn horovod_threshold(gradients: &[ReadyGradient], fusion: &BucketFusion) -> u64 {
    fusion.buckets().map(|places| bytes(gradients, places)).max().unwrap_or(0)
}

/// The buckets that Horovod makes with that threshold if all gradients are announced in their order: each takes what does not exceed it
/// (`FuseResponses` in horovod/common/controller.cc).
pub fn of_threshold(gradients: &[ReadyGradient], link: AllReduceLink, threshold: u64) -> BucketFusion {
    let mut ends = Vec::new();
    let mut sum = 0;
    for (place, gradient) in gradients.iter().enumerate() {
        let is_new = place > 0 && (sum + gradient.bytes > threshold || gradient.pass != gradients[place - 1].pass);
        if is_new {
            ends.push(place);
        }
        sum = if is_new { gradient.bytes } else { sum + gradient.bytes };
    }
    ends.push(gradients.len());
    BucketFusion::of_ends(gradients, link, ends)
}
