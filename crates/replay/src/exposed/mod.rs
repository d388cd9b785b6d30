//! Exposed and hidden communication: of each rank, group and kind, how much goes on while the rank computes.

use crate::collectives::{CollectiveCall, CollectiveOperation, RankExchanges};
use crate::ranks::{JobRank, TrainingJob};
use crate::waiting::{JobWaiting, TimedExchange, blocked_times};
use perf4sight_traces::intervals::{Interval, partition, pieces, union};
use perf4sight_traces::{EventCategory, TraceEvent, TrackId};
use std::collections::{BTreeMap, HashMap};

/// The communication of a rank; per step, on average over [`TrainingJob::steps`].
#[derive(Debug, Clone, PartialEq)]
pub struct RankCommunication {
    /// All of it; what goes on at the same time counts once.
    pub all: CommunicationTimes,
    /// Each kind in each group by itself.
    pub kinds: Vec<ExposedCommunication>,
}

/// The communication of one kind in one group.
#[derive(Debug, Clone, PartialEq)]
pub struct ExposedCommunication {
    /// The name of the process group; empty if the trace does not contain it.
    pub group: String,
    /// The kind.
    pub operation: CollectiveOperation,
    /// The number of exchanges.
    pub count: f64,
    /// Whether the parts of all ranks are known, without which waiting is not.
    pub known: bool,
    /// Its times.
    pub times: CommunicationTimes,
}

/// How long communication goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CommunicationTimes {
    /// Milliseconds while any of them goes on and the rank computes nothing.
    pub exposed: f64,
    /// Milliseconds while any of them goes on and the rank computes, too.
    pub hidden: f64,
    /// Milliseconds of the exposed time in which the rank waits until all ranks are there, as far as the parts of other
    /// ranks are known.
    pub waiting: f64,
}

/// The communication of each rank, in the order of [`TrainingJob::ranks`].
pub fn exposed_communication(
    job: &TrainingJob,
    exchanges: &RankExchanges,
    waiting: &JobWaiting,
) -> Vec<RankCommunication> {
    (0..job.ranks.len()).map(|rank| of_rank(job, exchanges, waiting, rank)).collect()
}

/// Exchanges: when they go on, and when the rank waits in them.
#[derive(Default)]
struct ExchangeTimes {
    count: usize,
    times: Vec<Interval>,
    waits: Vec<Interval>,
    unknown: bool,
}

impl ExchangeTimes {
    fn add(&mut self, (begin, end): Interval, waits: Option<&i64>) {
        self.count += 1;
        self.times.push((begin, end));
        match waits {
            Some(waits) => self.waits.push((begin, begin.saturating_add(*waits))),
            None => self.unknown = true,
        }
    }

    /// Their times per step, of which the rank computes in some.
    fn times(self, computes: &[Interval], steps: f64) -> CommunicationTimes {
        let (times, waits) = (union(self.times), union(self.waits));
        let window = times.first().zip(times.last()).map_or((0, 0), |(first, last)| (first.0, last.1));
        let parts = partition(window, &[&times, computes, &waits]);
        let sum = |wanted: &dyn Fn(u32) -> bool| {
            parts.iter().filter(|(sets, _)| wanted(**sets)).map(|(_, time)| *time).sum::<i64>() as f64 / 1e6 / steps
        };
        CommunicationTimes {
            exposed: sum(&|sets| sets & 0b011 == 0b001),
            hidden: sum(&|sets| sets & 0b011 == 0b011),
            waiting: sum(&|sets| sets & 0b111 == 0b101),
        }
    }
}

fn of_rank(job: &TrainingJob, exchanges: &RankExchanges, waiting: &JobWaiting, rank: usize) -> RankCommunication {
    let own = &job.ranks[rank];
    let computes = computing(own, &exchanges.calls[rank]);
    let waits = wait_times(exchanges, waiting, rank);
    let (mut all, mut kinds) =
        (ExchangeTimes::default(), BTreeMap::<(String, CollectiveOperation), ExchangeTimes>::new());
    for (index, call) in exchanges.calls[rank].iter().enumerate().filter(|(_, call)| is_counted(job, rank, call)) {
        let kind = kinds.entry((call.arguments.group.clone(), call.operation)).or_default();
        [&mut all, kind].into_iter().for_each(|calls| calls.add(call.time, waits.get(&index)));
    }
    let steps = job.steps.len() as f64;
    let exposed = |((group, operation), kind): ((String, CollectiveOperation), ExchangeTimes)| {
        let count = kind.count as f64 / steps;
        ExposedCommunication { group, operation, count, known: !kind.unknown, times: kind.times(&computes, steps) }
    };
    RankCommunication { all: all.times(&computes, steps), kinds: kinds.into_iter().map(exposed).collect() }
}

/// Whether a call is in a step that all ranks have.
fn is_counted(job: &TrainingJob, rank: usize, call: &CollectiveCall) -> bool {
    call.step.is_some_and(|step| job.steps.iter().any(|one| one.of[rank] == step))
}

/// Nanoseconds that a rank waits in its calls, by their index.
fn wait_times(exchanges: &RankExchanges, waiting: &JobWaiting, rank: usize) -> HashMap<usize, i64> {
    let wait = |timed: &TimedExchange| {
        let part = exchanges.all[timed.exchange].parts.iter().find(|part| part.rank == rank)?;
        Some((part.call, timed.waiting(rank)?))
    };
    waiting.exchanges.iter().filter_map(wait).collect()
}

/// When a rank computes: kernels of its GPU, or where it has none, operators that are no exchanges and do not wait for one.
fn computing(rank: &JobRank, calls: &[CollectiveCall]) -> Vec<Interval> {
    let trace = &rank.trace;
    let time = |event: &TraceEvent| (event.start, event.end());
    let kernels =
        union(trace.events.iter().filter(|event| event.category.on_device() && !trace.is_exchange(event)).map(time));
    if !kernels.is_empty() {
        return kernels;
    }
    let computes = |event: &&TraceEvent| event.category == EventCategory::Operator && trace.collective(event).is_none();
    let mut threads: BTreeMap<TrackId, Vec<Interval>> = BTreeMap::new();
    for event in trace.events.iter().filter(computes) {
        threads.entry(event.track).or_default().push(time(event));
    }
    let waits = blocked_times(rank, calls);
    let works = |(track, times): (TrackId, Vec<Interval>)| without(&union(times), waits.get(&track));
    union(threads.into_iter().flat_map(works))
}

/// What of a union is not in another one.
fn without(times: &[Interval], others: Option<&Vec<Interval>>) -> Vec<Interval> {
    let others = others.map(Vec::as_slice).unwrap_or_default();
    let gaps = |time: &Interval| pieces(others, *time).filter(|(_, other)| other.is_none()).map(|(time, _)| time);
    times.iter().flat_map(gaps).collect()
}
