//! What recording costs, taken out of iterations whose times and costs are known because they were made up.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

#[allow(dead_code)] // other tests use all of it
mod invented;

use invented::Invented;
use perf4sight_breakdown::{
    Breakdown, BreakdownOptions, BusierSide, ComparedMeasure, Comparison, DifferenceVerdict, Metric, RankBreakdown,
    TimeCategory, TrainingOperation,
};
use perf4sight_record::{OverheadClock, Recording, RecordingOverhead};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The times that `perf4sight record` stores: nanoseconds before, with the profiler, and after, by the wall and by the processor.
fn recording(wall: [&[u64]; 3], processor: Option<[&[u64]; 3]>) -> Recording {
    let times = |[before, recorded, after]: [&[u64]; 3]| json!({ "plain_before": before, "recorded": recorded, "plain_after": after });
    let mut known = json!({
        "format": 1, "trace": "rank0.json.gz", "rank": 0, "iterations_are": "optimizer steps", "kineto": true,
        "processor": processor.map(times),
    });
    let words: Value = times(wall);
    known.as_object_mut().unwrap().extend(words.as_object().unwrap().clone());
    serde_json::from_value(known).unwrap()
}

fn corrected(trace: &Invented, recording: Option<&Recording>) -> RankBreakdown {
    let mut ranked = trace.read(0);
    // The trace that the recording belongs to.
    ranked.trace.file = "rank0.json.gz".into();
    let mut rank =
        Breakdown::from_traces(std::slice::from_ref(&ranked), &BreakdownOptions::default()).unwrap().ranks.remove(0);
    rank.correct(&ranked.trace, recording);
    rank
}

/// Iterations of 100 us in Python, 20 of them in an operator.
fn iterations(count: usize) -> Invented {
    of_microseconds(&vec![100; count])
}

/// Iterations of so many microseconds in Python, 20 of them in an operator.
fn of_microseconds(durations: &[i64]) -> Invented {
    let mut trace = Invented::default();
    let mut begin = 0;
    for (iteration, duration) in durations.iter().enumerate() {
        let at = |microseconds: i64| (begin + microseconds) * 1000;
        trace
            .main(("user_annotation", &format!("ProfilerStep#{iteration}")), [at(0), at(*duration)])
            .main(("python_function", "train.py(1): step"), [at(0), at(*duration)])
            .main(("cpu_op", "aten::mm"), [at(40), at(60)]);
        begin += duration;
    }
    trace
}

/// By hand: two of 100 us are recording's. A range and an operator cost 0.4, a function 0.24, of which 0.02 lie within it and half of the
/// rest before it and half behind. In each iteration that is within its range and its function 0.04, around those of the other iteration
/// 0.19 + 0.11, and around its operator 0.38, all of it in Python; and 0.02 in the operator.
#[test]
fn what_recording_costs_is_taken_from_where_events_are() {
    let plain = [98_000; 4];
    let rank = corrected(&iterations(2), Some(&recording([&plain, &[100_000; 2], &plain], None)));
    let overhead = rank.correction.overhead.as_ref().unwrap();
    assert_eq!((overhead.plain, overhead.added, overhead.interval), (98_000.0, 2000.0, [2000.0; 2]));
    for iteration in &rank.iterations {
        let corrected = rank.corrected(iteration).unwrap();
        let (python, cpp) = (0.04 + 0.3 + 0.38, 0.02);
        let expected = [(TimeCategory::Python, 80_000.0, python), (TimeCategory::Cpp, 20_000.0, cpp)];
        for (category, measured, costs) in expected {
            let expected = measured - 2000.0 * costs / (python + cpp);
            let found = corrected.sets().unwrap().category(category).unwrap() as f64;
            assert!((found - expected).abs() < 1.0, "{category:?}: {found}, not {expected}");
        }
        assert_eq!((iteration.sets.total(), corrected.total), (100_000, 98_000));
    }
    assert!(
        !rank.all_warnings().any(|warning| warning.contains("include what recording takes")),
        "{:?}",
        rank.all_warnings().collect::<Vec<_>>()
    );
}

/// By hand: 50 of 100 us are recording's, where by the known costs of its events (0.74 us, above) it should be less than one. Up to Python
/// 3.11 the tracer slows the interpreter itself, so that 0.02 us are C++'s and the rest is Python's.
#[test]
fn what_events_do_not_explain_is_pythons_where_the_tracer_slows_it() {
    for (version, python, cpp) in [("3.11.2", 80_000 - 49_980, 20_000 - 20), ("3.12.1", 0, 0)] {
        let mut recording = recording([&[50_000; 4], &[100_000; 2], &[50_000; 4]], None);
        (recording.python, recording.calls) = (Some(version.to_owned()), Some(true));
        let rank = corrected(&iterations(2), Some(&recording));
        let corrected = rank.corrected(&rank.iterations[0]).unwrap();
        assert_eq!(corrected.total, 50_000);
        let sets = corrected.sets();
        let found =
            [TimeCategory::Python, TimeCategory::Cpp].map(|own| sets.map_or(0, |sets| sets.category(own).unwrap()));
        assert!((found[0] - python).abs() < 2 && (found[1] - cpp).abs() < 2, "{version}: {found:?}");
    }
}

/// By hand: up to Python 3.11, with 70 us of recording's and all but 0.03 of it Python's, Python has 69.97 of 80 us less. With 90 of them it
/// would have less than nothing: then only the whole iteration is corrected, and that is said. It once had 0.000 ms.
#[test]
fn a_category_that_has_less_than_recording_costs_is_unknown() {
    for (plain, known) in [(30_000, true), (10_000, false)] {
        let mut recording = recording([&[plain; 4], &[100_000; 2], &[plain; 4]], None);
        (recording.python, recording.calls) = (Some("3.10.1".to_owned()), Some(true));
        let rank = corrected(&iterations(2), Some(&recording));
        let iteration = rank.corrected(&rank.iterations[0]).unwrap();
        assert_eq!((iteration.total, iteration.sets().is_some()), (plain as i64, known));
        let said =
            "the cost of recording is not split by category: 0.090 ms of it would be of Python, which has 0.080 ms";
        let warnings: Vec<&String> = rank.all_warnings().collect();
        assert_eq!(warnings.iter().any(|warning| *warning == said), !known, "{warnings:?}");
    }
}

/// By hand: iterations of 200 us, of which the script sleeps 100, take 20 us more than plain ones, but only 2 us more of the processor: 2 are taken
/// from Python and C++, and 18 from waiting. Where the script sleeps for 10 us only, nothing tells where the 18 are.
#[test]
fn of_a_script_that_waits_only_processor_time_is_taken_from_what_works() {
    for (sleeps, known) in [(100, true), (10, false)] {
        let recording =
            recording([&[180_000; 5], &[200_000; 5], &[180_000; 5]], Some([&[60_000; 5], &[62_000; 5], &[60_000; 5]]));
        let mut trace = of_microseconds(&[200; 5]);
        for at in 1..=5 {
            trace.main(("python_function", "<built-in function sleep>"), [(200 * at - sleeps) * 1000, 200 * at * 1000]);
        }
        let rank = corrected(&trace, Some(&recording));
        let corrected = rank.corrected(&rank.iterations[2]).unwrap();
        let of = |category| corrected.sets().and_then(|sets| sets.category(category));
        assert!((mean_of_all(&rank) - 180_000.0).abs() < 1.0, "{rank:?}");
        // A little of the work is at the ends of calls that wait.
        let waits = of(TimeCategory::Wait);
        assert!(waits.is_some() == known && waits.is_none_or(|waits| (waits - 82_000).abs() < 900), "{waits:?}");
        let works = of(TimeCategory::Python).zip(of(TimeCategory::Cpp)).map(|(python, cpp)| python + cpp);
        assert!(works.is_some() == known && works.is_none_or(|works| (works - 98_000).abs() < 900), "{works:?}");
    }
}

