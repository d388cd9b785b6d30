//! From the bytes of an ONNX file to latency, memory, verdict and intervals: at most 1 ms for resnet50, 5 ms for 25 batch sizes.
//!
//! Ten thousand networks in a folder, at most 10 s on two cores:
//! `perf4sight --config-file benches/ten_thousand.ini --only create_network_dataset`, then
//! `time perf4sight --config-file benches/ten_thousand.ini --only predict > predictions.txt`.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use perf4sight_cost::fingerprint::{DeviceFingerprints, Fingerprint};
use perf4sight_onnx as onnx;
use perf4sight_step::workload::Stage;
use std::fs;
use std::hint::black_box;
use std::path::Path;

/// Latency and memory with intervals, and the verdict, for every batch size.
fn answer(bytes: &[u8], fingerprints: &DeviceFingerprints, batches: &[u64]) {
    let network = onnx::from_bytes("resnet50.onnx", bytes).expect("a network").network;
    for about in fingerprints.iter().map(|fingerprint| fingerprint.about(&network)) {
        for &batch in batches {
            black_box((about.predict(batch), about.verdict(batch)));
        }
    }
}

/// One fingerprint's part of it: preparing a network, then one batch size.
fn part(criterion: &mut Criterion, fingerprint: &Fingerprint, bytes: &[u8]) {
    let network = onnx::from_bytes("resnet50.onnx", bytes).expect("a network").network;
    let quantity = fingerprint.subject().quantity;
    criterion.bench_function(&format!("resnet50 prepared for {quantity}"), |bencher| {
        bencher.iter(|| black_box(fingerprint.about(&network)));
    });
    // Each time prepared anew: what was asked once is remembered.
    criterion.bench_function(&format!("{quantity} of one batch size"), |bencher| {
        bencher.iter_batched_ref(|| fingerprint.about(&network), |about| about.predict(8), BatchSize::SmallInput);
    });
    criterion.bench_function(&format!("largest batch, asked of the {quantity} fingerprint"), |bencher| {
        bencher.iter_batched_ref(|| fingerprint.about(&network), |about| about.max_batch(), BatchSize::SmallInput);
    });
}

fn predictions(criterion: &mut Criterion) {
    let bytes = fs::read("models/imagenet/resnet50.onnx").expect("the repository's networks");
    let folder = Path::new("fingerprinting/epyc-1-core/imagenet");
    let fingerprints = DeviceFingerprints::load(folder, Stage::Training).expect("the repository's fingerprint");
    let many: Vec<u64> = (1..=25).collect();
    criterion.bench_function("resnet50.onnx to everything, one batch size", |bencher| {
        bencher.iter(|| answer(&bytes, &fingerprints, black_box(&[8])));
    });
    criterion.bench_function("resnet50.onnx to everything, 25 batch sizes", |bencher| {
        bencher.iter(|| answer(&bytes, &fingerprints, black_box(&many)));
    });
    criterion.bench_function("resnet50.onnx read", |bencher| {
        bencher.iter(|| black_box(onnx::from_bytes("resnet50.onnx", &bytes)));
    });
    fingerprints.iter().for_each(|fingerprint| part(criterion, fingerprint, &bytes));
}

criterion_group!(benches, predictions);
criterion_main!(benches);
