//! Writes `breakdown.json`, whose fields `docs/breakdown.md` explains.

use super::run::TracedRun;
use super::tables::RankScope;
use super::{BreakdownResults, differences, headline};
use crate::{
    BusierSide, ComparedMeasure, CorrectedIteration, DifferenceVerdict, GpuWork, IdleCause, Iteration,
    IterationMarkers, MeanOfAll, MeasureDifference, Metric, RankBreakdown, RecordedKinds, TimeCategory, TimeSets,
    TrainingOperation,
};
use perf4sight_base::summary::ValueSummary;
use perf4sight_record::{LongIterations, OverheadClock, RecordingOverhead, WithoutRecording};
use perf4sight_traces::{RankTrace, Trace};
use serde_json::{Map, Value, json};
use std::cmp::Reverse;

pub(super) const FORMAT: u32 = 1;
/// The number of listed iterations, over all ranks: each takes kilobytes.
const LISTED: usize = 5000;
/// The number of listed streams of an iteration, the busiest first; each takes two kilobytes of memory.
const STREAMS: usize = 16;

pub(super) fn to_json(shown: &BreakdownResults) -> Value {
    let mut document = run(&shown.run);
    document["format"] = FORMAT.into();
    document["warnings"] = shown.warnings.clone().into();
    document["headline"] = headline::headline(&shown.run).into();
    if let Some((after, comparison)) = &shown.after {
        document["after"] = run(after);
        let [before, after] = comparison.recordings;
        document["change"] = differences::answer_line(comparison).into();
        document["mean_of_all"] = comparison.mean_of_all.map(|all| mean_of_all(&all)).into();
        document["recordings"] = json!({ "before": before, "after": after });
        document["comparison"] = comparison.differences.iter().map(difference).collect();
        document["longer_but_not_of_the_processor"] = comparison.busier_side().map(busier_json).into();
    }
    document
}

fn run(run: &TracedRun) -> Value {
    json!({
        "world_size": run.breakdown.world_size(),
        "ranks": run.ranks().map(|(ranked, rank)| of_rank(ranked, rank, run.iterations_to_list(LISTED))).collect::<Value>(),
        "summary": RankScope::main(run).map(summary),
    })
}

fn of_rank(ranked: &RankTrace, rank: &RankBreakdown, listed: usize) -> Value {
    json!({
        "rank": rank.rank,
        "trace": ranked.trace.file.to_string_lossy(),
        "iterations_are": markers(&rank.markers),
        "python_recorded": rank.recorded.python,
        "gpu_recorded": rank.device.is_recorded(),
        "recorded": recorded_json(rank.recorded),
        "gpus": ranked.trace.header.devices,
        "warm_up": rank.warm_up.iterations,
        "recording": rank.correction.overhead.as_ref().map(overhead),
        "iterations_listed": rank.iterations.len().min(listed),
        "iterations": rank.iterations.iter().take(listed).map(|one| iteration(rank, one, &ranked.trace)).collect::<Value>(),
        "summary": summary(RankScope::Rank(rank)),
        "warnings": rank.all_warnings().collect::<Vec<_>>(),
    })
}

fn recorded_json(recorded: RecordedKinds) -> Value {
    let RecordedKinds { python, cpp, cuda_api, gpu } = recorded;
    json!({ "python": python, "cpp": cpp, "cuda_api": cuda_api, "gpu": gpu })
}

fn markers(markers: &IterationMarkers) -> Value {
    match markers {
        IterationMarkers::Named(name) => json!({ "what": "named", "event": name }),
        IterationMarkers::ProfilerSteps => json!({ "what": "profiler steps" }),
        IterationMarkers::OptimizerSteps(name) => json!({ "what": "optimizer steps", "event": name }),
        IterationMarkers::Period { event, certainty } => {
            json!({ "what": "period", "event": event, "certainty": certainty })
        }
        IterationMarkers::WholeTrace => json!({ "what": "whole trace" }),
    }
}