/// By hand: 20 us more than plain iterations take, 2 of them of the processor. Of the other 18 the thread was ready to run for 18 or 9, and had no
/// processor: a sleep of 100 us is none of that. For 3 it may be chance.
#[test]
fn time_without_a_processor_is_not_taken_from_what_the_script_waits() {
    for (delayed, known) in [(18_000, false), (9_000, false), (3_000, true)] {
        let times = |plain: u64, recorded: u64| [vec![plain; 5], vec![recorded; 5], vec![plain; 5]];
        let of =
            |times: &[Vec<u64>; 3]| json!({ "plain_before": times[0], "recorded": times[1], "plain_after": times[2] });
        let wall = [&[180_000; 5][..], &[200_000; 5], &[180_000; 5]];
        let recording = Recording {
            delayed: Some(serde_json::from_value(of(&times(1_000, 1_000 + delayed))).unwrap()),
            ..recording(wall, Some([&[60_000; 5], &[62_000; 5], &[60_000; 5]]))
        };
        let mut trace = of_microseconds(&[200; 5]);
        for at in 1..=5 {
            trace.main(("python_function", "<built-in function sleep>"), [(200 * at - 100) * 1000, 200 * at * 1000]);
        }
        let rank = corrected(&trace, Some(&recording));
        let one = rank.corrected(&rank.iterations[2]).unwrap();
        assert_eq!(one.sets().is_some(), known, "{delayed}");
        let said = rank.all_warnings().any(|warning| warning.contains("ready to run but had no processor"));
        assert_eq!(said, !known, "{delayed}");
    }
}

/// Recordings of two processes that have nothing to do with each other, which `record` numbers; of ranks nothing is said.
#[test]
fn processes_without_ranks_are_not_called_ranks() {
    for (ranks, told) in [(1, true), (2, false)] {
        let of = |rank: u32| {
            let mut one = corrected(&iterations(3), Some(&Recording { ranks, ..known() }));
            one.rank = rank;
            one.place.rank = rank;
            one
        };
        let run = Breakdown { ranks: vec![of(0), of(1)], waits: None, warnings: Vec::new() };
        assert_eq!(run.are_processes(), told);
        let absent = run.absent().unwrap_or_default();
        assert_eq!(absent.starts_with("these are processes without ranks"), told, "{absent}");
    }
}

fn mean_of_all(rank: &RankBreakdown) -> f64 {
    let totals: Vec<i64> = rank.iterations.iter().map(|one| rank.corrected(one).unwrap().total).collect();
    totals.iter().sum::<i64>() as f64 / totals.len() as f64
}

/// By hand: 0.5 of 100 us are recording's, where events are known to cost 0.74 on another machine (above), and C++ and Python take no less.
#[test]
fn no_more_is_subtracted_than_was_measured() {
    let plain = [99_500; 4];
    let mut recording = recording([&plain, &[100_000; 2], &plain], None);
    (recording.python, recording.calls) = (Some("3.10.1".to_owned()), Some(true));
    let rank = corrected(&iterations(2), Some(&recording));
    assert!(rank.iterations.iter().all(|one| rank.corrected(one).unwrap().total == 99_500));
}

/// Iterations that vary as much as an exponential distribution does: recorded ones took less by chance, and some of them as long as plain ones. By
/// hand, 900 is an outlier, and the means of periods are 100 without and 62.5 with recording.
#[test]
fn iterations_that_vary_are_not_said_to_be_of_another_recording() {
    let plain: &[u64] = &[50_000, 100_000, 150_000, 900_000];
    let recorded: &[u64] = &[40_000, 60_000, 70_000, 80_000];
    let known = by_turns(&[plain; 4], &[recorded; 3]);
    let overhead = RecordingOverhead::from_recording(&known).unwrap();
    assert!(overhead.interval[1] < 0.0, "{overhead:?}");
    assert_eq!(overhead.contradiction(), None);
    let said = "iterations vary too much to know what it costs (0.050 to 0.150 ms without it), or something else changed meanwhile; nothing is subtracted";
    assert!(overhead.doubts.iter().any(|doubt| doubt.ends_with(said)), "{:?}", overhead.doubts);
}

/// By hand: iterations of 200 us, of which the main thread sleeps 20 and has the processor for 50. All threads of the process have it for 150: the
/// others held the main thread up for 100 of the 130 us that it did not run in. Without their times nobody knows.
#[test]
fn what_other_threads_ran_in_while_the_main_thread_did_not_is_told() {
    let all = |time: u64| vec![time; 10];
    let mut recording = recording([&[200_000; 10]; 3], Some([&[150_000; 10]; 3]));
    let mut trace = of_microseconds(&[200; 10]);
    for at in 1..=10 {
        trace.main(("python_function", "<built-in function sleep>"), [(200 * at - 20) * 1000, 200 * at * 1000]);
    }
    let held_up = |recording: &Recording| {
        let rank = corrected(&trace, Some(recording));
        rank.held_up(&rank.iterations[3])
    };
    assert_eq!(held_up(&recording), None);
    for (own, expected) in [(50_000, 100_000), (90_000, 60_000), (150_000, 0)] {
        recording.thread = Some(by_turns(&[&all(own)], &[&all(own)]).wall);
        assert_eq!(held_up(&recording), Some(expected));
    }
}

/// By hand: iterations of 200 us, of which the script sleeps 20 and its process has a processor for 50.
#[test]
fn what_a_process_had_no_processor_for_is_not_running() {
    let run = run(200, 20, 50);
    let times: Vec<Option<i64>> = run.ranks[0].counted_iterations().map(|one| run.ranks[0].not_running(one)).collect();
    assert_eq!(times[..2], [Some(130_000), Some(130_000)]);
    let rank = corrected(&iterations(3), Some(&known()));
    assert_eq!(rank.not_running(&rank.iterations[0]), None);
}

/// The window is 2 us longer than what was timed of it: those are recording's as well.
#[test]
fn what_the_range_of_an_iteration_adds_to_it_is_taken_out_too() {
    let plain = [90_000; 4];
    let rank = corrected(&iterations(2), Some(&recording([&plain, &[98_000; 2], &plain], None)));
    assert!(rank.iterations.iter().all(|iteration| rank.corrected(iteration).unwrap().total == 90_000));
}

