//! A training step simulated: at most 200 us a point for resnet50, and what preparing the schedule costs once a network.

use criterion::{Criterion, criterion_group, criterion_main};
use perf4sight_memory::Simulation;
use perf4sight_network::zoo::{Dataset, build};
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Stage, Step};
use std::hint::black_box;

fn simulated(criterion: &mut Criterion) {
    let network = build("resnet50", Dataset::Imagenet).expect("a known network");
    let platform = Platform::for_name("tx2").expect("a known device");
    let prepare = || Simulation::new(&network, Step::published(Stage::Training), &platform);
    let simulation = prepare();
    criterion.bench_function("peak of a resnet50 training step, batch 32", |bencher| {
        bencher.iter(|| simulation.peak(black_box(32)));
    });
    criterion.bench_function("schedule of a resnet50 training step and its first peak", |bencher| {
        bencher.iter(|| prepare().peak(black_box(32)))
    });
}

criterion_group!(benches, simulated);
criterion_main!(benches);
