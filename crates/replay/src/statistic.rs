//! Statistics of every operation of a job: how often it runs, how long, and its share of the steps.

use crate::ranks::Job;
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{Category, Event, NameId, Phase, Trace};
use std::collections::{BTreeMap, HashMap};

/// An operation, over all ranks and steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// What kind of event it is.
    pub kind: Kind,
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
    /// Its share of a step, from 0; nested and concurrent operations count each.
    pub share: f64,
}

/// The kinds of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
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

impl Kind {
    /// All, in the order of tables.
    pub const ALL: [Kind; 6] = [Kind::Operator, Kind::Kernel, Kind::Exchange, Kind::Copy, Kind::Runtime, Kind::Range];

    /// Its name in tables and files.
    pub fn label(self) -> &'static str {
        match self {
            Kind::Operator => "operator",
            Kind::Kernel => "kernel",
            Kind::Exchange => "exchange",
            Kind::Copy => "copy",
            Kind::Runtime => "runtime",
            Kind::Range => "range",
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

/// The operations of a job's common steps, by kind, the one that takes most first.
pub fn operations(job: &Job) -> Vec<Operation> {
    let mut moments: BTreeMap<(Kind, String), Moments> = BTreeMap::new();
    let mut steps = 0.0;
    for (index, rank) in job.ranks.iter().enumerate() {
        let windows: Vec<_> = job.steps.iter().map(|step| rank.steps[step.of[index]].window).collect();
        steps += windows.iter().map(|(begin, end)| (end - begin) as f64 / 1e6).sum::<f64>();
        for ((kind, name), own) in of_rank(&rank.trace, &windows) {
            let all = moments.entry((kind, without_number(rank.trace.names.get(name)).to_owned())).or_default();
            *all = joined(*all, own);
        }
    }
    let runs = (job.ranks.len() * job.steps.len()) as f64;
    let operation = |((kind, name), moments): ((Kind, String), Moments)| {
        let total = moments.mean * moments.count as f64;
        Operation {
            kind,
            name,
            count: moments.count as f64 / runs,
            mean: moments.mean,
            deviation: (moments.count > 1).then(|| (moments.squares / (moments.count - 1) as f64).sqrt()),
            total: total / runs,
            share: if steps > 0.0 { total / steps } else { 0.0 },
        }
    };
    let mut operations: Vec<Operation> = moments.into_iter().map(operation).collect();
    operations.sort_by(|one, other| one.kind.cmp(&other.kind).then(other.total.total_cmp(&one.total)));
    operations
}

/// `ProfilerStep#` from `ProfilerStep#7`; a name without a number as it is.
fn without_number(name: &str) -> &str {
    let short = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    if short.ends_with('#') { short } else { name }
}

/// The moments of two sets of values together (Chan, Golub and LeVeque 1983).
fn joined(one: Moments, other: Moments) -> Moments {
    let count = one.count + other.count;
    let (share, off) = (other.count as f64 / count.max(1) as f64, other.mean - one.mean);
    let squares = one.squares + other.squares + off * off * one.count as f64 * share;
    Moments { count, mean: one.mean + off * share, squares }
}

/// The operations of a rank that begin in one of its windows; milliseconds.
fn of_rank(trace: &Trace, windows: &[Interval]) -> HashMap<(Kind, NameId), Moments> {
    let mut moments: HashMap<(Kind, NameId), Moments> = HashMap::new();
    for (kind, event) in counted(trace, windows) {
        moments.entry((kind, event.name)).or_default().add(event.duration as f64 / 1e6);
    }
    moments
}

/// The events of a trace that are operations and begin in one of its windows.
pub(crate) fn counted<'a>(trace: &'a Trace, windows: &'a [Interval]) -> impl Iterator<Item = (Kind, &'a Event)> {
    let is_inside = |event: &&Event| {
        let window = windows.partition_point(|(begin, _)| *begin <= event.start).checked_sub(1);
        event.phase == Phase::Complete && window.is_some_and(|window| event.start < windows[window].1)
    };
    trace.events.iter().filter(is_inside).filter_map(|event| Some((kind(trace, event)?, event)))
}

/// The kind of an event; none for events that are no operations.
fn kind(trace: &Trace, event: &Event) -> Option<Kind> {
    if trace.is_exchange(event) {
        return Some(Kind::Exchange);
    }
    match event.category {
        Category::Annotation => Some(Kind::Range),
        Category::Operator => Some(Kind::Operator),
        Category::Runtime => Some(Kind::Runtime),
        Category::Kernel => Some(Kind::Kernel),
        Category::Copy | Category::Set => Some(Kind::Copy),
        // Messages of a patched NCCL; what PyTorch marks on a device repeats its kernels.
        Category::DeviceAnnotation if trace.name(event).starts_with("Comm.") => Some(Kind::Exchange),
        Category::Python
        | Category::DeviceAnnotation
        | Category::Synchronisation
        | Category::Overhead
        | Category::ForwardBackward
        | Category::Launch
        | Category::Other => None,
    }
}
