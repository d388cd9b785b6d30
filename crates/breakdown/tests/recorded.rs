//! Traces that were recorded: reference figures, and windows that their sets add up to. Those from `../shared/traces` are not part of the
//! repository: skipped, and said so, where they are absent.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

#[path = "../../traces/tests/shared/mod.rs"]
mod shared;

use perf4sight_breakdown::{
    Breakdown, BreakdownOptions, GpuActivity, GpuWork, IdleCause, Iteration, IterationMarkers, Metric, RankBreakdown,
    TimeCategory,
};
use perf4sight_traces::{EventCategory, RankTrace, read, read_ranks};
use shared::{files, shared};
use std::fs;
use std::path::Path;
use std::process::Command;

fn named(iteration: &str) -> BreakdownOptions {
    BreakdownOptions { iteration: Some(iteration.to_owned()) }
}

fn broken_down(file: &Path, options: &BreakdownOptions) -> RankBreakdown {
    let ranked = RankTrace { rank: 0, trace: read(file).unwrap() };
    Breakdown::from_traces(&[ranked], options).unwrap().ranks.remove(0)
}

fn iteration<'a>(rank: &'a RankBreakdown, name: &str) -> &'a Iteration {
    rank.iterations.iter().find(|iteration| iteration.name == name).unwrap()
}

fn milliseconds(nanoseconds: Option<i64>) -> f64 {
    nanoseconds.unwrap() as f64 / 1e6
}

/// The reference is a prototype of its own: Python 78.97, with the GPU 49.27, C++ 555.84, with the GPU 122.71, CUDA 9.61, with the GPU 394.79 ms
/// of 1211.182 ms. A sketch in Python of the same rules gives 0.991 ms and, with the GPU, 1.238 ms in functions of Python itself, which that
/// prototype counted as C++.
#[test]
fn an_inference_step_of_an_h100_is_divided_as_the_reference_says() {
    let Some(file) = shared("tracelens/h100_google_owlv2-large-patch14-ensemble__1016001.json.gz") else { return };
    let rank = broken_down(&file, &BreakdownOptions::default());
    let sets = &iteration(&rank, "ProfilerStep#6").sets;
    let expected = [
        (TimeCategory::Python, [78.97 + 0.991, 49.27 + 1.238]),
        (TimeCategory::Cpp, [555.84 - 0.991, 122.71 - 1.238]),
        (TimeCategory::CudaApi, [9.61, 394.79]),
        (TimeCategory::Wait, [0.0, 0.0]),
    ];
    for (category, times) in expected {
        for (busy, expected) in [false, true].into_iter().zip(times) {
            let found = milliseconds(sets.get(category, busy));
            assert!((found - expected).abs() < 0.006, "{category:?} {busy}: {found} ms, not {expected}");
        }
    }
    assert_eq!((&rank.markers, sets.total()), (&IterationMarkers::ProfilerSteps, 1_211_182_252));
}

/// The reference: in 15.95 ms the main thread alone has 1.09 ms of CUDA calls; autograd's, which it waits for, another 2.06 ms, and 2.08 ms
/// of Python. The main thread's own Python, 2.443 ms, is that of a sketch in Python of the same rules, as are 0.168 ms of both threads in functions of
/// Python itself.
#[test]
fn autograds_thread_stands_in_while_the_main_one_waits_for_it() {
    let Some(file) = shared("tracelens/mi300_resnet_act_checkpoint.json.gz") else { return };
    let rank = broken_down(&file, &BreakdownOptions::default());
    let step = iteration(&rank, "ProfilerStep#16");
    let cuda = milliseconds(step.sets.category(TimeCategory::CudaApi));
    let python = milliseconds(step.sets.category(TimeCategory::Python));
    assert!((milliseconds(Some(step.sets.total())) - 15.95).abs() < 0.006);
    assert!((cuda - (1.09 + 2.06)).abs() < 0.011, "{cuda} ms");
    assert!((python - (2.443 + 2.08 + 0.168)).abs() < 0.011, "{python} ms");
    // Nearly all of the step its GPU is in a collective; some of that hides behind kernels.
    let [collective, exposed] = [step.device.total(GpuWork::Collective), step.device.exposed_time(GpuWork::Collective)];
    assert!(exposed > 10_000_000 && exposed < collective);
}

