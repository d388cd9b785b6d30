//! Statistics of every operation of a job: how often it runs, how long, and its share of the steps.

use crate::ranks::launches::launch_time;
use crate::ranks::{TrainingJob, TrainingStep};
use perf4sight_traces::{EventCategory, EventPhase, NameId, Trace, TraceEvent};
use std::collections::{BTreeMap, HashMap};

/// An operation, over all ranks and steps.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationStatistic {
    /// What kind of event it is.
    pub kind: StatisticKind,
    /// Its name in the traces.
    pub name: String,
    /// How often it runs in a step of a rank, on average.
    pub count: f64,
    /// Milliseconds that it takes on average.
    pub mean: f64,
    /// The standard deviation of that; none of a single run.
    pub deviation: Option<f64>,
    /// Milliseconds of it in a step of a rank, on average.
    pub total: f64,
    /// The share of a step in which it runs on any thread or stream, from 0 to 1; operations in others count in both.
    pub share: f64,
}

/// The kinds of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StatisticKind {
    /// An operator on the CPU.
    Operator,
    /// A kernel that computes.
    Kernel,
    /// An exchange with other ranks.
    Exchange,
    /// A copy or memset of an accelerator.
    Copy,
    /// A call of the accelerator's runtime.
    Runtime,
    /// A range that the script or the framework named.
    Range,
}

impl StatisticKind {
    /// All, in the order of tables.
    pub const ALL: [StatisticKind; 6] = [
        StatisticKind::Operator,
        StatisticKind::Kernel,
        StatisticKind::Exchange,
        StatisticKind::Copy,
        StatisticKind::Runtime,
        StatisticKind::Range,
    ];

    /// Its name in tables and files.
    pub fn label(self) -> &'static str {
        match self {
            StatisticKind::Operator => "operator",
            StatisticKind::Kernel => "kernel",
            StatisticKind::Exchange => "exchange",
            StatisticKind::Copy => "copy",
            StatisticKind::Runtime => "runtime",
            StatisticKind::Range => "range",
        }
    }

    /// Whether operations of this kind are calls of a thread.
    fn is_call(self) -> bool {
        match self {
            StatisticKind::Operator | StatisticKind::Runtime | StatisticKind::Range => true,
            StatisticKind::Kernel | StatisticKind::Exchange | StatisticKind::Copy => false,
        }
    }
}

/// The number, sum and sum of squared deviations of values, by Welford's recurrence.
#[derive(Default, Clone, Copy)]
struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let off = value - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (value - self.mean);
    }
}

/// The runs of an operation on one rank, in the order of their starts.
#[derive(Default, Clone, Copy)]
struct OperationRuns {
    moments: Moments,
    /// Nanoseconds in which at least one of them goes on.
    covered: i64,
    /// The end of the last one so far.
    until: i64,
}

impl OperationRuns {
    /// Adds a run; what of it is behind the end of its step covers nothing. A call that goes on there is one that the
    /// profiler was stepped in, such as the optimizer's, and what follows is the profiler's.
    fn add(&mut self, kind: StatisticKind, event: &TraceEvent, step: &TrainingStep) {
        let end = event.end().min(if kind.is_call() { step.window.1 } else { step.work.1 });
        let duration = if kind.is_call() { end.saturating_sub(event.start) } else { event.duration };
        self.moments.add(duration as f64 / 1e6);
        let first = if self.moments.count == 1 { event.start } else { self.until.max(event.start) };
        self.covered += end.saturating_sub(first).max(0);
        self.until = end.max(first);
    }
}

