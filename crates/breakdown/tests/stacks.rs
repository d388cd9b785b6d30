//! Stacks of calls, what takes longest, and the rows of an iteration, of traces whose times are known because they were made up.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

#[allow(dead_code)] // other tests use the rest
mod invented;

use invented::Invented;
use perf4sight_breakdown::{
    Breakdown, BreakdownOptions, CallCost, CallStacks, GpuWork, LaneContent, LaneKind, RankBreakdown, TimeCategory,
    TrainingOperation, WorkCost, lanes, work_costs,
};
use perf4sight_traces::{EventCategory, RankTrace};

fn broken_down(trace: &Invented) -> (RankTrace, RankBreakdown) {
    let ranked = trace.read(0);
    let rank =
        Breakdown::from_traces(std::slice::from_ref(&ranked), &BreakdownOptions::default()).unwrap().ranks.remove(0);
    (ranked, rank)
}

fn folded(stacks: &CallStacks) -> Vec<String> {
    let mut out = Vec::new();
    stacks.write_folded(&mut out).unwrap();
    String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
}

/// Two steps of 100 ns. In the first, `step` calls itself and a built-in that runs an operator that calls the runtime; then it waits in
/// `run_backward` while autograd's thread runs an operator. The second has nothing but `step`.
fn steps() -> Invented {
    let (mut trace, autograd) = (Invented::default(), [9, 10]);
    trace
        .main(("user_annotation", "ProfilerStep#0"), [0, 100])
        .main(("python_function", "train.py(1): step"), [0, 90])
        .main(("python_function", "train.py(1): step"), [5, 50])
        .main(("python_function", "<built-in method linear of object at 0x7f01ab>"), [10, 40])
        .main(("cpu_op", "aten::linear"), [12, 38])
        .main(("cuda_runtime", "cudaLaunchKernel"), [20, 25])
        .main(("python_function", "<built-in method run_backward of torch._C._EngineBase object at 0x7f>"), [50, 80])
        .event(autograd, ("cpu_op", "aten::mm"), [55, 70])
        .event([0, 7], ("kernel", "gemm"), [22, 34])
        .event([0, 8], ("kernel", "gemm"), [30, 36])
        .event([0, 7], ("gpu_memset", "Memset"), [95, 105])
        .main(("user_annotation", "ProfilerStep#1"), [100, 200])
        .main(("python_function", "train.py(1): step"), [100, 150]);
    trace
}

/// By hand: an optimizer of 100 ns calls a closure of 80, whose backward pass, 30 to 80, is its last. What is before that is not the optimizer's. Where
/// there is no backward pass, all of it is.
#[test]
fn a_closure_is_not_the_optimizers_time() {
    let mut trace = Invented::default();
    trace
        .main(("user_annotation", "ProfilerStep#0"), [0, 200])
        .main(("user_annotation", "Optimizer.step#Adam.step"), [0, 100])
        .main(("python_function", "train.py(7): closure"), [2, 80])
        .main(("python_function", "nn.Module: Linear_0"), [20, 30])
        .main(("python_function", "<built-in method run_backward of torch._C._EngineBase object at 0x7f>"), [30, 80])
        .main(("user_annotation", "Optimizer.step#Adam.step"), [150, 160]);
    let (_, rank) = broken_down(&trace);
    let times = |operation| rank.iterations[0].operations.get(&operation).map(|sets| sets.total());
    let expected = [
        (TrainingOperation::Optimizer, 20 + 10),
        (TrainingOperation::Forward, 10),
        (TrainingOperation::Backward, 50),
        (TrainingOperation::Other, 20 + 50 + 40),
    ];
    for (operation, time) in expected {
        assert_eq!(times(operation), Some(time), "{operation:?}");
    }
}

/// By hand from [`steps`]. What is recorded in neither step, 90 to 100 and 150 to 200, is in no stack.
#[test]
fn stacks_hold_the_time_that_each_call_had_the_word() {
    let (ranked, rank) = broken_down(&steps());
    let stacks = CallStacks::from_trace(&ranked.trace, &rank);
    let step = "train.py(1): step";
    let backward = "<built-in method run_backward of torch._C._EngineBase object>";
    let mut expected = vec![
        format!("{step} {}", 10 + 50 + 5),
        format!("{step};{step} {}", 5 + 10),
        format!("{step};{step};<built-in method linear of object> 4"),
        format!("{step};{step};<built-in method linear of object>;aten::linear 21"),
        format!("{step};{step};<built-in method linear of object>;aten::linear;cudaLaunchKernel 5"),
        format!("{step};{backward} 15"),
        format!("{step};{backward};aten::mm 15"),
    ];
    expected.sort();
    let mut found = folded(&stacks);
    found.sort();
    assert_eq!(found, expected);
    assert_eq!((stacks.window, stacks.iterations, stacks.merged), (200, 2, 0));
    // Whatever has no stack is not recorded: 10 and 50.
    assert_eq!(stacks.frames().iter().map(|frame| frame.own).sum::<i64>(), 200 - 60);
}