/// The reference is TraceLens' own sum of what its GPUs did, in milliseconds.
#[test]
fn gpus_are_busy_as_long_as_the_reference_says() {
    for file in files("tracelens") {
        let reference = file.to_string_lossy().replace(".json.gz", ".gpu_timeline.csv");
        let Ok(reference) = fs::read_to_string(reference) else { continue };
        let value = |name: &str| -> f64 {
            let line = reference.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split(',').nth(1).unwrap().parse().unwrap()
        };
        let trace = read(&file).unwrap();
        let device = GpuActivity::from_trace(&trace);
        let times = device.in_window((device.busy[0].0, device.busy.last().unwrap().1));
        let exposed = times.exposed_time(GpuWork::Copy) + times.exposed_time(GpuWork::Set);
        for (name, found) in [
            ("busy_time", times.busy),
            ("idle_time", times.idle),
            ("computation_time", times.exposed_time(GpuWork::Kernel) + times.exposed_time(GpuWork::Set)),
            ("exposed_comm_time", times.exposed_time(GpuWork::Collective)),
        ] {
            let (expected, found) = (value(name), found as f64 / 1e6);
            assert!(
                (found - expected).abs() < 1e-3,
                "{} {name}: {found} ms, not {expected}; {exposed}",
                file.display()
            );
        }
    }
}

/// The truth was measured by the script itself: seconds in a Python loop, a built-in, operators, a sleep through ctypes and one of Python's.
#[test]
fn a_script_that_does_one_thing_after_the_other_is_told_apart_within_a_percent() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let truth: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(data.join("e2e_truth.json")).unwrap()).unwrap();
    let rank = broken_down(&data.join("e2e.json.gz"), &named("train_iter"));
    assert_eq!(rank.iterations.len(), 2);
    for (at, iteration) in rank.iterations.iter().enumerate() {
        let seconds = |names: &[&str]| names.iter().map(|name| truth[name][at].as_f64().unwrap()).sum::<f64>();
        let expected = [
            (TimeCategory::Python, seconds(&["python", "ctypes"])),
            (TimeCategory::Cpp, seconds(&["cpp_builtin", "cpp_op"])),
            (TimeCategory::Wait, seconds(&["sleep"])),
        ];
        for (category, expected) in expected {
            let found = iteration.sets.category(category).unwrap() as f64 / 1e9;
            assert!((found / expected - 1.0).abs() < 0.01, "{category:?}: {found} s, not {expected}");
        }
        assert_eq!(iteration.sets.gpu_busy(), 0);
    }
    let speedup = rank.summary(|iteration| Metric::TheoreticalSpeedup.compute(&iteration.sets)).unwrap();
    assert!(speedup.mean > 2.4 && speedup.mean < 2.6 && speedup.count == 2, "{speedup:?}");
}

/// Three events of this trace end after what they began in: the number that is known of it; which they are is not held here.
#[test]
fn events_that_do_not_nest_are_counted() {
    let Some(file) = shared("tracelens/b200_eager.json.gz") else { return };
    let rank = broken_down(&file, &BreakdownOptions::default());
    assert_eq!(rank.threads.iter().map(|thread| thread.clipped).sum::<u64>(), 3);
    assert!(rank.warnings.iter().any(|warning| warning.ends_with("taken to end with it: 3")), "{:?}", rank.warnings);
}

#[test]
fn a_share_of_python_that_was_not_recorded_is_unknown() {
    let Some(file) = shared("own/mlp_nostack.json.gz") else { return };
    let rank = broken_down(&file, &BreakdownOptions::default());
    assert_eq!(rank.markers, IterationMarkers::OptimizerSteps("Optimizer.step#SGD.step".to_owned()));
    for iteration in &rank.iterations {
        assert_eq!(
            (iteration.sets.category(TimeCategory::Python), iteration.sets.category(TimeCategory::Wait)),
            (None, None)
        );
        assert_eq!(Metric::PercentTimeInPython.compute(&iteration.sets), None);
        assert!(iteration.sets.category(TimeCategory::PythonOrWait).unwrap() > 0);
    }
    let named = broken_down(&shared("own/mlp_stack.json.gz").unwrap(), &named("train_iter"));
    assert!(named.summary(|iteration| Metric::PercentTimeInPython.compute(&iteration.sets)).is_some());
}

