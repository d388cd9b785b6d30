//! Traces whose times are known because they were made up.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

mod invented;

use invented::Invented;
use perf4sight_breakdown::{
    Breakdown, BreakdownOptions, GpuWork, IdleCause, Iteration, IterationMarkers, Metric, RankBreakdown, ThreadState,
    TimeCategory,
};
use perf4sight_traces::RankTrace;
use proptest::prelude::*;

const SECOND: i64 = 1_000_000_000;

fn broken_down(ranks: &[RankTrace]) -> Breakdown {
    Breakdown::from_traces(ranks, &BreakdownOptions::default()).unwrap()
}

fn rank(trace: &Invented) -> RankBreakdown {
    broken_down(&[trace.read(0)]).ranks.remove(0)
}

fn sets(rank: &RankBreakdown, iteration: usize) -> Vec<(TimeCategory, bool, i64)> {
    rank.iterations[iteration].sets.parts().filter(|(_, _, time)| *time > 0).collect()
}

/// By hand: of two ranks' exchanges the first takes 30 on rank 0 and 10 on rank 1, the second 12 and 17, so that rank 0 waits 20 for rank 1
/// and rank 1 waits 5 for rank 0: 25 of 2 times 100, 80 % of it for rank 1. Their clocks differ by 7.
#[test]
fn it_is_told_for_which_rank_the_others_wait() {
    let rank = |rank: u32, clock: i64, times: [i64; 2]| {
        let mut trace = Invented::default();
        for iteration in 0..3 {
            let at = |moment: i64| 1_000_000 * (clock + 100 * iteration + moment);
            trace
                .main(("user_annotation", &format!("ProfilerStep#{iteration}")), [at(0), at(100)])
                .main(("cpu_op", "aten::linear"), [at(0), at(99)])
                .event([9, 10], ("user_annotation", "gloo:all_reduce"), [at(10), at(10 + times[0])])
                .event([9, 10], ("user_annotation", "gloo:all_reduce"), [at(60), at(60 + times[1])]);
        }
        trace.read(rank)
    };
    let warnings = broken_down(&[rank(0, 0, [30, 12]), rank(1, 7, [10, 17])]).warnings;
    let expected = "where ranks exchange something, a rank waits 12.500 ms of an iteration's 100.000 ms until all are there, on average over all ranks, the last one included: 80 % of \
                    it for rank 1, 20 % for rank 0";
    assert!(warnings.iter().any(|warning| warning == expected), "{warnings:?}");
    // Where all are there at once nobody waits.
    let warnings = broken_down(&[rank(0, 0, [10, 12]), rank(1, 7, [10, 12])]).warnings;
    assert!(!warnings.iter().any(|warning| warning.contains("until all are there")), "{warnings:?}");
}

/// 5 s of Python, 5 s of C++, and 5 s of the GPU in each iteration: one second of those behind Python, two behind C++, one while the CUDA
/// call waits for it, and one after the call when nothing is recorded.
#[test]
fn five_seconds_of_each_come_out_to_the_nanosecond() {
    let mut trace = Invented::default();
    for iteration in 0..3 {
        let at = |seconds: i64| iteration * 12 * SECOND + seconds * SECOND;
        trace
            .main(("user_annotation", &format!("ProfilerStep#{iteration}")), [at(0), at(12)])
            .main(("python_function", "train.py(1): step"), [at(0), at(11)])
            .main(("python_function", "<built-in function linear>"), [at(3), at(9)])
            .main(("cpu_op", "aten::linear"), [at(4), at(9)])
            .main(("cuda_runtime", "cudaStreamSynchronize"), [at(8), at(9)])
            .kernel("gemm", [at(2), at(4)])
            .kernel("gemm", [at(7), at(9)])
            .kernel("gemm", [at(11), at(12)]);
    }
    let rank = rank(&trace);
    assert_eq!(rank.markers, IterationMarkers::ProfilerSteps);
    for iteration in 0..3 {
        let expected = [
            (TimeCategory::Python, false, 4 * SECOND),
            (TimeCategory::Python, true, SECOND),
            (TimeCategory::Cpp, false, 3 * SECOND),
            (TimeCategory::Cpp, true, 2 * SECOND),
            (TimeCategory::CudaApi, true, SECOND),
            (TimeCategory::Wait, true, SECOND),
        ];
        assert_eq!(sets(&rank, iteration), expected);
        assert_eq!(rank.iterations[iteration].sets.synchronising, SECOND);
    }
    // By hand from the sets above.
    let expected = [12.0, 6.0, 3.0, 3.0, 0.0, 5.0, 1.0, 2.0, 500.0 / 12.0, 5.0, 500.0 / 6.0];
    for (metric, expected) in Metric::ALL.into_iter().zip(expected) {
        let summary = rank.summary(|iteration| metric.compute(&iteration.sets)).unwrap();
        assert!((summary.mean - expected).abs() < 1e-12 && summary.count == 3, "{metric:?} {summary:?}");
        assert_eq!(summary.interval, Some([summary.mean; 2]));
    }
}