/// PyTorch names functions that run already by the line where they are: two recordings of one script, whose thread is in line 7 and in line 9
/// of `load` when they begin. What `load` calls has the line of its definition.
#[test]
fn functions_that_ran_before_the_recording_are_of_no_line() {
    let mut trace = Invented::default();
    for (at, line) in [(0, 7), (1_000_000, 9)] {
        trace
            .main(("user_annotation", "ProfilerStep#0"), [at, at + 500_000])
            .main(("python_function", &format!("train.py({line}): <module>")), [at, at + 500_000])
            .main(("python_function", &format!("train.py({line}): load")), [at + 1_000, at + 400_000])
            .main(("python_function", "train.py(3): parse"), [at + 100_000, at + 300_000]);
    }
    let (ranked, rank) = broken_down(&trace);
    let mut found = folded(&CallStacks::from_trace(&ranked.trace, &rank));
    found.sort();
    let (module, load) = ("train.py: <module>", "train.py: load");
    let expected = [
        format!("{module} {}", 2 * (1_000 + 100_000)),
        format!("{module};{load} {}", 2 * (99_000 + 100_000)),
        format!("{module};{load};train.py(3): parse {}", 2 * 200_000),
    ];
    assert_eq!(found, expected);
}

/// A script calls `train`, defined in line 3, once before the recording, where it is in line 7, and once in it; and `train` of a class, defined in line 20: all
/// of the time in the first function is in one row.
#[test]
fn a_function_that_ran_before_the_recording_counts_with_its_later_calls() {
    let mut trace = Invented::default();
    trace
        .main(("user_annotation", "ProfilerStep#0"), [0, 500_000])
        .main(("python_function", "train.py(31): <module>"), [0, 500_000])
        .main(("python_function", "train.py(7): train"), [1_000, 201_000])
        .main(("python_function", "train.py(3): train"), [250_000, 350_000])
        .main(("python_function", "train.py(20): train"), [400_000, 450_000]);
    let (ranked, rank) = broken_down(&trace);
    let stacks = CallStacks::from_trace(&ranked.trace, &rank);
    let cost = |name: &str, own, total, calls| CallCost { name: name.into(), own, total, calls };
    let expected = [
        cost("train.py(3): train", 300_000, 300_000, 2),
        cost("train.py: <module>", 150_000, 500_000, 1),
        cost("train.py(20): train", 50_000, 50_000, 1),
    ];
    assert_eq!(stacks.costs(EventCategory::Python), expected);
}

/// By hand from [`steps`]: `step` is called three times, of which one in another; its outermost calls take 90 and 50.
#[test]
fn the_longest_are_told_by_name() {
    let (ranked, rank) = broken_down(&steps());
    let stacks = CallStacks::from_trace(&ranked.trace, &rank);
    let cost = |name: &str, [own, total]: [i64; 2], calls| CallCost { name: name.into(), own, total, calls };
    let functions = [
        cost("train.py(1): step", [80, 140], 3),
        cost("<built-in method run_backward of torch._C._EngineBase object>", [15, 30], 1),
        cost("<built-in method linear of object>", [4, 30], 1),
    ];
    assert_eq!(stacks.costs(EventCategory::Python), functions);
    assert_eq!(
        stacks.costs(EventCategory::Operator),
        [cost("aten::linear", [21, 26], 1), cost("aten::mm", [15, 15], 1)]
    );
    assert_eq!(stacks.costs(EventCategory::Runtime), [cost("cudaLaunchKernel", [5, 5], 1)]);
    // Kernels on two streams add up; the memset is in both steps.
    let work = |name: &str, work, total, calls| WorkCost { name: name.into(), work, total, calls };
    let expected = [work("gemm", GpuWork::Kernel, 18, 2), work("Memset", GpuWork::Set, 10, 1)];
    assert_eq!(work_costs(&ranked.trace, &rank), expected);
}

