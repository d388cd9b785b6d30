//! What a trace does not tell is unknown, and never nothing.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

#[allow(dead_code)] // other tests use the rest
mod invented;

use invented::Invented;
use perf4sight_breakdown::{
    Breakdown, BreakdownOptions, ComparedMeasure, Comparison, IdleCause, Metric, RankBreakdown, TimeCategory,
};
use perf4sight_traces::RankTrace;

const STEP: (&str, &str) = ("user_annotation", "ProfilerStep#1");
const PYTHON: (&str, &str) = ("python_function", "train.py(1): step");
const OPERATOR: (&str, &str) = ("cpu_op", "aten::mm");
const LAUNCH: (&str, &str) = ("cuda_runtime", "cudaLaunchKernel");

fn of(ranks: &[RankTrace]) -> RankBreakdown {
    Breakdown::from_traces(ranks, &BreakdownOptions::default()).unwrap().ranks.remove(0)
}

fn rank(trace: &Invented) -> RankBreakdown {
    of(&[trace.read(0)])
}

/// What each category takes of the only step; none where that is unknown.
fn categories(rank: &RankBreakdown) -> Vec<(TimeCategory, i64)> {
    let sets = &rank.iterations[0].sets;
    TimeCategory::ALL.into_iter().filter_map(|category| Some((category, sets.category(category)?))).collect()
}

/// The metrics that are known.
fn metrics(rank: &RankBreakdown) -> Vec<(Metric, f64)> {
    let sets = &rank.iterations[0].sets;
    Metric::ALL.into_iter().filter_map(|metric| Some((metric, (metric.compute(sets)? * 1e12).round() / 1e3))).collect()
}

fn is_value(rank: &RankBreakdown, words: &str) -> bool {
    rank.warnings.iter().any(|warning| warning.contains(words))
}

/// Nothing but a kernel: what threads did meanwhile could be anything.
#[test]
fn of_a_trace_of_kernels_alone_only_the_gpu_is_known() {
    let mut trace = Invented::default();
    trace.main(STEP, [0, 100]).kernel("gemm", [10, 60]);
    let rank = rank(&trace);
    assert_eq!(categories(&rank), [(TimeCategory::Unrecorded, 100)]);
    assert_eq!(metrics(&rank), [(Metric::TotalTimeSec, 100.0), (Metric::GPUTimeSec, 50.0)]);
    for unknown in ["Python and waiting are unknown", "C++ is unknown", "the CUDA API is unknown"] {
        assert!(is_value(&rank, unknown), "{unknown}: {:?}", rank.warnings);
    }
}

/// Calls of the runtime without operators or Python, as nsys records them.
#[test]
fn of_calls_of_the_runtime_alone_nobody_knows_what_lies_between() {
    let mut trace = Invented::default();
    trace.main(STEP, [0, 100]).launch(1, [10, 20], [30, 60]);
    let rank = rank(&trace);
    assert_eq!(categories(&rank), [(TimeCategory::CudaApi, 10), (TimeCategory::Unrecorded, 90)]);
    let known = [
        (Metric::TotalTimeSec, 100.0),
        (Metric::CudaCppTimeSec, 10.0),
        (Metric::GPUTimeSec, 30.0),
        (Metric::GPUAndCudaCppTimeSec, 10.0),
    ];
    assert_eq!(metrics(&rank), known);
    assert!(is_value(&rank, "C++ is unknown") && !is_value(&rank, "CUDA API is unknown"), "{:?}", rank.warnings);
}

/// Python, operators and kernels without the calls that launch them: those are in C++.
#[test]
fn without_calls_of_the_runtime_cpp_and_cuda_are_not_told_apart() {
    let mut trace = Invented::default();
    trace.main(STEP, [0, 100]).main(PYTHON, [0, 100]).main(OPERATOR, [20, 70]).kernel("gemm", [40, 60]);
    let with_python = rank(&trace);
    assert_eq!(
        categories(&with_python),
        [(TimeCategory::Python, 50), (TimeCategory::Wait, 0), (TimeCategory::CppOrCudaApi, 50)]
    );
    let known = metrics(&with_python);
    let value = |metric| known.iter().find(|(known, _)| *known == metric).map(|(_, value)| *value);
    assert_eq!(value(Metric::CppAndGPUTimeSec), Some(50.0));
    assert_eq!(value(Metric::CppTimeSec), Some(30.0));
    assert_eq!(value(Metric::TheoreticalSpeedup), Some(2e9));
    for unknown in [Metric::FrameworkCppTimeSec, Metric::CudaCppTimeSec, Metric::GPUAndCudaCppTimeSec] {
        assert_eq!(value(unknown), None, "{unknown:?}");
    }
    assert!(is_value(&with_python, "the CUDA API is unknown"), "{:?}", with_python.warnings);
    // Without Python, a call of the runtime outside of operators is nowhere, either.
    let mut bare = Invented::default();
    bare.main(STEP, [0, 100]).main(OPERATOR, [20, 70]).kernel("gemm", [40, 60]);
    assert_eq!(categories(&rank(&bare)), [(TimeCategory::CppOrCudaApi, 50), (TimeCategory::Unrecorded, 50)]);
}