/// By hand: the main thread is in `run_backward` from 10 to 90 and works itself from 40 to 50. Autograd's thread, in process 9 too, works
/// in Python from 20 to 30 and in C++ from 30 to 45; another one works from 60 to 65 only, and one of another process all the time. What PyTorch
/// writes under thread 0 is of a thread whose waiting is not recorded.
#[test]
fn the_busiest_thread_stands_in_for_one_that_is_blocked() {
    let mut trace = Invented::default();
    trace
        .main(("user_annotation", "ProfilerStep#1"), [0, 100])
        .main(("python_function", "train.py(1): step"), [0, 100])
        .main(("python_function", "<built-in method run_backward of torch._C._EngineBase object at 0x7f>"), [10, 90])
        .main(("cuda_runtime", "cudaLaunchKernel"), [40, 50])
        .event([9, 10], ("python_function", "hook.py(1): hook"), [20, 30])
        .event([9, 10], ("cpu_op", "aten::mm"), [30, 45])
        .event([9, 11], ("cpu_op", "aten::copy_"), [60, 65])
        .event([8, 12], ("python_function", "other.py(1): f"), [0, 100])
        .event([9, 0], ("python_function", "feed.py(3): feeder"), [0, 100]);
    let rank = rank(&trace);
    // 10 to 40 goes to autograd's thread: Python 10, C++ 10 and 10 that nobody works, which stay the engine's; 50 to 90 is C++ all along.
    let expected =
        [(TimeCategory::Python, false, 30), (TimeCategory::Cpp, false, 60), (TimeCategory::CudaApi, false, 10)];
    assert_eq!(sets(&rank, 0), expected);
    let stands_in: Vec<[i64; 2]> =
        rank.timeline.iter().filter(|span| span.state == ThreadState::Python).map(|one| [one.start, one.end]).collect();
    assert_eq!(stands_in, [[0, 10], [20, 30], [90, 100]]);
}

/// Without events of Python the call of the backward pass is not to be seen; what its thread does while the main one shows nothing is.
#[test]
fn without_python_the_thread_of_a_backward_pass_stands_in_where_nothing_is_recorded() {
    let mut trace = Invented::default();
    trace
        .main(("user_annotation", "ProfilerStep#1"), [0, 100])
        .main(("cpu_op", "aten::mm"), [10, 20])
        .event([9, 10], ("cpu_op", "autograd::engine::evaluate_function: MmBackward0"), [15, 50])
        .event([9, 10], ("cuda_runtime", "cudaLaunchKernel"), [30, 40])
        .event([9, 11], ("cpu_op", "aten::copy_"), [60, 65]);
    let expected =
        [(TimeCategory::Cpp, false, 30), (TimeCategory::CudaApi, false, 10), (TimeCategory::PythonOrWait, false, 60)];
    assert_eq!(sets(&rank(&trace), 0), expected);
}