#[test]
fn rows_show_who_has_the_word_and_what_threads_and_streams_do() {
    let (ranked, rank) = broken_down(&steps());
    let rows = lanes(&ranked.trace, &rank, &rank.iterations[0]);
    let times = |row: usize| rows[row].spans.iter().map(|span| (span.time, span.what)).collect::<Vec<_>>();
    let category = LaneContent::TimeCategory;
    assert_eq!(
        times(0),
        [
            ((0, 10), category(TimeCategory::Python)),
            ((10, 20), category(TimeCategory::Cpp)),
            ((20, 25), category(TimeCategory::CudaApi)),
            ((25, 40), category(TimeCategory::Cpp)),
            ((40, 50), category(TimeCategory::Python)),
            ((50, 80), category(TimeCategory::Cpp)),
            ((80, 90), category(TimeCategory::Python)),
            ((90, 100), category(TimeCategory::Wait)),
        ]
    );
    assert_eq!(times(1), [((22, 36), LaneContent::Busy), ((95, 100), LaneContent::Busy)]);
    assert_eq!(times(2), [((50, 80), LaneContent::Operation(TrainingOperation::Backward))]);
    let of: Vec<&LaneKind> = rows.iter().map(|row| &row.of).collect();
    assert!(
        matches!(of[3..], [LaneKind::Thread(_), LaneKind::Thread(_), LaneKind::Stream(_), LaneKind::Stream(_)]),
        "{of:?}"
    );
    // Autograd's thread, then the stream that works longer.
    assert_eq!(times(4), [((55, 70), category(TimeCategory::Cpp))]);
    assert_eq!(
        times(5),
        [((22, 34), LaneContent::Work(GpuWork::Kernel)), ((95, 100), LaneContent::Work(GpuWork::Set))]
    );
}

/// Names of a megabyte, names that would be lines or frames of their own, and a recursion that goes on for ever.
#[test]
fn hostile_names_and_depths_stay_bounded() {
    let mut trace = Invented::default();
    trace.main(("user_annotation", "ProfilerStep#0"), [0, 100_000]);
    trace.main(("python_function", &"x".repeat(1 << 20)), [0, 100_000]);
    trace.main(("cpu_op", "a;b\nc 7"), [0, 99_999]);
    (0..20_000).for_each(|deep| {
        trace.main(("python_function", "deeper"), [deep + 1, 99_990 - deep]);
    });
    let (ranked, rank) = broken_down(&trace);
    let stacks = CallStacks::from_trace(&ranked.trace, &rank);
    let lines = folded(&stacks);
    assert_eq!(lines.iter().map(|line| line.rsplit_once(' ').unwrap().1.parse::<i64>().unwrap()).sum::<i64>(), 100_000);
    assert!(lines.iter().all(|line| line.len() < 2000), "{:?}", lines.iter().map(String::len).max());
    assert_eq!((stacks.frames().len(), stacks.merged), (128, 20_002 - 128));
    assert_eq!(lines[..2], [format!("{}… 1", "x".repeat(200)), format!("{}…;a:b c 7 10", "x".repeat(200))]);
}

/// Nanoseconds that this thread had a processor (Linux, Documentation/scheduler/sched-stats): with other programs the wall-clock time is
/// theirs, too.
fn processor_time() -> u64 {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    schedule.split(' ').next().unwrap().parse().unwrap()
}

/// More calls than there are frames for, each in a stack of its own: those without a frame were looked for again in each that they make,
/// so that a file of 100 MB took half a minute. Breaking it down looks at each event a few times.
#[test]
fn stacks_of_very_many_calls_take_no_longer_than_the_rest() {
    const DEPTH: i64 = 120;
    let mut trace = Invented::default();
    trace.main(("user_annotation", "ProfilerStep#0"), [0, 3_500 * 2 * DEPTH]);
    for at in 0..3_500 {
        for depth in 0..DEPTH {
            let call = [2 * DEPTH * at + depth, 2 * DEPTH * (at + 1) - depth];
            trace.main(("python_function", &format!("train.py({at}): at{depth}")), call);
        }
    }
    let ranked = trace.read(0);
    let begun = processor_time();
    let rank =
        Breakdown::from_traces(std::slice::from_ref(&ranked), &BreakdownOptions::default()).unwrap().ranks.remove(0);
    let rest = processor_time() - begun;
    let begun = processor_time();
    let stacks = CallStacks::from_trace(&ranked.trace, &rank);
    let took = processor_time() - begun;
    assert!(took < 6 * rest, "{took} ns for stacks, {rest} ns for the rest");
    assert_eq!((stacks.frames().len(), stacks.merged), (100_000, 3_500 * 120 - 100_000));
}