fn iteration(rank: &RankBreakdown, one: &Iteration, trace: &Trace) -> Value {
    let operation = |(operation, part): (&TrainingOperation, &TimeSets)| json!({ "operation": operation.label(&trace.names), "sets": json_by_name(TimeCategory::ALL, of_category, |category| sets(part, category)) });
    let stream = |(track, works): &(perf4sight_traces::TrackId, i64)| {
        let track = &trace.tracks[track.index()];
        json!({ "gpu": track.process, "stream": track.thread, "busy_ns": works })
    };
    let device = &one.device;
    let mut streams: Vec<_> = device.streams.iter().collect();
    streams.sort_by_key(|(track, works)| (Reverse(*works), *track));
    let of_work =
        |work: GpuWork| json!({ "exposed_ns": device.exposed_time(work), "hidden_ns": device.hidden_time(work) });
    json!({
        "name": one.name,
        "start_ns": one.window.0,
        "end_ns": one.window.1,
        "warm_up": one.warm_up,
        "sets": json_by_name(TimeCategory::ALL, of_category, |category| sets(&one.sets, category)),
        "cuda_api_waiting_ns": one.sets.synchronising,
        "not_running_ns": rank.not_running(one),
        "held_up_ns": rank.held_up(one),
        "operations": one.operations.iter().map(operation).collect::<Value>(),
        "gpu_work": json_by_name(GpuWork::ALL, GpuWork::name, of_work),
        "gpu_streams": streams.iter().copied().take(STREAMS).map(stream).collect::<Value>(),
        "gpu_streams_left_out": streams.len().saturating_sub(STREAMS),
        "gpu_idle_ns": one.idle.map(|idle| json_by_name(IdleCause::ALL, of_cause, |cause| idle.get(cause).into())),
        "metrics": json_by_name(Metric::ALL, Metric::name, |metric| metric.compute(&one.sets).into()),
        "corrected": rank.corrected(one).and_then(CorrectedIteration::sets).map(|of| json_by_name(TimeCategory::ALL, of_category, |category| sets(of, category))),
    })
}

fn overhead(overhead: &RecordingOverhead) -> Value {
    json!({
        "plain_ns": overhead.plain,
        "recorded_ns": overhead.recorded,
        "measured_without_ns": overhead.measured.mean,
        "measured_without_interval_95": overhead.measured.interval,
        "plain_by_clock_ns": overhead.by_clock[0],
        "recorded_by_clock_ns": overhead.by_clock[1],
        "added_ns": overhead.added,
        "added_interval_95": overhead.interval,
        "clock": match overhead.clock {
            OverheadClock::Wall => "wall",
            OverheadClock::Processor => "processor",
        },
        "off_percent": overhead.off,
        "long_iterations": overhead.long.as_ref().map(long),
    })
}

fn long(long: &LongIterations) -> Value {
    json!({
        "count": long.count,
        "of": long.of,
        "mean_ns": long.mean,
        "others_mean_ns": long.others,
        "percent": 100.0 * long.share(),
        "longest": {
            "count": long.longest.count,
            "recorded": long.longest.recorded[0],
            "mean_ns": long.longest.mean,
            "percent": 100.0 * long.longest.share,
        },
    })
}

/// Nanoseconds of a category; null if the trace lacks it.
fn sets(sets: &TimeSets, category: TimeCategory) -> Value {
    let both = sets.get(category, false).zip(sets.get(category, true));
    both.map(|(idle, busy)| json!({ "gpu_idle_ns": idle, "gpu_busy_ns": busy })).into()
}

