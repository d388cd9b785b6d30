//! What makes a step fit, from the start of the program to its end, which is to take at most 100 ms a network, where something fits and where nothing does.
//!
//! `cargo bench --bench advise`.

use criterion::{Criterion, criterion_group, criterion_main};
use std::process::{Command, Stdio};

const DEVICES: [&str; 2] = ["--fingerprint=fingerprinting/epyc-1-core/imagenet", "--target=orin"];

/// Networks of few and of many operations, and limits that one change keeps, that only several keep, and that nothing does.
const ASKED: [(&str, &str); 5] = [
    ("resnet18", "400MiB"),
    ("resnet50", "1500MiB"),
    ("resnet50", "300MiB"),
    ("resnet50", "64MiB"),
    ("resnet152", "2GiB"),
];

fn run(arguments: &[&str]) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_perf4sight"));
    let status = program.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status().expect("it starts");
    assert!(status.success(), "{arguments:?}");
}

fn advice(criterion: &mut Criterion) {
    for (network, limit) in ASKED {
        for device in DEVICES {
            let arguments = ["advise", network, device, "--batch=16", "--optimizer=adamw", "--mem-limit", limit];
            criterion.bench_function(&format!("advise {network} {device} {limit}"), |bencher| {
                bencher.iter(|| run(&arguments))
            });
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = advice
}
criterion_main!(benches);
