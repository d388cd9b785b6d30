//! Reading a trace, which should take a second for 1.5 million events, gunzipped too: `cargo bench -p perf4sight-traces`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flate2::{Compression, write::GzEncoder};
use std::hint::black_box;
use std::io::Write;
use std::path::PathBuf;

#[path = "../examples/generated/mod.rs"]
mod generated;

/// Bytes of the JSON.
const SIZE: u64 = 50_000_000;

fn read(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder for the traces");
    let mut text = Vec::new();
    let events = generated::write(&mut text, SIZE).expect("memory takes it");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&text).expect("memory takes it");
    let files = [("trace.json", text), ("trace.json.gz", gzip.finish().expect("memory takes it"))];
    let mut group = criterion.benchmark_group("read");
    group.sample_size(10).throughput(Throughput::Elements(events));
    for (name, content) in files {
        let file: PathBuf = folder.path().join(name);
        std::fs::write(&file, content).expect("there is room for it");
        group.bench_function(format!("{events} events of {name}"), |bench| {
            bench.iter(|| perf4sight_traces::read(black_box(&file)).expect("it is a trace"))
        });
    }
    group.finish();
}

criterion_group!(benches, read);
criterion_main!(benches);