/// Iterations of 100 us, of which the recorder has the word in the first 10 and the last 50.
fn recorders(count: i64) -> Invented {
    let mut trace = Invented::default();
    for iteration in 0..count {
        let at = |microseconds: i64| (110 * iteration + microseconds) * 1000;
        if iteration == 0 {
            trace.main(("python_function", "/lib/perf4sight_recorder/recorder.py(59): stepped"), [at(-5), at(10)]);
        }
        trace
            .main(("user_annotation", &format!("ProfilerStep#{iteration}")), [at(0), at(100)])
            .main(("python_function", "train.py(1): step"), [at(10), at(50)])
            .main(("python_function", "/lib/perf4sight_recorder/recorder.py(59): stepped"), [at(50), at(120)])
            .main(("python_function", "/lib/perf4sight_recorder/recording.py(156): faults"), [at(53), at(90)])
            .main(("python_function", "<built-in function getrusage>"), [at(54), at(89)]);
    }
    trace
}

/// By hand: 6 us of the 46 that are timed are the recorder's, and 10 are what recording adds to 36, so that 4 of the script's 40 are that.
/// What else the recorder did within the ranges once counted as the script's, and contradicted what was timed.
#[test]
fn what_the_recorder_does_is_no_time_of_the_script() {
    let plain = [36_000; 4];
    let rank = corrected(&recorders(2), Some(&recording([&plain, &[46_000; 2], &plain], None)));
    for iteration in &rank.iterations {
        assert_eq!((iteration.sets.total(), iteration.sets.category(TimeCategory::Python)), (40_000, Some(40_000)));
        assert_eq!(
            (iteration.sets.category(TimeCategory::Cpp), iteration.range.1 - iteration.range.0),
            (Some(0), 100_000)
        );
        assert_eq!(
            rank.corrected(iteration).map(|corrected| corrected.total),
            Some(36_000),
            "{:?}",
            rank.all_warnings().collect::<Vec<_>>()
        );
    }
}

/// The recorder waits for the accelerator at the end of a period: for what the script asked of it.
#[test]
fn what_the_recorder_waits_for_is_time_of_the_script() {
    let mut trace = recorders(2);
    trace.main(("cuda_runtime", "cudaDeviceSynchronize"), [60_000, 70_000]).kernel("gemm", [40_000, 70_000]);
    let rank = corrected(&trace, None);
    let times: Vec<i64> = rank.iterations.iter().map(|iteration| iteration.sets.total()).collect();
    assert_eq!(times, [60_000, 40_000]);
    assert_eq!(rank.iterations[0].sets.gpu_busy(), 30_000);
}

/// Such figures once overflowed a sum; and the error says where they are.
#[test]
fn times_that_nobody_timed_are_refused() {
    for word in ["plain_before", "recorded", "plain_after"] {
        for of_processor in [false, true] {
            let mut known = json!({
                "format": 1, "trace": "rank0.json.gz", "rank": 0, "iterations_are": "optimizer steps", "kineto": true,
                "plain_before": [1], "recorded": [1], "plain_after": [1],
                "processor": { "plain_before": [1], "recorded": [1], "plain_after": [1] },
            });
            let times = if of_processor { &mut known["processor"] } else { &mut known };
            times[word] = json!([1_u64 << 63, 1_u64 << 63]);
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("rank0.recording.json");
            std::fs::write(&file, known.to_string()).unwrap();
            let error = Recording::read(&file).unwrap_err().to_string();
            assert!(error.contains("has an iteration of 9223372036854775808 ns"), "{error}");
        }
    }
}

/// A trace is as sound without the file next to it: it is shown as recorded, and what is wrong is said in words that a person knows.
#[test]
fn a_file_beside_the_trace_that_cannot_be_read_is_told() {
    let times = json!({
        "format": 2, "trace": "rank0.json.gz", "rank": 0, "iterations_are": "optimizer steps", "kineto": true,
        "plain": [[90_000], [90_000]], "recorded": [[100_000, 100_000]],
    });
    let with = |word: &str, value: Value| {
        let mut known = times.clone();
        known[word] = value;
        known.to_string()
    };
    let cases = [
        ("{\"format\": 2, \"trace\":".to_owned(), "is not a recording: EOF"),
        ("[]".to_owned(), "expected an object with a format"),
        ("[2]".to_owned(), "invalid type: sequence, expected an object"),
        ("17".to_owned(), "invalid type: integer `17`, expected an object"),
        (with("plain", json!([[0], [90_000]])), "an iteration that takes no time; expected: 1 ns at least"),
        (with("plain", json!([[-5], [90_000]])), "lists of periods with whole numbers from 0"),
        (with("plain", json!("fast")), "lists of periods with whole numbers from 0"),
        (with("processor", json!([1, 2])), "lists of periods with whole numbers from 0"),
        (with("rank", json!("first")), "invalid type: string \"first\""),
        (with("plain", Value::Null).replace("null", "[[NaN]]"), "is not a recording: expected value"),
        ("{\"format\": 3, \"periods\": []}".to_owned(), "has format 3; expected: format 1 to 2; help: record again"),
        (" ".repeat((64 << 20) + 2), "too large"),
    ];
    for (text, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let mut ranked = iterations(2).read(0);
        ranked.trace.file = folder.path().join("rank0.json.gz");
        std::fs::write(folder.path().join("rank0.recording.json"), text).unwrap();
        let mut rank = Breakdown::from_traces(std::slice::from_ref(&ranked), &BreakdownOptions::default())
            .unwrap()
            .ranks
            .remove(0);
        assert_eq!(rank.correct_from_file(&ranked.trace), None);
        assert!(rank.correction.overhead.is_none() && rank.iterations.iter().all(|one| rank.corrected(one).is_none()));
        let known = rank.all_warnings().last().unwrap();
        assert!(known.starts_with("these times are as recorded, and nothing is subtracted: "), "{known}");
        assert!(known.contains("rank0.recording.json: ") && known.contains(expected), "{known}");
        assert!(!known.contains("untagged") && !known.contains("struct"), "{known}");
    }
}

/// Of the three iterations.
fn known() -> Recording {
    recording([&[90_000; 3], &[100_000; 3], &[90_000; 3]], None)
}

/// By hand: ten of 100 us are recording's, where by the known costs of its events (0.74 us, above) it should be less than one. Whose the
/// others are nobody knows, but how long an iteration takes without them is measured.
#[test]
fn what_events_do_not_explain_is_told_of_the_whole_alone() {
    let rank = corrected(&iterations(3), Some(&known()));
    for iteration in &rank.iterations {
        let corrected = rank.corrected(iteration).unwrap();
        assert_eq!((corrected.total, &corrected.divided), (90_000, &None));
    }
    assert!(
        rank.all_warnings().any(|warning| warning.contains("not split by category")),
        "{:?}",
        rank.all_warnings().collect::<Vec<_>>()
    );
}

/// By hand: another program came between the beginning of the fifth range and that of its time, for 40 of 100 us. It is no part of that
/// iteration, and nothing of it is taken from others.
#[test]
fn what_was_not_timed_is_taken_from_where_it_was() {
    let plain = [40_000; 9];
    let mut known = [100_000; 9];
    known[4] = 60_000;
    let rank = corrected(&iterations(9), Some(&recording([&plain, &known, &plain], None)));
    let totals: Vec<i64> = rank.iterations.iter().map(|one| rank.corrected(one).unwrap().total).collect();
    assert!((totals[3] - totals[4] - 40_000).abs() < 2, "{totals:?}");
}