fn summary(whose: RankScope) -> Value {
    let number = |number: &dyn Fn(&Iteration) -> Option<f64>| whose.summary(number).map(summary_json);
    let set = |category: TimeCategory, busy: bool| number(&|one| Some(one.sets.get(category, busy)? as f64));
    let both =
        |category| set(category, false).map(|idle| json!({ "gpu_idle_ns": idle, "gpu_busy_ns": set(category, true) }));
    let of_work = |work: GpuWork| {
        json!({
            "exposed_ns": number(&|one| Some(one.device.exposed_time(work) as f64)),
            "hidden_ns": number(&|one| Some(one.device.hidden_time(work) as f64)),
        })
    };
    // If only the total could be corrected, the other numbers are missing.
    let corrected = |number: &dyn Fn(&CorrectedIteration) -> Option<f64>| {
        whose.summary_of(|rank, one| number(rank.corrected(one)?)).map(summary_json)
    };
    let without = |metric: Metric| match metric == Metric::TotalTimeSec {
        true => corrected(&|one| Some(one.total as f64 / 1e9)),
        false => corrected(&|one| metric.compute(one.sets()?)),
    };
    json!({
        "iterations": whose.count(),
        "total_ns": number(&|one| Some(one.sets.total() as f64)),
        "not_running_ns": whose.summary_of(|rank, one| Some(rank.not_running(one)? as f64)).map(summary_json),
        "held_up_ns": whose.summary_of(|rank, one| Some(rank.held_up(one)? as f64)).map(summary_json),
        "sets": json_by_name(TimeCategory::ALL, of_category, |category| both(category).into()),
        "gpu_work": json_by_name(GpuWork::ALL, GpuWork::name, of_work),
        "gpu_idle_ns": json_by_name(IdleCause::ALL, of_cause, |cause| number(&|one| Some(one.idle?.get(cause)? as f64)).into()),
        "metrics": json_by_name(Metric::ALL, Metric::name, |metric| number(&|one| metric.compute(&one.sets)).into()),
        "without_recording": whose.without_recording().map(|one| json!({
            "mean_ns": whose.correction_holds().then_some(one.mean),
            "interval_95": one.interval,
        })),
        "corrected_metrics": corrected(&|one| Some(one.total as f64)).map(|_| json_by_name(Metric::ALL, Metric::name, |metric| without(metric).into())),
    })
}

fn summary_json(summary: ValueSummary) -> Value {
    json!({
        "mean": summary.mean,
        "median": summary.median,
        "standard_deviation": summary.spread,
        "interval_95": summary.interval,
    })
}

fn mean_of_all(all: &MeanOfAll) -> Value {
    let side = |side: WithoutRecording| json!({ "mean_ns": side.mean, "interval_95": side.interval });
    json!({
        "before": side(all.before),
        "after": side(all.after),
        "interval": all.interval,
        "verdict": verdict(DifferenceVerdict::of_interval(all.interval)),
    })
}

fn verdict(verdict: DifferenceVerdict) -> &'static str {
    match verdict {
        DifferenceVerdict::Less => "less",
        DifferenceVerdict::More => "more",
        DifferenceVerdict::Noise => "no difference that could be told from noise",
    }
}

fn busier_json(busier: BusierSide) -> &'static str {
    match busier {
        BusierSide::Before => "before",
        BusierSide::After => "after",
    }
}

fn difference(difference: &MeasureDifference) -> Value {
    let (what, unit) = match difference.of {
        ComparedMeasure::Set { category, gpu_busy } => {
            (json!({ "class": of_category(category), "gpu": if gpu_busy { "busy" } else { "idle" } }), "ns")
        }
        ComparedMeasure::Processor => (json!({ "processor": "all threads" }), "ns"),
        ComparedMeasure::Metric(metric) => (json!({ "metric": metric.name() }), metric.unit().name()),
    };
    json!({
        "of": what,
        "unit": unit,
        "before": summary_json(difference.before),
        "after": summary_json(difference.after),
        "change": difference.change,
        "change_percent": difference.percent(),
        "interval": difference.interval,
        "verdict": verdict(difference.verdict()),
    })
}

fn json_by_name<T: Copy>(
    all: impl IntoIterator<Item = T>,
    key: fn(T) -> &'static str,
    value: impl Fn(T) -> Value,
) -> Value {
    all.into_iter().map(|one| (key(one).to_owned(), value(one))).collect::<Map<String, Value>>().into()
}

fn of_category(category: TimeCategory) -> &'static str {
    match category {
        TimeCategory::Python => "python",
        TimeCategory::Cpp => "cpp",
        TimeCategory::CudaApi => "cuda_api",
        TimeCategory::Wait => "wait",
        TimeCategory::PythonOrWait => "python_or_wait",
        TimeCategory::CppOrCudaApi => "cpp_or_cuda_api",
        TimeCategory::Unrecorded => "not_recorded",
    }
}

fn of_cause(cause: IdleCause) -> &'static str {
    match cause {
        IdleCause::Host => "host",
        IdleCause::KernelLaunch => "kernel_launch",
        IdleCause::Synchronisation => "synchronisation",
        IdleCause::AnotherRank => "another_rank",
        IdleCause::NoLaunch => "not_told",
    }
}
