//! Buckets on the shape that was published (160 layers, 32 groups, 16 ranks) in twenty settings, replayed: `cargo run --release -p
//! perf4sight-optimize --example published_shape`.

use perf4sight_base::error::Result;
use perf4sight_optimize::fusion::{BucketFusion, buckets, choices, of_step, optimum};
use perf4sight_replay::buckets::{BucketLimits, with_buckets};
use perf4sight_replay::simulate::simulate;
use perf4sight_replay::synthetic::{SyntheticCluster, SyntheticStep, cluster};
use std::ops::Range;

/// Networks: name, nanoseconds of forward of a layer, bytes of its gradients. Of the size of ResNet-50 (102 MB, 80 ms of forward), VGG-16 (553 MB,
/// 120 ms), BERT base (440 MB, 60 ms) and BERT large (1.34 GB, 160 ms), spread over 160 equal layers.
const NETWORKS: [(&str, u64, u64); 4] = [
    ("ResNet-50", 500_000, 640_000),
    ("VGG-16", 750_000, 3_460_000),
    ("BERT base", 375_000, 2_750_000),
    ("BERT large", 1_000_000, 8_375_000),
];
/// Gb/s and nanoseconds of a message: TCP, RoCE, InfiniBand.
const LINKS: [(f64, f64); 5] =
    [(10.0, 50_000.0), (25.0, 30_000.0), (50.0, 15_000.0), (100.0, 8_000.0), (200.0, 5_000.0)];

fn main() -> Result<()> {
    println!("| network | Gb/s | 32 groups | per tensor | one bucket | 25 MB | 64 MB | bucket_cap_mb | free buckets |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for (name, layer_time, layer_bytes) in NETWORKS {
        for (gigabits, latency) in LINKS {
            let shape = SyntheticCluster {
                ranks: 16,
                layers: 160,
                layers_per_bucket: 5,
                layer_time,
                layer_bytes,
                latency,
                per_byte: 8.0 / gigabits,
                jitter: 0.05,
                straggler: None,
            };
            row(name, gigabits, &cluster(&shape, 1)?)?;
        }
    }
    Ok(())
}

fn row(name: &str, gigabits: f64, made: &SyntheticStep) -> Result<()> {
    let schedule = simulate(&made.job.graph);
    let (gradients, link) = of_step(&made.job, &made.communication, &schedule)?;
    let ends = |step: usize| -> BucketFusion {
        let ends = (step..=gradients.len()).step_by(step).collect();
        BucketFusion::of_ends(&gradients, link, ends)
    };
    let capped = |bytes: u64| {
        buckets(&gradients, link, BucketLimits { first: bytes.min(BucketLimits::DEFAULT.first), others: bytes })
    };
    let horovod = ends(((64 << 20) / gradients[0].bytes).clamp(1, gradients.len() as u64) as usize);
    let horovod = closed(horovod, gradients.len());
    let best = choices(&gradients, link).swap_remove(0).fusion;
    let all = [ends(5), ends(1), ends(gradients.len()), capped(25 << 20), horovod, best, optimum(&gradients, link)];
    let times = all.iter().map(|fusion| replayed(made, fusion)).collect::<Result<Vec<f64>>>()?;
    let others = times[..5].iter().copied().fold(f64::INFINITY, f64::min);
    let is_best = times[6] <= others;
    let cells: Vec<String> = times.iter().map(|time| format!("{time:.1}")).collect();
    println!("| {name} | {gigabits} | {} |{}", cells.join(" | "), if is_best { "" } else { " WORSE" });
    Ok(())
}

/// The same with a last bucket for what is left.
fn closed(mut fusion: BucketFusion, count: usize) -> BucketFusion {
    if fusion.ends.last() != Some(&count) {
        fusion.ends.push(count);
    }
    fusion
}

/// Milliseconds of the replayed step.
fn replayed(made: &SyntheticStep, fusion: &BucketFusion) -> Result<f64> {
    let ranges: Vec<Range<usize>> = fusion.buckets().collect();
    let step = with_buckets(&made.job, &made.communication, &ranges)?;
    Ok(step.time(&simulate(&step.graph)) as f64 / 1e6)
}