#[test]
fn what_is_not_known_is_not_taken_out_and_said() {
    let cases = [
        (None, "nothing shows"),
        (Some(recording([&[], &[120_000; 2], &[]], None)), "no iterations were timed"),
        (Some(recording([&[90_000; 3], &[100_000; 2], &[90_000; 3]], None)), "not those of the trace"),
        (Some(recording([&[90_000; 3], &[100_000; 100], &[90_000; 3]], None)), "not those of the trace"),
        (Some(recording([&[90_000; 3], &[50_000_000; 3], &[90_000; 3]], None)), "contradict the trace"),
        (Some(recording([&[30_000; 3], &[50_000; 3], &[30_000; 3]], None)), "contradict the trace"),
        (Some(recording([&[0; 3], &[100_000; 3], &[0; 3]], None)), "no iterations were timed"),
        (Some(recording([&[1; 3], &[100_000; 3], &[1; 3]], None)), "do not belong together"),
        (Some(recording([&[900_000; 3], &[100_000; 3], &[900_000; 3]], None)), "took 88.9 to 88.9 % less"),
        (Some(Recording { rank: 9, ..known() }), "belongs to rank 9"),
        (Some(Recording { trace: "other.json.gz".to_owned(), ..known() }), "belongs to other.json.gz"),
    ];
    for (recording, why) in cases {
        let rank = corrected(&iterations(3), recording.as_ref());
        assert!(rank.iterations.iter().all(|iteration| rank.corrected(iteration).is_none()), "{why}");
        assert!(
            rank.all_warnings().any(|warning| warning.contains(why)),
            "{why}: {:?}",
            rank.all_warnings().collect::<Vec<_>>()
        );
        // A recording of another trace leaves nothing, not even a doubt.
        let of_another =
            ["belongs to", "not those of the trace", "contradict the trace"].iter().any(|one| why.contains(one));
        if of_another || why.starts_with("no") {
            assert!(
                rank.correction.overhead.is_none()
                    && rank.correction.drift.is_none()
                    && rank.all_warnings().count() == 1,
                "{why}: {rank:?}"
            );
        }
        assert_eq!(rank.without_recording(), None);
    }
}

/// By hand: plain iterations take 80 and 110 us, recorded ones 100, which are 5 more; since speed may have changed at any moment between, it
/// may be 15 less or more. The best of that is taken out, and as recording makes nothing faster, the iteration takes 100 us at most. Where
/// plain ones take 80 and 120, recording adds nothing by that, or 20 at most.
#[test]
fn what_cannot_be_told_from_nothing_is_taken_out_and_makes_the_corrected_time_unsure() {
    for (after, total, taken) in
        [(110_000, 95_000, "5.3 % were subtracted"), (120_000, 100_000, "nothing was subtracted")]
    {
        let rank = corrected(&iterations(3), Some(&recording([&[80_000; 3], &[100_000; 3], &[after; 3]], None)));
        assert!(rank.iterations.iter().all(|one| rank.corrected(one).unwrap().total == total));
        let without = rank.without_recording().unwrap();
        assert_eq!((without.mean, without.interval), (total as f64, Some([80_000.0, 100_000.0])));
        let known = |words: &str| rank.all_warnings().any(|warning| warning.contains(words));
        assert!(
            known("the cost of recording is not known here") && known(taken),
            "{:?}",
            rank.all_warnings().collect::<Vec<_>>()
        );
    }
}

/// By hand: recorded iterations take 97 and plain ones 100, and nothing scatters: something else made them faster, by less than would
/// tell that they are of different programs. Nothing is taken out, and how sure that is nobody knows.
#[test]
fn recording_makes_no_script_faster() {
    let rank = corrected(&iterations(3), Some(&recording([&[103_000; 3], &[100_000; 3], &[103_000; 3]], None)));
    let without = rank.without_recording().unwrap();
    assert_eq!((without.mean, without.interval), (100_000.0, None));
    assert!(
        rank.all_warnings().any(|warning| warning.contains("took 2.9 to 2.9 % less")),
        "{:?}",
        rank.all_warnings().collect::<Vec<_>>()
    );
}

/// By hand: 10 of 100 us are recording's, and one of nine iterations took 600. The others are 90 without it, as plain ones; with that one
/// (590) the mean that is shown is 1,310 / 9, or 62 % more.
#[test]
fn a_mean_that_holds_what_was_not_held_against_plain_iterations_is_told() {
    let durations = [100, 100, 100, 100, 100, 100, 600, 100, 100];
    let known = durations.map(|duration| duration as u64 * 1000);
    let rank = corrected(&of_microseconds(&durations), Some(&recording([&[90_000; 9], &known, &[90_000; 9]], None)));
    let known = "is 62 % above that of the 8 of 9 that did not take much longer";
    assert!(
        rank.all_warnings().any(|warning| warning.contains(known)),
        "{:?}",
        rank.all_warnings().collect::<Vec<_>>()
    );
}

/// By hand: 2 of 100 us are recording's, and one of ten plain iterations took 1,998, none of the ten recorded ones. One event in twenty adds
/// 95 us to the mean, and 5.572 times that where it came so seldom by chance; the interval that held 98 us alone was sure of what recorded
/// iterations do not show.
#[test]
fn what_only_plain_iterations_show_makes_the_corrected_mean_unsure() {
    let mut plain = [98_000; 5];
    plain[2] = 1_998_000;
    let rank = corrected(&iterations(10), Some(&recording([&plain, &[100_000; 10], &[98_000; 5]], None)));
    let without = rank.without_recording().unwrap();
    let [low, high] = without.interval.unwrap();
    assert!((without.mean - 98_000.0).abs() < 1.0 && (low - 98_000.0).abs() < 1.0, "{without:?}");
    assert!((high - (98_000.0 + 5.572 * 95_000.0)).abs() < 100.0, "{without:?}");
    let known = "1 of 20 iterations took much longer than the others, as with an evaluation, a wait for data or another program in them: 1.998 ms on \
                average without recording, 52 % of all time, where the others took 0.098 ms";
    assert!(
        rank.all_warnings().any(|warning| warning.starts_with(known)),
        "{:?}",
        rank.all_warnings().collect::<Vec<_>>()
    );
}

/// By hand: the same in one of ten recorded iterations, whose mean is 190 us more by that: it may as well have come 0.0253 times as often
/// as in one of twenty, which makes 2.4 us of the 95.
#[test]
fn what_only_recorded_iterations_show_makes_the_corrected_mean_unsure() {
    let mut durations = [100; 10];
    durations[5] = 2000;
    let recorded = durations.map(|duration| duration as u64 * 1000);
    let rank = corrected(&of_microseconds(&durations), Some(&recording([&[98_000; 5], &recorded, &[98_000; 5]], None)));
    let without = rank.without_recording().unwrap();
    let [low, high] = without.interval.unwrap();
    assert!((without.mean - 288_000.0).abs() < 100.0, "{without:?}");
    assert!((low - (98_000.0 + 0.0253 * 95_000.0)).abs() < 10.0, "{without:?}");
    assert!((high - (98_000.0 + 5.572 * 95_000.0)).abs() < 100.0, "{without:?}");
}

