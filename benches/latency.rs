//! Physical latency: the kernels of a step, one prediction from a network, 25 batch sizes, a fit.

use criterion::{Criterion, criterion_group, criterion_main};
use perf4sight_cost::features::physical::kernels;
use perf4sight_cost::fingerprint::{Fingerprint, FingerprintSubject, FitMethod, FitRecipe, MeasuredRow, Observations};
use perf4sight_cost::records::Variant;
use perf4sight_network::zoo::{Dataset, build};
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Quantity, Stage, Step, Workload};
use std::hint::black_box;
use std::sync::Arc;

#[path = "../tests/suite/invented.rs"]
mod invented;

/// As many rows as five networks at 13 levels and 20 batch sizes have, of a device that follows the arithmetic.
fn rows() -> Vec<MeasuredRow> {
    let mut rows = Vec::new();
    for name in ["resnet18", "resnet50", "mobilenetv2", "squeezenet", "mnasnet"] {
        let network = Arc::new(build(name, Dataset::Imagenet).expect("a network of the zoo"));
        for (level, batch) in (0..13u8).flat_map(|level| (1..=20u64).map(move |batch| (level, batch))) {
            let measured = 30.0 + f64::from(level) + 1e-8 * (batch * network.macs()) as f64;
            let workload = Workload::published(Stage::Training, batch);
            rows.push(invented::row(&network, Variant::new(name, level), workload, measured));
        }
    }
    rows
}

fn latency(criterion: &mut Criterion) {
    let (rows, platform) = (rows(), Platform::for_name("tx2").expect("a known device"));
    let subject = FingerprintSubject {
        device: "tx2".into(),
        dataset: "imagenet".into(),
        step: Step::published(Stage::Training),
        quantity: Quantity::Latency,
    };
    let fit = || {
        let observations = Observations { rows: &rows, taught: &[], failed: &[], platform: &platform };
        Fingerprint::fit(subject.clone(), FitRecipe::new(FitMethod::Hybrid, 1), &observations).expect("enough rows")
    };
    let fingerprint = fit();
    let resnet50 = build("resnet50", Dataset::Imagenet).expect("a network of the zoo");
    criterion.bench_function("kernels of resnet50", |bench| {
        bench.iter(|| kernels(black_box(&resnet50), Step::published(Stage::Training)))
    });
    criterion.bench_function("latency of resnet50", |bench| {
        bench.iter(|| fingerprint.predict(black_box(&resnet50), black_box(32)))
    });
    criterion.bench_function("latency of resnet50 at 25 batch sizes", |bench| {
        bench.iter(|| {
            let about = fingerprint.about(black_box(&resnet50));
            (1..=25).map(|step| about.predict(10 * step).value.value()).sum::<f64>()
        })
    });
    let mut slow = criterion.benchmark_group("fit");
    slow.sample_size(10).bench_function("hybrid latency on 1,300 rows", |bench| bench.iter(fit));
    slow.finish();
}

criterion_group!(benches, latency);
criterion_main!(benches);
