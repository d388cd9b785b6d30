//! Dividing a trace of a million events, which should take about a second: `cargo bench -p perf4sight-breakdown`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use perf4sight_breakdown::{Breakdown, BreakdownOptions, CallStacks, lanes, work_costs};
use perf4sight_traces::{EventCategory, RankTrace};
use std::hint::black_box;

#[allow(dead_code)] // tests use all of it
#[path = "../tests/invented/mod.rs"]
mod invented;

/// Iterations of 10,000 events each.
const ITERATIONS: i64 = 100;
/// Groups of 10 events in each iteration.
const GROUPS: i64 = 1000;

/// Steps of functions of Python that call operators that launch kernels; half of it is a backward pass on another thread.
fn million() -> RankTrace {
    let mut trace = invented::Invented::default();
    let (main, autograd) = (invented::Invented::MAIN, [9, 10]);
    for iteration in 0..ITERATIONS {
        let (begin, end) = (iteration * GROUPS * 100, (iteration + 1) * GROUPS * 100);
        let middle = begin + (end - begin) / 2;
        trace.main(("user_annotation", &format!("ProfilerStep#{iteration}")), [begin, end]);
        let backward = ("python_function", "<built-in method run_backward of torch._C._EngineBase object at 0x7f>");
        trace.main(backward, [middle, end]);
        for group in 0..GROUPS {
            let at = begin + group * 100;
            let track = if at < middle { main } else { autograd };
            trace
                .event(track, ("python_function", "train.py(1): step"), [at, at + 99])
                .event(track, ("python_function", "torch/nn/modules/linear.py(2): forward"), [at + 5, at + 90])
                .event(track, ("python_function", "<built-in function linear>"), [at + 10, at + 80])
                .event(track, ("cpu_op", "aten::linear"), [at + 15, at + 75])
                .event(track, ("cpu_op", "aten::addmm"), [at + 20, at + 70])
                .event(track, ("cuda_runtime", "cudaLaunchKernel"), [at + 30, at + 35])
                .event(track, ("cuda_runtime", "cudaMemsetAsync"), [at + 40, at + 45])
                .event([0, 7], ("kernel", "gemm"), [at + 50, at + 130])
                .event([0, 20], ("kernel", "ncclDevKernel_AllReduce"), [at + 60, at + 90])
                .event([0, 7], ("gpu_memset", "Memset"), [at + 130, at + 140]);
        }
    }
    trace.read(0)
}

fn split(criterion: &mut Criterion) {
    let ranks = [million()];
    let events = ranks[0].trace.events.len();
    let mut group = criterion.benchmark_group("split");
    group.sample_size(10).throughput(Throughput::Elements(events as u64));
    group.bench_function(format!("{events} events into {ITERATIONS} iterations"), |bench| {
        bench.iter(|| Breakdown::from_traces(black_box(&ranks), &BreakdownOptions::default()).expect("it has steps"))
    });
    let rank = &Breakdown::from_traces(&ranks, &BreakdownOptions::default()).expect("it has steps").ranks[0];
    group.bench_function("stacks, the longest, and the lanes of an iteration", |bench| {
        bench.iter(|| {
            let trace = &black_box(&ranks)[0].trace;
            let stacks = CallStacks::from_trace(trace, rank);
            let costs = [EventCategory::Python, EventCategory::Operator, EventCategory::Runtime]
                .map(|kind| stacks.costs(kind).len());
            (costs, work_costs(trace, rank).len(), lanes(trace, rank, &rank.iterations[0]).len())
        })
    });
    let mut unmarked = ranks.clone();
    unmarked[0].trace.events.retain(|event| event.category != EventCategory::Annotation);
    group.bench_function("the same without marks, by what repeats", |bench| {
        bench.iter(|| {
            Breakdown::from_traces(black_box(&unmarked), &BreakdownOptions::default()).expect("no name is asked for")
        })
    });
    group.finish();
}

criterion_group!(benches, split);
criterion_main!(benches);