/// By hand: the first recorded period took 500, and is left out as warm-up. The others take 20 more than plain ones; with the first it was 140, on
/// which a corrected iteration of 120 would have been below nothing.
#[test]
fn what_is_left_out_as_warm_up_does_not_tell_what_recording_takes() {
    let overhead = RecordingOverhead::from_recording(&by_turns(
        &[&[100; 2], &[100; 2], &[100; 2], &[100; 2]],
        &[&[500; 2], &[120; 2], &[120; 2]],
    ))
    .unwrap();
    assert_eq!((overhead.subtracted(), overhead.interval, overhead.long), (20.0, [20.0; 2], None));
    assert_eq!(overhead.ordinary, [false, false, true, true, true, true]);
}

/// By hand: plain periods take 100 and three times 150 (or 103), so that the first and the last are 125 on average, 17 % off the others' 150 (or 1.5 %
/// off their 103).
#[test]
fn where_the_check_fails_the_correction_does_not_hold() {
    for (slow, holds) in [(150_000, false), (103_000, true)] {
        let plain: [&[u64]; 4] = [&[100_000; 2], &[slow; 2], &[slow; 2], &[slow; 2]];
        let rank = corrected(&iterations(6), Some(&by_turns(&plain, &[&[100_000; 2], &[100_000; 2], &[100_000; 2]])));
        assert_eq!(rank.correction_holds(), holds, "{:?}", rank.correction.overhead);
    }
}

/// By hand: plain periods of 100 and three times 115 us, and recorded ones of 130, which are 22.5, 15 and 15 more: 112.5 us are left. Half of the
/// plain iterations take 107.5 and the others 115, which is 7 % more, so that the interval holds what is 7 % more or less than 112.5.
#[test]
fn what_the_check_finds_wrong_by_so_much_is_not_known_better() {
    let plain: [&[u64]; 4] = [&[100_000; 2], &[115_000; 2], &[115_000; 2], &[115_000; 2]];
    let rank = corrected(
        &of_microseconds(&[130; 6]),
        Some(&by_turns(&plain, &[&[130_000_u64; 2], &[130_000; 2], &[130_000; 2]])),
    );
    assert!(!rank.correction_holds(), "{:?}", rank.correction.overhead);
    let [low, high] = rank.without_recording().unwrap().interval.unwrap();
    let off = 115.0 / 107.5;
    assert!(low <= 112_500.0 / off + 1.0 && high >= 112_500.0 * off - 1.0, "{low} to {high}");
}

/// By hand: plain iterations of 80 and 110 us, recorded ones of 90 to 110: recording takes 5 us, or nothing. An iteration then takes at most 100 us,
/// but that is only known to the interval of the recorded ones, whose end is no exact limit.
#[test]
fn where_recording_may_cost_nothing_the_recorded_mean_is_no_limit() {
    let known = recording([&[80_000; 3], &[90_000, 100_000, 110_000], &[110_000; 3]], None);
    let rank = corrected(&of_microseconds(&[90, 100, 110]), Some(&known));
    let recorded = rank.summary(|one| Some(one.sets.total() as f64)).unwrap();
    let [_, high] = rank.without_recording().unwrap().interval.unwrap();
    let half = recorded.interval.unwrap()[1] - recorded.mean;
    assert!(half > 1000.0 && (high - (recorded.mean + half)).abs() < 1.0, "{high} of {recorded:?}");
}

/// By hand: 200 before and 50 after are three quarters less. Divided by the mean of both it once was -120 %.
#[test]
fn a_change_of_speed_is_told_of_what_was_first() {
    let overhead = RecordingOverhead::from_recording(&recording([&[200; 3], &[130; 4], &[50; 3]], None)).unwrap();
    assert!(overhead.doubts.iter().any(|doubt| doubt.contains("took -75 % after")), "{:?}", overhead.doubts);
}

/// By hand: the means are 100 before and 106 after, so 103; recorded ones took 120, which is 17 more, and between 14 and 20 where speed may
/// have changed at any time between. Nothing scatters.
#[test]
fn speed_that_changed_meanwhile_makes_it_less_sure() {
    let overhead = RecordingOverhead::from_recording(&recording([&[100; 3], &[120; 4], &[106; 3]], None)).unwrap();
    assert_eq!((overhead.added, overhead.interval, overhead.clock), (17.0, [14.0, 20.0], OverheadClock::Wall));
    assert!(overhead.doubts.len() == 1 && overhead.doubts[0].contains("speed changed"), "{overhead:?}");
}

/// By hand: calibrated by the halves next to the recorded ones, 110, these are 110 too; the other halves are 90, and so they are off by
/// two ninths. Calibrated by the others, 90, they are 90, and two elevenths less than 110; that is more where recorded ones are below 110
/// anyhow. Where they do not belong together, nothing is corrected, and they are off by what they took less.
#[test]
fn it_says_how_far_off_what_half_of_the_iterations_tell_is() {
    for (recorded, off, doubted) in [(250, 200.0 / 9.0, "+22 % off"), (95, -200.0 / 11.0, "-18 % off")] {
        let overhead =
            RecordingOverhead::from_recording(&recording([&[90, 110], &[recorded; 4], &[110, 90]], None)).unwrap();
        assert!((overhead.off.unwrap() - off).abs() < 1e-9);
        assert!(overhead.doubts.iter().any(|doubt| doubt.contains(doubted)), "{:?}", overhead.doubts);
    }
    let overhead = RecordingOverhead::from_recording(&recording([&[100; 4], &[50; 4], &[100; 4]], None)).unwrap();
    assert_eq!(overhead.off, Some(-50.0));
    assert!(overhead.doubts[0].contains("nothing of that is subtracted"), "{:?}", overhead.doubts);
}

/// The times of a recording from format 2 on: periods that take turns.
fn by_turns(plain: &[&[u64]], recorded: &[&[u64]]) -> Recording {
    serde_json::from_value(json!({
        "format": 2, "trace": "rank0.json.gz", "rank": 0, "ranks": 1, "iterations_are": "optimizer steps", "kineto": true,
        "plain": plain, "recorded": recorded,
    }))
    .unwrap()
}

/// By hand: plain iterations take 100, 110, 120 and 130, as where others come to use the machine, and between them recorded ones 10 more
/// than their neighbours' means, so that the change of speed is no part of what recording takes. Of 9, 10 and 11 the standard deviation is 1;
/// t of two degrees of freedom is 4.303; the mean's is the root of 4/3 of that over the root of 3.
#[test]
fn a_change_of_speed_cancels_where_periods_take_turns() {
    let plain: [&[u64]; 4] = [&[100], &[110; 2], &[120; 2], &[130]];
    let overhead = RecordingOverhead::from_recording(&by_turns(&plain, &[&[115; 2], &[125; 2], &[135; 2]])).unwrap();
    assert_eq!((overhead.plain, overhead.added, overhead.interval), (115.0, 10.0, [10.0; 2]));
    assert!(overhead.doubts.is_empty(), "{overhead:?}");
    let overhead = RecordingOverhead::from_recording(&by_turns(&plain, &[&[114; 2], &[125; 2], &[136; 2]])).unwrap();
    let half = 4.303 * (4.0_f64 / 9.0).sqrt();
    assert!((overhead.interval[0] - (10.0 - half)).abs() < 1e-3 && overhead.added == 10.0, "{overhead:?}");
}