/// By hand: kernels 0-10 and 20-30, a collective 5-25, a copy 24-40, another stream's memset 38-45.
#[test]
fn work_on_streams_that_overlaps_is_exposed_or_hidden() {
    let mut trace = Invented::default();
    trace
        .main(("user_annotation", "ProfilerStep#1"), [0, 50])
        .kernel("gemm", [0, 10])
        .kernel("gemm", [20, 30])
        .event([0, 8], ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"), [5, 25])
        .event([0, 9], ("gpu_memcpy", "Memcpy HtoD"), [24, 40])
        .event([0, 10], ("gpu_memset", "Memset"), [38, 45]);
    let device = &rank(&trace).iterations[0].device;
    assert_eq!([device.busy, device.idle], [45, 5]);
    assert_eq!(GpuWork::ALL.map(|work| device.total(work)), [20, 20, 16, 7]);
    assert_eq!(GpuWork::ALL.map(|work| device.exposed_time(work)), [20, 10, 10, 5]);
    assert_eq!(device.hidden_time(GpuWork::Collective), 10);
    assert_eq!(device.streams.iter().map(|(_, time)| *time).collect::<Vec<_>>(), [20, 20, 16, 7]);
}

/// By hand: nothing is asked for until 10, the kernel begins at 14; from 20 on the process synchronises to 30 although there is nothing
/// to wait for, waits for other ranks from 35 to 45, and asks at 50 for what begins behind the window.
#[test]
fn accelerators_are_idle_for_a_cause() {
    let mut trace = Invented::default();
    let barrier = ("python_function", "<built-in method wait of torch._C._distributed_c10d.Work object at 0x7f>");
    trace
        .main(("user_annotation", "ProfilerStep#1"), [0, 60])
        .main(("python_function", "train.py(1): step"), [0, 70])
        .launch(1, [10, 12], [14, 20])
        .main(("cuda_runtime", "cudaDeviceSynchronize"), [18, 30])
        .main(barrier, [35, 45])
        .launch(2, [50, 52], [65, 80]);
    let iteration = rank(&trace).iterations.remove(0);
    // Host: 0-10, 30-35, 45-50. Launch: 10-14, 50-60.
    assert_eq!(causes(&iteration), [20, 14, 10, 10, 0].map(Some));
    assert_eq!(iteration.device.idle, 54);
    // The same without the call: until 20, nobody knows.
    let mut untold = Invented::default();
    untold.main(("user_annotation", "ProfilerStep#1"), [0, 60]).kernel("gemm", [20, 30]);
    assert_eq!(causes(&rank(&untold).iterations[0]), [Some(30), Some(0), Some(0), None, Some(20)]);
}

fn causes(iteration: &Iteration) -> [Option<i64>; 5] {
    let idle = iteration.idle.unwrap();
    IdleCause::ALL.map(|cause| idle.get(cause))
}

fn operations(trace: &Invented) -> Vec<(String, i64)> {
    let ranks = [trace.read(0)];
    let iteration = broken_down(&ranks).ranks.remove(0).iterations.remove(0);
    let operations = iteration.operations.iter();
    operations.map(|(operation, sets)| (operation.label(&ranks[0].trace.names).to_owned(), sets.total())).collect()
}

fn owned(expected: &[(&str, i64)]) -> Vec<(String, i64)> {
    expected.iter().map(|(label, time)| ((*label).to_owned(), *time)).collect()
}

/// By hand: the innermost range counts; of modules the outermost is the forward pass, and one in the backward pass belongs to that.
#[test]
fn time_goes_to_the_innermost_operation() {
    let mut trace = Invented::default();
    let backward = ("python_function", "<built-in method run_backward of torch._C._EngineBase object at 0x7f>");
    trace
        .main(("user_annotation", "ProfilerStep#1"), [0, 100])
        .main(("python_function", "train.py(1): step"), [0, 100])
        .main(("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"), [2, 10])
        .main(("user_annotation", "Optimizer.zero_grad#SGD.zero_grad"), [10, 11])
        .main(("python_function", "nn.Module: Net_0"), [20, 40])
        .main(("python_function", "nn.Module: Linear_0"), [22, 38])
        .main(("user_annotation", "attention"), [25, 31])
        .main(("python_function", "torch/_tensor.py(553): backward"), [50, 80])
        .main(backward, [55, 78])
        .main(("python_function", "nn.Module: Linear_0"), [60, 65])
        .main(("user_annotation", "Optimizer.step#SGD.step"), [80, 90]);
    let expected = [
        ("forward", 14),
        ("backward", 30),
        ("optimizer", 10),
        ("data loading", 8),
        ("zero_grad", 1),
        ("attention", 6),
        ("other", 31),
    ];
    assert_eq!(operations(&trace), owned(&expected));
}

/// By hand: the forward pass goes from the first operator with a backward to the last, the backward pass from the first node to the copy
/// of the gradients, though nobody does anything between 60 and 70.
#[test]
fn without_python_passes_are_told_by_their_operators() {
    let mut trace = Invented::default();
    trace
        .main(("user_annotation", "ProfilerStep#1"), [0, 100])
        .main(("cpu_op", "aten::mm"), [10, 15])
        .arrow(11)
        .main(("cpu_op", "aten::empty"), [17, 18])
        .main(("cpu_op", "aten::sum"), [20, 25])
        .arrow(20)
        .main(("cpu_op", "autograd::engine::evaluate_function: SumBackward0"), [40, 50])
        .main(("cpu_op", "autograd::engine::evaluate_function: MmBackward0"), [52, 60])
        .main(("cpu_op", "torch::distributed::reducer::copy_bucket_to_grad"), [70, 71])
        .main(("user_annotation", "Optimizer.step#SGD.step"), [80, 90]);
    let expected = [("forward", 15), ("backward", 31), ("optimizer", 10), ("other", 44)];
    assert_eq!(operations(&trace), owned(&expected));
}

/// Six iterations of four layers each, the last of which is followed by an update: layers repeat more often than iterations, but what is
/// between two of them is not always the same.
#[test]
fn iterations_are_what_repeats_and_not_the_layers_in_them() {
    let mut trace = Invented::default();
    for iteration in 0..6 {
        let at = iteration * 100;
        trace.main(("cpu_op", "aten::embedding"), [at, at + 5]);
        for layer in 0..4 {
            let at = at + 10 + layer * 15;
            trace.main(("cpu_op", "aten::linear"), [at, at + 10]).main(("cpu_op", "aten::relu"), [at + 10, at + 12]);
        }
        trace.main(("cpu_op", "aten::mse_loss"), [at + 75, at + 80]).main(("cpu_op", "aten::add_"), [at + 85, at + 90]);
    }
    let found = rank(&trace);
    let IterationMarkers::Period { event, certainty } = &found.markers else { panic!("{:?}", found.markers) };
    // Five that are all alike: 6 / 7.
    assert!(event == "aten::embedding" && (certainty - 6.0 / 7.0).abs() < 1e-9, "{event} {certainty}");
    assert_eq!(found.iterations.iter().map(|one| one.window.0).collect::<Vec<_>>(), [0, 100, 200, 300, 400]);
    assert!(found.warnings.iter().any(|warning| warning.contains("with a certainty of 85 %")), "{:?}", found.warnings);
}

/// Three occurrences, two spans between them: that these are alike says next to nothing.
#[test]
fn what_comes_a_few_times_is_no_iteration() {
    let mut trace = Invented::default();
    for at in (0..300).step_by(100) {
        trace.main(("cpu_op", "aten::embedding"), [at, at + 5]).main(("cpu_op", "aten::linear"), [at + 10, at + 20]);
    }
    assert_eq!(rank(&trace).markers, IterationMarkers::WholeTrace);
    let mut many = Invented::default();
    for at in (0..100_000).step_by(100) {
        many.main(("cpu_op", "aten::embedding"), [at, at + 5]).main(("cpu_op", "aten::linear"), [at + 10, at + 20]);
    }
    let found = rank(&many);
    assert!(found.warnings.iter().any(|warning| warning.contains("with a certainty of 99 %")), "{:?}", found.warnings);
}

/// A step of ten thousand in which one operator of fifty is recorded; ten steps, of which two have an evaluation of nine more in them.
#[test]
fn traces_that_tell_little_and_iterations_that_hold_something_else_are_told() {
    let mut bare = Invented::default();
    bare.main(("user_annotation", "ProfilerStep#1"), [0, 10_000]).main(("cpu_op", "aten::mm"), [0, 50]);
    let warnings = rank(&bare).warnings;
    assert!(warnings.iter().any(|warning| warning.contains("cover 0.50 % of the iterations")), "{warnings:?}");
    let mut uneven = Invented::default();
    let mut at = 0;
    for step in 0..10 {
        let length = if step % 5 == 4 { 1000 } else { 100 };
        uneven.main(("user_annotation", &format!("ProfilerStep#{step}")), [at, at + length]);
        uneven.main(("cpu_op", "aten::mm"), [at, at + 50]);
        at += length;
    }
    let warnings = rank(&uneven).warnings;
    assert!(warnings.iter().any(|warning| warning.contains("2 of 10 take 10.0 times it")), "{warnings:?}");
}

#[test]
fn a_run_says_which_iterations_are_not_on_every_rank() {
    let steps = |count: i64| {
        let mut trace = Invented::default();
        for step in 0..count {
            let at = 100 * step;
            trace.main(("user_annotation", &format!("ProfilerStep#{step}")), [at, at + 100]);
            trace.main(("cpu_op", "aten::mm"), [at, at + 50]);
        }
        trace
    };
    let run = broken_down(&[steps(10).read(0), steps(3).read(1)]);
    assert!(
        run.warnings
            .iter()
            .any(|warning| warning.starts_with("the run's figures are of 3 of the 10 iterations of rank 0")),
        "{:?}",
        run.warnings
    );
    assert!(broken_down(&[steps(10).read(0), steps(10).read(1)]).warnings.is_empty());
    // One rank, whose only event is where nanoseconds end, begins after none.
    let mut last = Invented::default();
    last.header("\"baseTimeNanoseconds\": 9223372036854775807").main(("cpu_op", "aten::mm"), [5, 10]);
    assert!(broken_down(&[last.read(0)]).warnings.is_empty());
}

/// Names and iterations without end: those that take longest are listed, and the others are summed and reported.
#[test]
fn small_ranges_are_summed_and_late_iterations_left_out() {
    let mut trace = Invented::default();
    trace.main(("user_annotation", "ProfilerStep#1"), [0, 100_000]).main(("cpu_op", "aten::mm"), [0, 5]);
    for at in 0..300 {
        let length = if at == 250 { 90 } else { 10 };
        trace.main(("user_annotation", &format!("range{at}")), [100 * at, 100 * at + length]);
    }
    let found = rank(&trace);
    let iteration = &found.iterations[0];
    assert_eq!(iteration.operations.len(), 101);
    assert_eq!(iteration.operations.values().map(|sets| sets.total()).max(), Some(100_000 - 99 * 10 - 90));
    assert!(iteration.operations.values().any(|sets| sets.total() == 90));
    assert!(found.warnings.iter().any(|warning| warning.contains("200 names of ranges")), "{:?}", found.warnings);
    let mut steps = Invented::default();
    for at in 0..5010 {
        steps.main(("user_annotation", &format!("ProfilerStep#{at}")), [10 * at, 10 * at + 10]);
    }
    // One within another is left out wherever it is.
    steps.main(("user_annotation", "ProfilerStep#5008"), [10 * 5007 + 2, 10 * 5007 + 4]);
    let found = rank(&steps);
    assert_eq!(found.iterations.len(), 5000);
    assert!(
        found.warnings.iter().any(|warning| warning.starts_with("left out: 10 iterations behind")),
        "{:?}",
        found.warnings
    );
    assert!(
        found.warnings.iter().any(|warning| warning.starts_with("1 iteration is inside another")),
        "{:?}",
        found.warnings
    );
}

/// What other tools stumble over: an event of 10^18 ns, years between events, times before zero, one that ends before it
/// begins, ranges that overlap, ranks that were not recorded together.
#[test]
fn times_that_no_recording_has_are_left_out_and_told() {
    let mut trace = Invented::default();
    trace
        .main(("python_function", "train.py(1): step"), [-5 * SECOND, 1_000_000_000 * SECOND])
        .main(("cpu_op", "aten::mm"), [-SECOND, SECOND])
        .main(("cpu_op", "aten::add"), [5, 3])
        .main(("cpu_op", "aten::mul"), [2 * SECOND, 3 * SECOND])
        .main(("cpu_op", "aten::sub"), [i64::MAX / 2, i64::MAX / 2 + 10])
        .kernel("gemm", [0, 900_000_000 * SECOND]);
    let rank = rank(&trace);
    assert_eq!(rank.markers, IterationMarkers::WholeTrace);
    assert_eq!(rank.iterations[0].sets.total(), 4 * SECOND);
    assert_eq!(rank.iterations[0].sets.category(TimeCategory::Cpp), Some(3 * SECOND));
    for expected in [
        "1 event was left out: with a negative duration",
        "2 events were left out: longer than a day, as no recording is",
        "1 event was left out: more than a day from most others",
    ] {
        assert!(rank.warnings.iter().any(|warning| warning.contains(expected)), "{expected}: {:?}", rank.warnings);
    }

    let mut steps = Invented::default();
    steps
        .main(("user_annotation", "ProfilerStep#1"), [0, 15])
        .main(("user_annotation", "ProfilerStep#2"), [10, 20])
        .main(("user_annotation", "ProfilerStep#3"), [11, 15]);
    let rank = broken_down(&[steps.read(0)]).ranks.remove(0);
    assert_eq!(rank.iterations.iter().map(|one| one.window).collect::<Vec<_>>(), [(0, 10), (10, 20)]);
    for expected in ["1 iteration begins before", "1 iteration is inside another one"] {
        assert!(rank.warnings.iter().any(|warning| warning.starts_with(expected)), "{expected}: {:?}", rank.warnings);
    }

    let mut later = Invented::default();
    later.header("\"baseTimeNanoseconds\": 1000").main(("cpu_op", "aten::mm"), [0, 10]);
    let mut first = Invented::default();
    first.main(("cpu_op", "aten::mm"), [0, 10]);
    let apart = broken_down(&[first.read(0), later.read(1)]);
    assert!(apart.warnings[0].contains("rank 1 begins after rank 0 has ended"), "{:?}", apart.warnings);
    assert!(broken_down(&[first.read(0), first.read(1)]).warnings.is_empty());
    assert_eq!(rank_of_nothing().warnings.len(), 1);
}

fn rank_of_nothing() -> RankBreakdown {
    let nothing = rank(&Invented::default());
    assert_eq!((nothing.iterations.len(), nothing.main), (0, None));
    assert_eq!(nothing.summary(|iteration| Some(iteration.device.busy as f64)), None);
    nothing
}

#[test]
fn iterations_go_by_a_name_and_a_name_that_is_none_is_refused() {
    let mut trace = Invented::default();
    trace
        .main(("user_annotation", "ProfilerStep#1"), [0, 100])
        .main(("user_annotation", "train_iter"), [5, 25])
        .main(("user_annotation", "train_iter"), [30, 50])
        .main(("user_annotation", "ProfilerStep#2"), [100, 200])
        .main(("python_function", "train.py(1): step"), [6, 24])
        .kernel("gemm", [8, 12]);
    let by = |name: &str| {
        let options = BreakdownOptions { iteration: Some(name.to_owned()) };
        Breakdown::from_traces(&[trace.read(0)], &options).map(|mut found| found.ranks.remove(0).iterations)
    };
    let windows = |name| by(name).unwrap().iter().map(|one| one.window).collect::<Vec<_>>();
    assert_eq!(windows("train_iter"), [(5, 25), (30, 50)]);
    assert_eq!(windows("train.py(1): step"), [(6, 24)]);
    // Names that differ by a number alone are one.
    assert_eq!(windows("ProfilerStep"), [(0, 100), (100, 200)]);
    assert_eq!(windows("ProfilerStep#2"), [(100, 200)]);
    let refused = |name| by(name).unwrap_err().to_string();
    assert!(refused("train_itr").contains("did you mean \"train_iter\"?"), "{}", refused("train_itr"));
    assert!(!refused("nosuch").contains("ProfilerStep#"), "{}", refused("nosuch"));
    assert!(refused("gemm").contains("has \"gemm\" only as events that mark no iterations"), "{}", refused("gemm"));
}

/// What thread and GPU do at one moment, by the definition: the innermost event is the last begun of those that last, in the order of
/// beginnings; one ends with those it began in.
fn at_moment(events: &[(i64, i64, TimeCategory)], gpu: &[(i64, i64)], moment: i64) -> (TimeCategory, bool) {
    let mut open: Vec<(i64, TimeCategory)> = Vec::new();
    for &(start, end, category) in events.iter().filter(|(start, ..)| *start <= moment) {
        open.retain(|(end, _)| *end > start);
        let end = open.iter().map(|(end, _)| *end).fold(end, i64::min);
        open.push((end, category));
    }
    open.retain(|(end, _)| *end > moment);
    let category = open.last().map_or(TimeCategory::Wait, |(_, category)| *category);
    (category, gpu.iter().any(|(start, end)| (*start..*end).contains(&moment)))
}

proptest! {
    /// A second implementation that asks for each nanosecond. Times within the window are even: overlaps of one nanosecond are taken for rounding.
    #[test]
    fn sets_are_those_of_every_single_moment(
        host in prop::collection::vec((0i64..60, 1i64..40, 0usize..3), 1..12),
        gpu in prop::collection::vec((0i64..70, 1i64..30), 0..8),
        window in (0i64..40, 1i64..60),
    ) {
        let kinds = [("python_function", "f.py(1): f", TimeCategory::Python), ("cpu_op", "aten::mm", TimeCategory::Cpp), ("cuda_runtime", "cudaMalloc", TimeCategory::CudaApi)];
        let (begin, end) = (2 * window.0, 2 * (window.0 + window.1));
        let mut trace = Invented::default();
        // Events of each kind there are always, outside the window.
        trace.main(("user_annotation", "ProfilerStep#1"), [begin, end]);
        for (at, (category, name, _)) in (1000..).zip(kinds) {
            trace.main((category, name), [at, at + 1]);
        }
        let mut events: Vec<(i64, i64, TimeCategory)> = Vec::new();
        for (start, duration, kind) in host {
            let (cat, name, category) = kinds[kind];
            let (start, end) = (2 * start, 2 * (start + duration));
            trace.main((cat, name), [start, end]);
            events.push((start, end, category));
        }
        events.sort_by_key(|(start, end, _)| (*start, -end));
        let gpu: Vec<(i64, i64)> = gpu.into_iter().map(|(start, duration)| (start, start + duration)).collect();
        for (start, end) in &gpu {
            trace.kernel("gemm", [*start, *end]);
        }
        let rank = rank(&trace);
        let found = &rank.iterations[0].sets;
        for category in [TimeCategory::Python, TimeCategory::Cpp, TimeCategory::CudaApi, TimeCategory::Wait] {
            for busy in [false, true] {
                let moments = (begin..end).filter(|moment| at_moment(&events, &gpu, *moment) == (category, busy)).count();
                prop_assert_eq!(found.get(category, busy), Some(moments as i64), "{:?} {}", category, busy);
            }
        }
    }
}

/// A critic that steps five times, each time for 10 us, before its generator does, four times over: between the ends of the generator's steps
/// lie 60 us each. With only two of these, or at other times, the critic marks iterations.
#[test]
fn of_several_optimizers_the_one_that_steps_least_often_marks_iterations() {
    let marked = |steps: &str| {
        let mut trace = Invented::default();
        for (at, step) in (0..).zip(steps.chars()) {
            let name = if step == 'G' { "Optimizer.step#Adam.step" } else { "Optimizer.step#SGD.step" };
            trace.main(("user_annotation", name), [10_000 * at, 10_000 * at + 9_000]);
        }
        let rank = Breakdown::from_traces(&[trace.read(0)], &BreakdownOptions::default()).unwrap().ranks.remove(0);
        let lengths: Vec<i64> = rank.iterations.iter().map(|one| (one.window.1 - one.window.0) / 10_000).collect();
        (rank.markers, lengths)
    };
    let by = |name: &str| IterationMarkers::OptimizerSteps(format!("Optimizer.step#{name}.step"));
    assert_eq!(marked("CCCCCGCCCCCGCCCCCGCCCCCG"), (by("Adam"), vec![6; 3]));
    assert_eq!(marked("CGCGCG"), (by("SGD"), vec![2; 2]));
    assert_eq!(marked("CCCGCCCG").0, by("SGD"));
    assert_eq!(marked("CCCGCCGCCCCG").0, by("SGD"));
}