/// A machine with a GPU whose profiler was set to record the processor alone, and one that was not allowed to look at its GPU.
#[test]
fn a_gpu_that_was_not_recorded_is_not_idle() {
    let cpu = |trace: &mut Invented| {
        trace.main(STEP, [0, 100]).main(PYTHON, [0, 100]).main(OPERATOR, [20, 70]);
    };
    let mut unasked = Invented::default();
    cpu(unasked.header("\"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA H100\"}]"));
    let mut refused = Invented::default();
    cpu(refused.main(LAUNCH, [30, 40]));
    let of_gpu = [Metric::GPUTimeSec, Metric::CppTimeSec, Metric::FrameworkCppTimeSec, Metric::CudaCppTimeSec];
    for trace in [&unasked, &refused] {
        let rank = rank(trace);
        assert!(metrics(&rank).iter().all(|(metric, _)| !of_gpu.contains(metric)), "{:?}", metrics(&rank));
        assert!(is_value(&rank, "when it is busy is unknown"), "{:?}", rank.warnings);
    }
    assert_eq!(rank(&unasked).iterations[0].sets.category(TimeCategory::CudaApi), None);
    assert_eq!(rank(&refused).iterations[0].sets.category(TimeCategory::CudaApi), Some(10));
    // Where there is none, or it is asked for nothing, it does nothing.
    let mut without = Invented::default();
    cpu(without.main(("cuda_runtime", "cudaDeviceSynchronize"), [90, 92]));
    let without = rank(&without);
    assert_eq!((metrics(&without).len(), without.warnings.as_slice()), (11, &[][..]));
}

/// One rank alone shows whether it waits for others only where it calls for them; next to others, its operators would.
#[test]
fn waiting_for_another_rank_is_unknown_of_one_alone() {
    let causes = |rank: &RankBreakdown| IdleCause::ALL.map(|cause| rank.iterations[0].idle.unwrap().get(cause));
    let mut trace = Invented::default();
    trace.main(STEP, [0, 60]).main(OPERATOR, [0, 10]).launch(1, [10, 12], [14, 20]);
    // Until 10 and from 20 on nothing was asked for; from 10 to 14 the kernel was.
    assert_eq!(causes(&rank(&trace)), [Some(50), Some(4), Some(0), None, Some(0)]);
    assert_eq!(causes(&of(&[trace.read(0), trace.read(1)])), [50, 4, 0, 0, 0].map(Some));
}

/// By hand: two nodes of a backward pass from 10 to 30 with a nanosecond of the engine's own between them, while the first gradients
/// are on their way; from 30 to 80 nothing is left to run, and the others have not come until 75. From 80 to 85 gradients are copied.
#[test]
fn a_backward_pass_that_waits_for_other_ranks_waits() {
    let node = ("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0");
    let mut trace = Invented::default();
    trace
        .main(STEP, [0, 100])
        .main(PYTHON, [0, 100])
        .main(("python_function", "<built-in method run_backward of torch._C._EngineBase object at 0x7f>"), [10, 90])
        .main(node, [10, 19])
        .event([9, 11], ("user_annotation", "gloo:all_reduce"), [15, 50])
        .main(node, [20, 30])
        .event([9, 12], ("user_annotation", "gloo:all_reduce"), [40, 75])
        .main(("cpu_op", "torch.distributed.ddp.reducer::copy_bucket_to_grad"), [80, 85]);
    let rank = rank(&trace);
    let [python, wait] =
        [TimeCategory::Python, TimeCategory::Wait].map(|category| rank.iterations[0].sets.category(category));
    assert_eq!((python, wait), (Some(20), Some(75 - 30)));
}