/// Without the ranges that mark them, the iterations of these recordings are as many, and as long at the median, as with them; recorded were
/// 20, 20, 8 and 5.
#[test]
fn unmarked_iterations_are_found_by_what_repeats() {
    for (name, recorded) in [("mlp_stack", 20), ("mlp_nostack", 20), ("loader_stack", 8), ("r18_stack", 5)] {
        let Some(file) = shared(&format!("own/{name}.json.gz")) else { return };
        let marked = broken_down(&file, &BreakdownOptions::default());
        let mut trace = read(&file).unwrap();
        trace.events.retain(|event| event.category != EventCategory::Annotation);
        let found = Breakdown::from_traces(&[RankTrace { rank: 0, trace }], &BreakdownOptions::default())
            .unwrap()
            .ranks
            .remove(0);
        let IterationMarkers::Period { event, certainty } = &found.markers else {
            panic!("{name}: {:?}", found.markers)
        };
        assert!(*certainty > 0.8 && *certainty <= 1.0, "{name}: {event} {certainty}");
        assert_eq!(found.iterations.len(), recorded - 1, "{name}: {event} {certainty}");
        let median = |rank: &RankBreakdown| {
            let total = |iteration: &Iteration| Some(iteration.sets.total() as f64);
            rank.summary(total).unwrap().median
        };
        let (expected, median) = (median(&marked), median(&found));
        assert!((median / expected - 1.0).abs() < 0.05, "{name}: {event} {median} {expected}");
    }
}

/// The sets of every step, of every range that a script named and of every step between two of an optimizer.
#[test]
fn every_window_of_every_trace_is_the_sum_of_its_sets() {
    let mut windows = 0;
    for folder in ["hta", "own", "tracelens", "ddp"] {
        for ranked in files(folder).iter().map(|file| RankTrace { rank: 0, trace: read(file).unwrap() }) {
            windows += check(&[ranked]);
        }
    }
    if let Some(archive) = shared("dlrm/dlrm_kineto.tar.gz") {
        let folder = tempfile::tempdir().unwrap();
        let unpacked = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder.path()).status().unwrap();
        assert!(unpacked.success());
        let ranks = read_ranks(&[folder.path().join("dlrm_kineto")]).unwrap();
        assert_eq!(ranks.len(), 8);
        windows += check(&ranks);
        assert!(windows > 2000, "{windows}");
    }
}

/// Checks the windows of some ranks; how many.
fn check(ranks: &[RankTrace]) -> usize {
    let trace = &ranks[0].trace;
    let ranges = trace.events.iter().filter(|event| event.category == EventCategory::Annotation);
    let mut names: Vec<&str> = ranges.map(|event| trace.name(event)).collect();
    names.sort_unstable();
    names.dedup();
    let mut windows = 0;
    for options in names.into_iter().map(named).chain([BreakdownOptions::default()]) {
        let Ok(breakdown) = Breakdown::from_traces(ranks, &options) else { continue };
        for (rank, iteration) in
            breakdown.ranks.iter().flat_map(|rank| rank.iterations.iter().map(move |one| (rank, one)))
        {
            let (begin, end) = iteration.window;
            let place = format!("{} {}", trace.file.display(), iteration.name);
            assert_eq!(iteration.sets.parts().map(|(_, _, time)| time).sum::<i64>(), end - begin, "{place}");
            assert!(iteration.sets.parts().all(|(_, _, time)| time >= 0), "{place}");
            assert_eq!(iteration.sets.gpu_busy(), iteration.device.busy, "{place}");
            let idle = iteration
                .idle
                .map_or(end - begin, |causes| IdleCause::ALL.into_iter().filter_map(|one| causes.get(one)).sum());
            assert_eq!(idle, iteration.device.idle, "{place}");
            let operations = iteration.operations.values().copied().reduce(|mut all, one| {
                all += one;
                all
            });
            assert_eq!(operations, Some(iteration.sets), "{place}");
            assert_eq!(
                GpuWork::ALL.map(|work| iteration.device.exposed_time(work)).iter().sum::<i64>(),
                iteration.device.busy
            );
            let published = |metric: Metric| metric.compute(&iteration.sets);
            assert!(Metric::ALL.into_iter().filter_map(published).all(|value| value >= 0.0), "{place}");
            assert_eq!(rank.main.is_none(), rank.threads.is_empty());
            windows += 1;
        }
    }
    windows
}