/// By hand: without those of 1,000 and 5,000, in which something else ran, plain iterations take 100 and recorded ones 120. With them it were
/// 1,320 - 250, or where the neighbour came first, less than nothing.
#[test]
fn iterations_that_something_else_ran_in_tell_nothing_of_recording() {
    let plain: [&[u64]; 3] = [&[100; 3], &[100, 1000, 100, 100, 100, 100], &[100; 3]];
    let overhead = RecordingOverhead::from_recording(&by_turns(&plain, &[&[120; 4], &[120, 120, 5000, 120]])).unwrap();
    assert_eq!((overhead.plain, overhead.recorded, overhead.added), (100.0, 120.0, 20.0));
    assert_eq!(overhead.ordinary, [true, true, true, true, true, true, false, true]);
    assert!(
        overhead.doubts[0].starts_with("2 of 20 iterations took much longer than the others"),
        "{:?}",
        overhead.doubts
    );
}

/// By hand: iterations of 1 ms that got no page of memory in one period, and 100 in another: at 0.7 us each that are 7 %. Ten pages are
/// nothing to speak of.
#[test]
fn memory_that_comes_anew_in_some_periods_is_told() {
    for (pages, reported) in [(100, true), (10, false)] {
        let mut recording = by_turns(&[&[1_000_000; 2], &[1_000_000; 2]], &[&[1_100_000; 4]]);
        recording.faults = Some(by_turns(&[&[0; 2], &[pages; 2]], &[&[0; 4]]).wall);
        let overhead = RecordingOverhead::from_recording(&recording).unwrap();
        let says = |doubt: &String| doubt.contains("get 0 to 100 pages") && doubt.contains("some 7 % of an iteration");
        assert_eq!(overhead.doubts.iter().any(says), reported, "{:?}", overhead.doubts);
    }
}

/// By hand: from the last period but one on the machine is 1.3 times slower, a quarter of all. That is no reason to leave it out: with it,
/// recorded iterations take 20, 20 and 156 - (100 + 130) / 2 = 41 more than those around them.
#[test]
fn a_step_of_the_machines_speed_throws_nothing_out() {
    let (fast, slow): (&[u64], &[u64]) = (&[100, 101, 99, 100], &[130, 131, 129, 130]);
    let (recorded, recorded_slow): (&[u64], &[u64]) = (&[120, 121, 119, 120], &[156, 157, 155, 156]);
    let overhead =
        RecordingOverhead::from_recording(&by_turns(&[fast, fast, fast, slow], &[recorded, recorded, recorded_slow]))
            .unwrap();
    assert_eq!(overhead.ordinary, [true; 12]);
    assert!((overhead.added - 27.0).abs() < 1e-9, "{overhead:?}");
    assert!(!overhead.doubts.iter().any(|doubt| doubt.contains("much longer")), "{:?}", overhead.doubts);
}

/// By hand: a neighbour takes part of single iterations, in periods of few as of many, and for once of all of a plain and of a recorded
/// period. Recording takes 20 without all that.
#[test]
fn bursts_of_a_neighbour_tell_nothing_of_recording() {
    let plain: [&[u64]; 7] =
        [&[100, 1400], &[101, 99, 100, 180], &[100; 4], &[310; 4], &[100, 130, 140, 100], &[100; 4], &[100; 2]];
    let recorded: [&[u64]; 6] =
        [&[120; 4], &[120, 900, 121, 119], &[120; 4], &[300; 4], &[120; 4], &[170, 120, 120, 120]];
    let overhead = RecordingOverhead::from_recording(&by_turns(&plain, &recorded)).unwrap();
    let others: Vec<usize> = (0..24).filter(|at| !overhead.ordinary[*at]).collect();
    assert_eq!(others, [5, 12, 13, 14, 15, 20]);
    assert_eq!((overhead.plain, overhead.recorded, overhead.added), (100.0, 120.0, 20.0));
    assert!(overhead.doubts[0].starts_with("14 of 48 iterations took much longer"), "{:?}", overhead.doubts);
}

/// Files of both formats are read, and no others.
#[test]
fn recordings_of_both_formats_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rank0.recording.json");
    let read = |format: u32, times: Value| {
        let mut known = json!({ "format": format, "trace": "rank0.json.gz", "rank": 0, "iterations_are": "optimizer steps", "kineto": true });
        known.as_object_mut().unwrap().extend(times.as_object().unwrap().clone());
        std::fs::write(&file, known.to_string()).unwrap();
        Recording::read(&file)
    };
    let first = read(1, json!({ "plain_before": [1], "recorded": [2, 3], "plain_after": [4] })).unwrap();
    let second = read(2, json!({ "plain": [[1], [4]], "recorded": [[2, 3]] })).unwrap();
    assert_eq!(first.wall, second.wall);
    assert_eq!(first.ranks, 1);
    let error = read(3, json!({ "plain": [[1]], "recorded": [[2]] })).unwrap_err().to_string();
    assert!(error.contains("has format 3"), "{error}");
}

/// Times that were measured while other programs ran: 1.69 ms without recording, 3.79 ms with, of processor time 1.66 and 2.09 ms. By hand: of
/// 1.66 those are 0.43 more, or 25.9 %, as the warning says; others stretch what recording takes as they stretch the rest, so that of 3.79 ms
/// on the wall it takes 0.43 / 2.09.
#[test]
fn what_other_programs_take_is_not_recordings() {
    let (plain, recorded) = ([1_690_000; 5], [3_790_000; 5]);
    let (plain_works, recorded_works) = ([1_660_000; 5], [2_090_000; 5]);
    let recording = recording([&plain, &recorded, &plain], Some([&plain_works, &recorded_works, &plain_works]));
    let overhead = RecordingOverhead::from_recording(&recording).unwrap();
    assert_eq!((overhead.added, overhead.clock), (430_000.0, OverheadClock::Processor));
    assert!((overhead.percent(overhead.added) - 43.0 / 1.66).abs() < 1e-9, "{overhead:?}");
    assert!((overhead.subtracted() - 3_790_000.0 * 0.43 / 2.09).abs() < 1e-3, "{overhead:?}");
    // What others took of the script stays in the corrected iteration, 3.79 * 1.66 / 2.09 = 3.01 ms, which is 1.78 times the plain one.
    assert!((overhead.off.unwrap() - 100.0 * (3.79 * 1.66 / 2.09 / 1.69 - 1.0)).abs() < 1e-6);
    assert!(
        overhead.doubts[0].contains("take +2.100 ms by the wall clock and +0.430 ms by processor time"),
        "{overhead:?}"
    );
}

/// Medians of a script that has one thread, and less of a processor than all of it for what others take: by hand, 1 ms of 3.5 is 29 %, and 0.078
/// of 1.386 are 6 %. Either may be what recording takes, and all between.
#[test]
fn a_wall_that_tells_more_than_the_processor_does_is_told_and_makes_it_less_sure() {
    let known = recording(
        [&[3_500_000; 5], &[4_500_000; 5], &[3_500_000; 5]],
        Some([&[1_386_000; 5], &[1_464_000; 5], &[1_386_000; 5]]),
    );
    let overhead = RecordingOverhead::from_recording(&known).unwrap();
    assert_eq!((overhead.clock, overhead.added, overhead.interval), (OverheadClock::Wall, 1e6, [78_000.0, 1e6]));
    let known = "take +1.000 ms by the wall clock and +0.078 ms by processor time";
    assert!(overhead.doubts.iter().any(|doubt| doubt.contains(known)), "{overhead:?}");
}

