//! The whole program, from its start to its end: at most 15 ms and 30 MB resident for `--help` and for a prediction.
//!
//! `cargo bench --bench start`.

use criterion::{Criterion, criterion_group, criterion_main};
use nix::sys::resource::{UsageWho, getrusage};
use std::process::{Command, Stdio};

const PREDICT: &[&str] =
    &["predict", "resnet50", "--fingerprint", "fingerprinting/epyc-1-core/imagenet", "--bs", "1,8,32"];

fn run(arguments: &[&str]) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_perf4sight"));
    let status = program.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status().expect("it starts");
    assert!(status.success(), "{arguments:?}");
}

/// The most that any program took so far that was started from here. A started program begins with what this one has, which is little
/// before anything is timed.
fn peak() -> String {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("getrusage fails for no such question");
    format!("{:.1} MB", usage.max_rss() as f64 * 1024.0 / 1e6)
}

fn starts(criterion: &mut Criterion) {
    run(&["--help"]);
    println!("--help: {} resident at most", peak());
    run(PREDICT);
    println!("predict: {} resident at most", peak());
    criterion.bench_function("--help", |bencher| bencher.iter(|| run(&["--help"])));
    criterion.bench_function("predict resnet50", |bencher| bencher.iter(|| run(PREDICT)));
}

criterion_group!(benches, starts);
criterion_main!(benches);