/// Without Python, built-in functions are not in C++: a single recording or rank without it makes the numbers of all differ in what they mean.
#[test]
fn what_rests_on_python_is_compared_only_where_all_recordings_have_it() {
    let recording = |python: &[bool]| {
        let rank = |(rank, python): (usize, &bool)| {
            let mut trace = Invented::default();
            trace.main(STEP, [0, 100]).main(OPERATOR, [20, 70]);
            if *python {
                trace.main(PYTHON, [0, 100]);
            }
            trace.read(rank as u32)
        };
        let ranks: Vec<RankTrace> = python.iter().enumerate().map(rank).collect();
        Breakdown::from_traces(&ranks, &BreakdownOptions::default()).unwrap()
    };
    let (with, without, mixed) = (recording(&[true]), recording(&[false]), recording(&[true, false]));
    let compared = |before: &[&Breakdown], after: &[&Breakdown]| {
        let comparison = Comparison::compare(before, after);
        assert!(comparison.get(ComparedMeasure::Metric(Metric::TotalTimeSec)).is_some());
        comparison.get(ComparedMeasure::Metric(Metric::CppAndGPUTimeSec)).is_some()
    };
    assert!(compared(&[&with, &with], &[&with]) && compared(&[&without], &[&without]));
    assert!(!compared(&[&with], &[&without]));
    assert!(!compared(&[&with, &without], &[&with, &without]));
    assert!(!compared(&[&mixed], &[&mixed]));
}

/// Steps that go on where the profiler has stopped to record what is in them.
#[test]
fn iterations_without_events_are_value() {
    let mut trace = Invented::default();
    for step in 0..6 {
        trace.main(("user_annotation", &format!("ProfilerStep#{step}")), [100 * step, 100 * step + 99]);
    }
    trace.main(PYTHON, [0, 99]).main(PYTHON, [100, 199]);
    let rank = rank(&trace);
    assert!(is_value(&rank, "4 of 6 iterations hold hardly any events of the main thread"), "{:?}", rank.warnings);
}

/// An iteration that waits for a hundred times as long has the same events, and is no less recorded.
#[test]
fn an_iteration_that_waits_long_is_recorded_as_well() {
    let mut trace = Invented::default();
    for step in 0..6 {
        let end = if step == 5 { 15_000 } else { 100 * step + 99 };
        trace.main(("user_annotation", &format!("ProfilerStep#{step}")), [100 * step, end]);
        trace.main(OPERATOR, [100 * step + 1, 100 * step + 90]);
    }
    let rank = rank(&trace);
    assert!(!is_value(&rank, "hardly any events"), "{:?}", rank.warnings);
}

/// By hand: six rounds of two calls, and ten calls of other names around them: 12 of 22 calls repeat, which is too few to be certain of them.
#[test]
fn rounds_that_are_not_certain_are_not_said_to_be_none() {
    let mut trace = Invented::default();
    for round in 0..6 {
        trace.main(("cpu_op", "aten::randn"), [10 * round, 10 * round + 2]);
        trace.main(("cpu_op", "aten::linear"), [10 * round + 3, 10 * round + 5]);
    }
    for other in 0..10 {
        trace.main(("cpu_op", &format!("aten::other{other}")), [100 + 10 * other, 105 + 10 * other]);
    }
    let rank = rank(&trace);
    let said = "no iterations are marked and no repetition is certain, so that the whole trace counts as one; name a range, a function or an \
                operator (--iteration \"aten::randn\" repeats most regularly)";
    assert!(is_value(&rank, said), "{:?}", rank.warnings);
}

/// Two of eight ranks, as when somebody copies a few files from the nodes; and ranks of different runs.
#[test]
fn ranks_that_are_missing_are_value() {
    let of = |ranks: &[(u32, u32)]| {
        let read = |&(rank, size): &(u32, u32)| {
            let mut trace = Invented::default();
            let info = format!("\"distributedInfo\": {{\"rank\": {rank}, \"world_size\": {size}}}");
            trace.header(&info).main(STEP, [0, 100]).main(OPERATOR, [10, 60]).read(rank)
        };
        Breakdown::from_traces(&ranks.iter().map(read).collect::<Vec<_>>(), &BreakdownOptions::default()).unwrap()
    };
    let cases = [
        (vec![(0, 2), (1, 2)], Some(2), None),
        (vec![(0, 1)], Some(1), None),
        (
            vec![(0, 8), (3, 8)],
            Some(8),
            Some("ranks 0 and 3 of 8 are given: what the other 6 do is not known, nor how long these wait for them"),
        ),
        (
            vec![(1, 2)],
            Some(2),
            Some("rank 1 of 2 is given: what the other one does is not known, nor how long this one waits for it"),
        ),
        (vec![(0, 2), (3, 8)], None, Some("the traces are of runs of 2 and 8 ranks, and so of different runs")),
        (vec![(0, 2), (3, 2)], Some(2), Some("rank 3 cannot be of a run of 2 ranks")),
    ];
    for (ranks, size, expected) in cases {
        let run = of(&ranks);
        assert_eq!(run.world_size(), size);
        assert!(run.absent().as_deref().unwrap_or("").starts_with(expected.unwrap_or("")), "{:?}", run.absent());
        assert_eq!(run.absent().is_some(), expected.is_some());
    }
}
