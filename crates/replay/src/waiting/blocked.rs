//! When CPU threads are in an operator that only waits for an exchange to end.

use crate::collectives::CollectiveCall;
use crate::ranks::JobRank;
use perf4sight_traces::intervals::{Interval, union};
use perf4sight_traces::{EventCategory, EventPhase, Innermost, NameId, TrackId};
use std::collections::{BTreeMap, HashMap};

/// Ends of the names of operators of PyTorch that wait for an exchange: `_c10d_functional::wait_tensor`, `c10d::wait`.
const WAITS: [&str; 2] = ["::wait_tensor", "c10d::wait"];
/// Shorter operators do not show whether they wait, in nanoseconds.
const SHORTEST: i64 = 100_000;
/// An operator ends with an exchange if it ends within this share of its own length before or after it.
const CLOSE: f64 = 0.1;
/// An operator waits if this share of its calls that begin during an exchange end with one; by chance
/// only every fifth does.
const CONSISTENT: f64 = 0.8;
/// Fewer calls may end together by chance.
const FEWEST: usize = 3;

/// For each thread, when it waits for exchanges in an operator.
pub(crate) fn blocked_times(rank: &JobRank, calls: &[CollectiveCall]) -> BTreeMap<TrackId, Vec<Interval>> {
    let pieces = innermost(rank);
    let exchanges = ExchangingTimes::from_calls(calls);
    let mut counts: HashMap<NameId, [usize; 2]> = HashMap::new();
    for (time, name) in pieces.values().flatten().filter(|(time, _)| exchanges.may_block(*time)) {
        let [all, together] = counts.entry(*name).or_default();
        *all += 1;
        *together += usize::from(exchanges.end_with(*time));
    }
    let by_name = |name: &NameId| WAITS.iter().any(|end| rank.trace.names.get(*name).ends_with(end));
    let consistent = |name: &NameId| {
        let [all, together] = counts.get(name).copied().unwrap_or_default();
        all >= FEWEST && together as f64 >= CONSISTENT * all as f64
    };
    let waits = |(time, name): &(Interval, NameId)| {
        by_name(name) || consistent(name) && exchanges.may_block(*time) && exchanges.end_with(*time)
    };
    let of_thread = |(track, pieces): (TrackId, Vec<(Interval, NameId)>)| {
        (track, union(pieces.into_iter().filter(waits).map(|(time, _)| time)))
    };
    pieces.into_iter().map(of_thread).collect()
}

/// The innermost operator of each thread at each moment.
fn innermost(rank: &JobRank) -> BTreeMap<TrackId, Vec<(Interval, NameId)>> {
    let mut threads: BTreeMap<TrackId, Innermost<NameId>> = BTreeMap::new();
    let operators = rank.trace.events.iter().filter(|event| event.category == EventCategory::Operator);
    for event in operators.filter(|event| event.phase == EventPhase::Complete && event.duration > 0) {
        threads.entry(event.track).or_default().begin((event.start, event.end()), event.name);
    }
    threads.into_iter().map(|(track, nest)| (track, nest.finish().0)).collect()
}

/// When exchanges go on.
struct ExchangingTimes {
    union: Vec<Interval>,
    ends: Vec<i64>,
}

impl ExchangingTimes {
    fn from_calls(calls: &[CollectiveCall]) -> Self {
        let mut ends: Vec<i64> = calls.iter().map(|call| call.time.1).collect();
        ends.sort_unstable();
        ExchangingTimes { union: union(calls.iter().map(|call| call.time)), ends }
    }

    /// Whether a piece of time is long enough and begins while an exchange goes on.
    fn may_block(&self, (start, end): Interval) -> bool {
        let place = self.union.partition_point(|(_, stop)| *stop <= start);
        end - start >= SHORTEST && self.union.get(place).is_some_and(|(begin, _)| *begin <= start)
    }

    /// Whether an exchange ends when a piece of time does.
    fn end_with(&self, (start, end): Interval) -> bool {
        let around = (CLOSE * (end - start) as f64) as i64;
        let place = self.ends.partition_point(|stop| *stop < end.saturating_sub(around));
        self.ends.get(place).is_some_and(|stop| *stop <= end.saturating_add(around))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collectives::RankExchanges;
    use crate::ranks::TrainingJob;
    use perf4sight_base::error::Result;
    use perf4sight_traces::intervals::length;
    use perf4sight_traces::{CollectiveArguments, NewEvent, RankTrace, TraceBuilder};

    /// Four times: an exchange of 10 ms on a thread of the library; the operator around it begins after 1 ms and ends with it,
    /// the next one computes for 8 ms during another exchange of 20 ms.
    fn job(around: &str) -> Result<TrainingJob> {
        let mut builder = TraceBuilder::new("rank0.json".as_ref());
        for step in 0..4 {
            let at = step * 100_000_000;
            let exchange = |from: i64, to: i64| NewEvent {
                name: "gloo:all_reduce",
                category: EventCategory::Annotation,
                track: ["1", "9"],
                time: (at + from * 1_000_000, at + to * 1_000_000),
                collective: Some(CollectiveArguments {
                    operation: "all_reduce".to_owned(),
                    ..CollectiveArguments::default()
                }),
            };
            builder.add(exchange(0, 10));
            builder.add(exchange(20, 40));
            for (name, from, to) in [(around, 1, 10), ("aten::mm", 21, 29)] {
                let time = (at + from * 1_000_000, at + to * 1_000_000);
                builder.add(NewEvent {
                    name,
                    category: EventCategory::Operator,
                    track: ["1", "1"],
                    time,
                    collective: None,
                });
            }
        }
        TrainingJob::from_traces(vec![RankTrace { rank: 0, trace: builder.finish() }])
    }

    #[test]
    fn an_operator_that_ends_with_exchanges_waits_and_one_that_ends_before_computes() -> Result<()> {
        for around in ["RegisterPostBackwardFunctionBackward", "_c10d_functional::wait_tensor"] {
            let job = job(around)?;
            let blocked = blocked_times(&job.ranks[0], &RankExchanges::find(&job).calls[0]);
            let times: Vec<i64> = blocked.values().map(|times| length(times)).collect();
            assert_eq!(times, [4 * 9_000_000], "{around}");
        }
        Ok(())
    }
}