/// The operations of a job's common steps, by kind, the one that takes most first.
pub fn operations(job: &TrainingJob) -> Vec<OperationStatistic> {
    let mut moments: BTreeMap<(StatisticKind, String), (Moments, f64)> = BTreeMap::new();
    let mut steps = 0.0;
    for (index, rank) in job.ranks.iter().enumerate() {
        let own: Vec<&TrainingStep> = job.steps.iter().map(|step| &rank.steps[step.of[index]]).collect();
        steps += own.iter().map(|step| (step.work.1 - step.work.0) as f64 / 1e6).sum::<f64>();
        for ((kind, name), own) in of_rank(&rank.trace, &own) {
            let all = moments.entry((kind, without_number(rank.trace.names.get(name)).to_owned())).or_default();
            *all = (join_moments(all.0, own.moments), all.1 + own.covered as f64 / 1e6);
        }
    }
    let runs = (job.ranks.len() * job.steps.len()) as f64;
    let operation = |((kind, name), (moments, covered)): ((StatisticKind, String), (Moments, f64))| {
        let total = moments.mean * moments.count as f64;
        OperationStatistic {
            kind,
            name,
            count: moments.count as f64 / runs,
            mean: moments.mean,
            deviation: (moments.count > 1).then(|| (moments.squares / (moments.count - 1) as f64).sqrt()),
            total: total / runs,
            share: if steps > 0.0 { covered / steps } else { 0.0 },
        }
    };
    let mut operations: Vec<OperationStatistic> = moments.into_iter().map(operation).collect();
    operations.sort_by(|one, other| one.kind.cmp(&other.kind).then(other.total.total_cmp(&one.total)));
    operations
}

/// `ProfilerStep#` from `ProfilerStep#7`; a name without a number as it is.
fn without_number(name: &str) -> &str {
    let short = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    if short.ends_with('#') { short } else { name }
}

/// The moments of two sets of values together (Chan, Golub and LeVeque 1983).
fn join_moments(one: Moments, other: Moments) -> Moments {
    let count = one.count + other.count;
    let (share, off) = (other.count as f64 / count.max(1) as f64, other.mean - one.mean);
    let squares = one.squares + other.squares + off * off * one.count as f64 * share;
    Moments { count, mean: one.mean + off * share, squares }
}

/// The operations of a rank in some of its steps; milliseconds.
fn of_rank(trace: &Trace, steps: &[&TrainingStep]) -> HashMap<(StatisticKind, NameId), OperationRuns> {
    let mut runs: HashMap<(StatisticKind, NameId), OperationRuns> = HashMap::new();
    for (kind, event, step) in counted_events(trace, steps) {
        runs.entry((kind, event.name)).or_default().add(kind, event, step);
    }
    runs
}

/// The events of a trace that are operations, with the step in which they begin or a call launched them.
pub(crate) fn counted_events<'a>(
    trace: &'a Trace,
    steps: &'a [&'a TrainingStep],
) -> impl Iterator<Item = (StatisticKind, &'a TraceEvent, &'a TrainingStep)> {
    let launched = launch_time(trace);
    let step = move |event: &TraceEvent| {
        let moment = launched(event);
        let step = steps.partition_point(|step| step.window.0 <= moment).checked_sub(1)?;
        (event.phase == EventPhase::Complete && moment < steps[step].window.1).then_some(steps[step])
    };
    let stop = stop(trace);
    let events = trace.events.iter().enumerate().filter(move |(index, _)| Some(*index) != stop);
    events.filter_map(move |(_, event)| Some((kind(trace, event)?, event, step(event)?)))
}

/// Part of the names of calls that wait for all of a device.
const SYNCHRONIZE: &str = "DeviceSynchronize";

/// The index of the call with which the profiler itself waits for the device when it stops (`__exit__` of torch/autograd/profiler.py): the last of its
/// thread, and in no range.
fn stop(trace: &Trace) -> Option<usize> {
    let is_wait =
        |event: &TraceEvent| event.category == EventCategory::Runtime && trace.name(event).ends_with(SYNCHRONIZE);
    let (last, stop) = trace.events.iter().enumerate().rfind(|(_, event)| is_wait(event))?;
    let of_thread = |event: &&TraceEvent| event.track == stop.track && event.phase == EventPhase::Complete;
    let others = trace.events[..last].iter().chain(&trace.events[last + 1..]).filter(of_thread);
    let is_before = |event: &TraceEvent| event.start < stop.start && event.end() <= stop.start;
    others.clone().all(is_before).then_some(last)
}

