//! The whole verb `breakdown`, from its start to its end, everything written: the trace of the repository, the traces of 256 ranks, and one of
//! 100 MB, which may take 1 GB resident at most. All but the first are made up here.
//!
//! `cargo bench --bench breakdown`.

use criterion::{Criterion, criterion_group, criterion_main};
use nix::sys::resource::{UsageWho, getrusage};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Bytes of the large trace, and of that of each of many ranks.
const LARGE: usize = 100_000_000;
const SMALL: usize = 250_000;
/// How many ranks those are.
const RANKS: usize = 256;

fn run(trace: &str, out: &Path) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_perf4sight"));
    program.args(["breakdown", trace, "--out"]).arg(out).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(program.status().expect("it starts").success(), "{trace}");
}

/// The most that any program took so far that was started from here.
fn peak() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("getrusage fails for no such question");
    usage.max_rss() as f64 * 1024.0 / 1e6
}

/// Steps of functions of Python, operators, launches and kernels, with what PyTorch 2.11 writes of each.
fn write_trace(file: &Path, size: usize) -> std::io::Result<usize> {
    let mut out = BufWriter::new(File::create(file)?);
    out.write_all(b"{\"schemaVersion\": 1, \"traceEvents\": [\n")?;
    let (mut bytes, mut events, mut step) = (0, 0, 0u64);
    while bytes < size {
        let begin = step * 20_000;
        let mut add = |text: String| {
            bytes += text.len();
            events += 1;
            out.write_all(text.as_bytes())
        };
        add(format!(
            "{{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#{step}\", \"pid\": 1, \"tid\": 1, \"ts\": {begin}.000, \"dur\": 19999.500, \"args\": {{\"External id\": 1}}}},\n"
        ))?;
        for call in 0..200 {
            let at = begin + 100 * call;
            let id = step * 200 + call;
            add(format!(
                "{{\"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"train.py({call}): layer_{call}\", \"pid\": 1, \"tid\": 1, \"ts\": {at}.125, \"dur\": 90.250, \"args\": {{\"Python id\": {id}, \"Python parent id\": 1, \"Ev Idx\": {id}}}}},\n"
            ))?;
            add(format!(
                "{{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::op_{}\", \"pid\": 1, \"tid\": 1, \"ts\": {}.250, \"dur\": 50.500, \"args\": {{\"External id\": {id}, \"Record function id\": 0, \"Ev Idx\": {id}}}}},\n",
                call % 40,
                at + 20
            ))?;
            add(format!(
                "{{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 1, \"tid\": 1, \"ts\": {}.000, \"dur\": 6.000, \"args\": {{\"External id\": {id}, \"cbid\": 211, \"correlation\": {}}}}},\n",
                at + 40,
                id + 1
            ))?;
            add(format!(
                "{{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"kernel_{}\", \"pid\": 0, \"tid\": 7, \"ts\": {}.000, \"dur\": 70.000, \"args\": {{\"External id\": {id}, \"device\": 0, \"stream\": 7, \"correlation\": {}}}}},\n",
                call % 25,
                at + 60,
                id + 1
            ))?;
        }
        step += 1;
    }
    out.write_all(
        b"{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 1, \"tid\": 1, \"args\": {\"name\": \"python3\"}}]}",
    )?;
    out.flush()?;
    Ok(events)
}

fn breaks_down(criterion: &mut Criterion) {
    let folder = TempDir::new().expect("a temporary folder");
    let [out, large, ranks] = ["out", "large.json", "ranks"].map(|name| folder.path().join(name));
    let ours = "examples/training/before";
    run(ours, &out);
    println!("{ours}: {:.1} MB resident at most", peak());
    fs::create_dir(&ranks).expect("a writable folder");
    let of_rank = |rank| write_trace(&ranks.join(format!("rank{rank}.json")), SMALL).expect("a writable folder");
    let events: usize = (0..RANKS).map(of_rank).sum();
    let ranks = ranks.to_str().expect("a path of letters");
    run(ranks, &out);
    println!("{RANKS} ranks, {events} events: {:.1} MB resident at most", peak());
    let events = write_trace(&large, LARGE).expect("a writable folder");
    let large = large.to_str().expect("a path of letters");
    run(large, &out);
    let bytes = fs::metadata(large).expect("it is there").len() as f64 / 1e6;
    println!("{bytes:.0} MB, {events} events: {:.1} MB resident at most", peak());
    criterion.bench_function(ours, |bencher| bencher.iter(|| run(ours, &out)));
    let mut group = criterion.benchmark_group("large");
    group.sample_size(10).measurement_time(Duration::from_secs(20));
    group.bench_function("256 ranks", |bencher| bencher.iter(|| run(ranks, &out)));
    group.bench_function("100 MB", |bencher| bencher.iter(|| run(large, &out)));
    group.finish();
}

criterion_group!(benches, breaks_down);
criterion_main!(benches);