/// By hand, in us: plain periods take 100, 140, 100 and 150, which is 122.5; recorded ones between them 20 and 20 less, and 5 more. With a
/// standard deviation of 14.43 and t of two degrees of freedom, 4.303, recording takes 29.7 at most, and nothing at least, so that the
/// corrected iteration of 110 once lay between 80.3 and 110, where the script was measured to take 122.5. Four periods of a standard deviation
/// of 26.30 are 41.84 either way, by t of three degrees of freedom, 3.182.
#[test]
fn the_corrected_mean_may_be_what_was_measured_without_recording() {
    let plain: [&[u64]; 4] = [&[100_000; 4], &[140_000; 4], &[100_000; 4], &[150_000; 4]];
    let recorded: [&[u64]; 3] = [&[100_000; 4], &[100_000; 4], &[130_000; 4]];
    let durations: Vec<i64> = recorded.concat().iter().map(|time| *time as i64 / 1000).collect();
    let rank = corrected(&of_microseconds(&durations), Some(&by_turns(&plain, &recorded)));
    let without = rank.without_recording().unwrap();
    let [low, high] = without.interval.unwrap();
    assert_eq!(without.mean, 110_000.0);
    // Recording may cost nothing, so that the end of the recorded ones' own interval counts, which lies behind that.
    let recorded = rank.summary(|one| Some(one.sets.total() as f64)).unwrap().interval.unwrap()[1];
    assert!(recorded > 164_340.0, "{recorded}");
    assert!((low - 80_270.0).abs() < 20.0 && (high - recorded).abs() < 1.0, "{without:?}");
    let run = Breakdown { ranks: vec![rank], waits: None, warnings: Vec::new() };
    assert_eq!(run.without_recording().unwrap().interval, Some([low, high]));
}

/// A script that waits, or that works in several threads, is measured by the wall clock.
#[test]
fn processor_time_counts_where_one_processor_is_kept_busy() {
    for processor in [40, 180] {
        let [plain, recorded] = [processor; 2].map(|time| [time; 5]);
        let known = recording([&[100; 5], &[120; 5], &[100; 5]], Some([&plain, &recorded, &plain]));
        assert_eq!(RecordingOverhead::from_recording(&known).unwrap().clock, OverheadClock::Wall);
    }
    // Where recorded iterations took none, nobody read it.
    let known = recording([&[100; 5], &[120; 5], &[100; 5]], Some([&[100; 5], &[0; 5], &[100; 5]]));
    let overhead = RecordingOverhead::from_recording(&known).unwrap();
    assert_eq!((overhead.clock, overhead.subtracted(), overhead.interval), (OverheadClock::Wall, 20.0, [20.0; 2]));
}

/// A run of ten iterations of about so many microseconds by the clock on the wall, of which the script sleeps some at the end, and of about
/// so many of processor time.
fn run(wall: i64, sleeps: i64, processor: u64) -> Breakdown {
    let durations: Vec<i64> = (0..10).map(|at| wall + at % 2).collect();
    let times = |middle: u64| (0..10).map(|at| 1000 * (middle + at % 2)).collect::<Vec<u64>>();
    let (on_wall, on_processor) = (times(wall as u64), times(processor));
    let known = recording([&on_wall; 3], Some([&on_processor; 3]));
    let mut trace = of_microseconds(&durations);
    let mut end = 0;
    for duration in durations.into_iter().filter(|_| sleeps > 0) {
        end += duration * 1000;
        trace.main(("python_function", "<built-in function sleep>"), [end - sleeps * 1000, end]);
    }
    Breakdown { ranks: vec![corrected(&trace, Some(&known))], waits: None, warnings: Vec::new() }
}

/// By hand: 8 of 80 iterations take 1,000 us instead of 100, none of the recorded ones: 90 us more on the mean of all. Garwood's limits for eight are 3.454 and
/// 15.76, so that these are 38.9 to 177.3. Where none was seen, 3.689 are possible, 41.5 us. So the change is 90 less the root of 51.1 and 41.5
/// squared, 24.1, to 177.3. What is recorded does not differ. Where the thread had no processor for 30 us of a mean iteration more, which other programs had, it
/// may be 30 us less.
#[test]
fn long_iterations_that_one_side_has_are_a_change() {
    let delayed = |long: u64, delay: u64| {
        let plain: Vec<u64> = (0..10).map(|at| if at == 4 || at == 8 { long } else { 100_000 }).collect();
        let mut known = by_turns(&[plain.as_slice(); 4], &[[100_000; 10].as_slice(); 4]);
        known.delayed = Some(by_turns(&[[delay; 10].as_slice(); 4], &[[0; 10].as_slice(); 4]).wall);
        Breakdown { ranks: vec![corrected(&iterations(40), Some(&known))], waits: None, warnings: Vec::new() }
    };
    let of = |long| delayed(long, 0);
    let (usual, saves) = (of(100_000), of(1_000_000));
    let all = Comparison::compare(&[&usual], &[&saves]).mean_of_all.unwrap();
    assert!((all.before.mean - 100_000.0).abs() < 1.0 && (all.after.mean - 190_000.0).abs() < 1.0, "{all:?}");
    let [low, high] = all.interval.unwrap();
    assert!((low - 24_100.0).abs() < 100.0 && (high - 177_300.0).abs() < 100.0, "{all:?}");
    assert_eq!(all.long.map(|long| long.map(|long| long.longest.count)), [None, Some(8)]);
    assert_eq!(
        DifferenceVerdict::of_interval(Comparison::compare(&[&saves], &[&usual]).mean_of_all.unwrap().interval),
        DifferenceVerdict::Less
    );
    assert_eq!(Comparison::compare(&[&usual], &[&of(100_000)]).mean_of_all, None);
    let held_up = Comparison::compare(&[&usual], &[&delayed(1_000_000, 30_000)]).mean_of_all.unwrap().interval.unwrap();
    assert_eq!(held_up, [low - 30_000.0, high]);
}

/// By hand: iterations of 100 us take 200 with other programs, with the same 99 us of processor time. Where the processor has twice as much to do,
/// or the script sleeps, others are not to blame; where its processor time is unknown, nobody knows.
#[test]
fn longer_iterations_with_no_more_for_the_processor_to_do_are_told_from_a_slower_script() {
    let compared = |before: &Breakdown, after: &Breakdown| Comparison::compare(&[before], &[after]);
    let (alone, beside_others) = (run(100, 0, 99), run(200, 0, 99));
    let comparison = compared(&alone, &beside_others);
    assert_eq!(comparison.busier_side(), Some(BusierSide::After));
    assert_eq!(
        comparison.get(ComparedMeasure::Processor).map(|one| (one.change, one.verdict())),
        Some((0.0, DifferenceVerdict::Noise))
    );
    assert_eq!(compared(&beside_others, &alone).busier_side(), Some(BusierSide::Before));
    for slower in [run(200, 0, 198), run(200, 0, 160), run(200, 100, 99), run(100, 0, 99)] {
        assert_eq!(compared(&alone, &slower).busier_side(), None);
    }
    let mut untold = beside_others;
    untold.ranks[0].correction.processor.clear();
    assert_eq!(compared(&alone, &untold).busier_side(), None);
}