/// The kind of an event; none for events that are no operations.
fn kind(trace: &Trace, event: &TraceEvent) -> Option<StatisticKind> {
    if trace.is_exchange(event) {
        return Some(StatisticKind::Exchange);
    }
    match event.category {
        EventCategory::Annotation => Some(StatisticKind::Range),
        EventCategory::Operator => Some(StatisticKind::Operator),
        EventCategory::Runtime => Some(StatisticKind::Runtime),
        EventCategory::Kernel => Some(StatisticKind::Kernel),
        EventCategory::Copy | EventCategory::Set => Some(StatisticKind::Copy),
        // Messages of a patched NCCL; what PyTorch marks on a device repeats its kernels.
        EventCategory::DeviceAnnotation if trace.name(event).starts_with("Comm.") => Some(StatisticKind::Exchange),
        EventCategory::Python
        | EventCategory::DeviceAnnotation
        | EventCategory::Synchronisation
        | EventCategory::Overhead
        | EventCategory::ForwardBackward
        | EventCategory::Launch
        | EventCategory::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a step of 100 us a product runs from 10 to 50 us on one thread and from 30 to 70 on another, and from 90 beyond the end of
    /// the step: it runs in 60 + 10 of 100 us, and takes 40 + 40 + 10 us in all. A kernel that goes on for as long takes all 30, of which 10 are in the step.
    #[test]
    fn operations_of_several_threads_share_a_step_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rank0.json");
        let event = |category: &str, name: &str, thread: u32, start: u32, duration: u32| serde_json::json!({"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": start, "dur": duration});
        let events = [
            event("user_annotation", "ProfilerStep#1", 1, 0, 100),
            event("cpu_op", "aten::mm", 1, 10, 40),
            event("cpu_op", "aten::mm", 2, 30, 40),
            event("cpu_op", "aten::mm", 1, 90, 30),
            event("kernel", "gemm", 7, 90, 30),
        ];
        std::fs::write(&file, serde_json::json!({"traceEvents": events}).to_string()).unwrap();
        let all = operations(&TrainingJob::read(&[file]).unwrap());
        for (name, share, total) in [("aten::mm", 0.7, 0.09), ("gemm", 0.1, 0.03)] {
            let one = all.iter().find(|one| one.name == name).unwrap();
            assert!((one.share - share).abs() < 1e-9 && (one.total - total).abs() < 1e-9, "{one:?}");
        }
    }

    /// A script that waits for its GPU once, and a profiler that does so when it stops, while a kernel goes on: one wait of 20 us. In a step, the last
    /// wait is of the script.
    #[test]
    fn the_stop_of_the_profiler_is_no_operation() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rank0.json");
        let event = |category: &str, name: &str, start: u32, duration: u32| serde_json::json!({"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": duration});
        let wait = |start, duration| event("cuda_runtime", "cudaDeviceSynchronize", start, duration);
        let kernel =
            serde_json::json!({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 40, "dur": 900});
        let waits = |mark: Vec<serde_json::Value>| {
            let events =
                [vec![event("cpu_op", "aten::mm", 0, 10), wait(10, 20), wait(50, 700), kernel.clone()], mark].concat();
            std::fs::write(&file, serde_json::json!({"traceEvents": events}).to_string()).unwrap();
            let all = operations(&TrainingJob::read(std::slice::from_ref(&file)).unwrap());
            all.into_iter().find(|one| one.kind == StatisticKind::Runtime).map(|one| (one.count, one.mean))
        };
        assert_eq!(waits(Vec::new()), Some((1.0, 0.02)));
        assert_eq!(waits(vec![event("user_annotation", "ProfilerStep#1", 0, 1000)]), Some((2.0, 0.36)));
    }
}
