//! The published features of a whole network.

use criterion::{Criterion, criterion_group, criterion_main};
use perf4sight_cost::features::features;
use perf4sight_network::zoo::{Dataset, build};
use perf4sight_step::workload::{Stage, Workload};
use std::hint::black_box;

fn resnet50(criterion: &mut Criterion) {
    let network = build("resnet50", Dataset::Imagenet).expect("resnet50 is in the zoo");
    let workload = Workload::published(Stage::Training, 32);
    criterion.bench_function("56 features of resnet50", |bench| {
        bench.iter(|| features(black_box(&network), black_box(workload)))
    });
}

criterion_group!(benches, resnet50);
criterion_main!(benches);