/// By hand: three recordings of 10 ms and three of 12, each with a standard deviation of 0.7: that of the difference is 0.5715, and Student's t
/// of four degrees of freedom 2.776. Among ten numbers tested together 5.598 would have hidden it.
#[test]
fn whether_an_iteration_takes_longer_is_tested_by_itself() {
    let side = |walls: [i64; 3]| walls.map(|wall| run(wall, 0, 99));
    let (before, after) = (side([9_300, 10_000, 10_700]), side([11_300, 12_000, 12_700]));
    let comparison = Comparison::compare(&before.each_ref(), &after.each_ref());
    let total = comparison.get(ComparedMeasure::Metric(Metric::TotalTimeSec)).unwrap();
    let half = 2.776 * 0.5715e-3;
    let [low, high] = total.interval.unwrap();
    assert!((low - (2e-3 - half)).abs() < 1e-6 && (high - (2e-3 + half)).abs() < 1e-6, "{total:?}");
    assert_eq!(total.verdict(), DifferenceVerdict::More);
}

/// By hand: of six ranges of a name three lie in iterations that were recorded, one of them in two that follow each other; in one the profiler stops,
/// and two lie where it had just stopped or started. Next to traces of other recorders there is no such file.
#[test]
fn ranges_where_the_profiler_starts_and_stops_are_left_out() {
    let mut trace = Invented::default();
    for (at, [begin, end]) in [[0, 100], [100, 200], [1000, 1100]].into_iter().enumerate() {
        trace.main(("user_annotation", &format!("ProfilerStep#{at}")), [begin * 1000, end * 1000]);
    }
    for [begin, end] in [[10, 20], [95, 105], [190, 260], [300, 350], [900, 950], [1010, 1020]] {
        trace.main(("user_annotation", "mine"), [begin * 1000, end * 1000]);
    }
    let folder = tempfile::tempdir().unwrap();
    let mut ranked = trace.read(0);
    ranked.trace.file = folder.path().join("rank0.json.gz");
    let options = BreakdownOptions { iteration: Some("mine".to_owned()) };
    let broken_down = || Breakdown::from_traces(std::slice::from_ref(&ranked), &options).unwrap().ranks.remove(0);
    assert_eq!(broken_down().iterations.len(), 6);
    std::fs::write(folder.path().join("rank0.recording.json"), "{}").unwrap();
    let rank = broken_down();
    let totals: Vec<i64> = rank.iterations.iter().map(|one| one.sets.total()).collect();
    assert_eq!(totals, [10_000; 3]);
    let known = "3 iterations lie outside of the recorded ones or across the end of them";
    assert!(
        rank.all_warnings().any(|warning| warning.starts_with(known)),
        "{:?}",
        rank.all_warnings().collect::<Vec<_>>()
    );
}

/// People know functions by their own names; a trace has `train.py(1): step`. Which of two of one name is meant, nobody can say.
#[test]
fn a_function_is_found_by_its_own_name() {
    let found = |others: &[&str]| {
        let mut trace = Invented::default();
        for name in ["train.py(1): step"].iter().chain(others) {
            trace.main(("python_function", name), [0, 5_000]).main(("python_function", name), [10_000, 15_000]);
        }
        let options = BreakdownOptions { iteration: Some("step".to_owned()) };
        Breakdown::from_traces(&[trace.read(0)], &options).map(|found| found.ranks[0].iterations.len()).ok()
    };
    assert_eq!([found(&[]), found(&["other.py(1): stepped"]), found(&["other.py(1): step"])], [Some(2), Some(2), None]);
}

proptest! {
    /// However much is taken out, no set is below nothing, they add up, operations add up to them, and the GPU is as busy as before.
    #[test]
    fn corrected_sets_add_up(
        events in prop::collection::vec((0..4usize, 0..900i64, 1..300i64), 1..40),
        plain in 1..1000u64,
        recorded in 900..1100u64,
    ) {
        let mut trace = Invented::default();
        for begin in [0, 10_000] {
            trace.main(("user_annotation", &format!("ProfilerStep#{}", begin / 10_000)), [begin, begin + 1000]);
            for &(kind, start, duration) in &events {
                let event = [("python_function", "train.py(1): f"), ("cpu_op", "aten::mm"), ("cuda_runtime", "cudaStreamSynchronize"), ("user_annotation", "mine")][kind];
                let start = begin + start;
                trace.main(event, [start, start + duration]).kernel("gemm", [start + 50, start + 100]);
            }
        }
        let known = recording([&[plain; 3], &[recorded; 2], &[plain; 3]], None);
        let rank = corrected(&trace, Some(&known));
        let iteration = &rank.iterations[0];
        if let Some((total, divided)) = rank.corrected(iteration).and_then(|one| Some((one.total, one.divided.as_ref()?))) {
            let sets = &divided.sets;
            prop_assert_eq!(total, sets.total());
            prop_assert!(sets.parts().all(|(_, _, time)| time >= 0) && sets.synchronising >= 0);
            prop_assert_eq!(sets.gpu_busy(), iteration.sets.gpu_busy());
            let window = iteration.sets.total();
            let idle = window - sets.gpu_busy();
            // One that is not long enough is left with what the GPU is busy, and one that was recorded faster than plain ones as it was timed.
            let taken = (window - plain.min(recorded) as i64).max(0);
            prop_assert_eq!(sets.total(), window - idle.min(taken));
            let sum = |operations: &std::collections::BTreeMap<TrainingOperation, perf4sight_breakdown::TimeSets>| -> i64 {
                operations.values().map(perf4sight_breakdown::TimeSets::total).sum()
            };
            prop_assert_eq!(sum(&divided.operations), sets.total());
        }
    }
}

/// By hand: iterations take 20 ms up to the third plain period and 60 ms from the third recorded one on; recording costs nothing. The mean is neither, so that
/// its interval has to hold both.
#[test]
fn iterations_that_grew_at_once_have_an_interval_with_both_levels() {
    let plain: Vec<Vec<u64>> = [2, 4, 4, 4, 4, 2]
        .into_iter()
        .enumerate()
        .map(|(at, count)| vec![[20, 60][usize::from(at > 2)] * 1_000_000; count])
        .collect();
    let recorded: Vec<Vec<u64>> = (0..5).map(|at| vec![[20, 60][usize::from(at > 1)] * 1_000_000; 4]).collect();
    let mut recording = recording([&[1], &[1], &[1]], None);
    let durations: Vec<i64> = recorded.concat().iter().map(|time| time.cast_signed() / 1000).collect();
    (recording.wall.plain, recording.wall.recorded) = (plain, recorded);
    let rank = corrected(&of_microseconds(&durations), Some(&recording));
    let changed = rank.correction.overhead.as_ref().unwrap().changed.unwrap();
    assert!(changed.at_once, "{changed:?}");
    assert!((changed.first - 20e6).abs() < 1.0 && (changed.last - 60e6).abs() < 1.0, "{changed:?}");
    assert_eq!(changed.sentence(), "iterations grew from 20.0 ms to 60.0 ms, at once, while they were recorded");
    for without in [rank.without_recording().unwrap(), rank.mean_of_all().unwrap()] {
        let [low, high] = without.interval.unwrap();
        assert!(low <= 20.0e6 + 1.0 && high >= 60.0e6 - 1.0, "{without:?}");
    }
}
