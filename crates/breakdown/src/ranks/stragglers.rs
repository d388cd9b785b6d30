//! Finds stragglers, the ranks that the others wait for in an exchange. The last rank of an exchange spends the least
//! time in it, and the others spend as much more as they wait. This does not depend on the ranks' clocks.

use crate::breakdown::{Breakdown, Iteration};
use crate::ranks::missing;
use crate::threads::gradient_exchange;
use perf4sight_traces::intervals::{Interval, length, union};
use perf4sight_traces::{RankTrace, TraceEvent};
use std::collections::BTreeMap;

/// Waiting is reported from this share of an iteration on.
const WORTH: f64 = 0.02;
/// The largest number of ranks in the warning.
const NAMED: usize = 3;

/// The waiting time in the exchanges of a run's iterations.
#[derive(Default)]
struct ExchangeWaits {
    /// Nanoseconds, summed over all ranks and iterations.
    all: i64,
    time: i64,
    parts: usize,
    /// Nanoseconds of waiting by the index of the last rank, summed over exchanges, which may overlap.
    last: BTreeMap<usize, i64>,
}

/// A warning about the time that ranks wait for each other and for which ranks; none if it is short or unknown.
pub(crate) fn warning(ranks: &[RankTrace], run: &Breakdown) -> Option<String> {
    // A missing rank may have been the last.
    if !missing::are_all(ranks) {
        return None;
    }
    let exchanges: Vec<Vec<&TraceEvent>> =
        ranks.iter().map(|ranked| gradient_exchange::among_all(ranked, ranks.len())).collect();
    let together = run.iterations_on_all_ranks();
    let mut waits = ExchangeWaits::default();
    together.iter().for_each(|parts| waits.add(&exchanges, parts));
    let milliseconds = |nanoseconds: i64| format!("{:.3} ms", nanoseconds as f64 / 1e6 / waits.parts as f64);
    (waits.all as f64 > WORTH * waits.time as f64).then(|| {
        format!(
            "where ranks exchange something, a rank waits {} of an iteration's {} until all are there, on average over all ranks, the last one included: {}",
            milliseconds(waits.all),
            milliseconds(waits.time),
            waits.shares(ranks)
        )
    })
}

impl ExchangeWaits {
    /// Adds one iteration, if all ranks have the same number of exchanges in it.
    fn add(&mut self, exchanges: &[Vec<&TraceEvent>], parts: &[&Iteration]) {
        let own: Vec<&[&TraceEvent]> =
            exchanges.iter().zip(parts).map(|(events, part)| beginning_in(events, part.window)).collect();
        if own.iter().any(|events| events.len() != own[0].len()) {
            return;
        }
        let mut waiting: Vec<Vec<Interval>> = vec![Vec::new(); own.len()];
        for at in 0..own[0].len() {
            let Some(last) = (0..own.len()).min_by_key(|rank| own[*rank][at].duration) else { return };
            for (rank, waiting) in waiting.iter_mut().enumerate() {
                let waits = own[rank][at].duration - own[last][at].duration;
                waiting.push((own[rank][at].start, own[rank][at].start + waits));
                *self.last.entry(last).or_default() += waits;
            }
        }
        self.time += parts.iter().map(|part| part.window.1 - part.window.0).sum::<i64>();
        self.parts += parts.len();
        self.all += waiting.into_iter().map(|waits| length(&union(waits))).sum::<i64>();
    }

    fn shares(&self, ranks: &[RankTrace]) -> String {
        let all: i64 = self.last.values().sum();
        let mut last: Vec<(usize, f64)> =
            self.last.iter().map(|(&place, &waits)| (place, 100.0 * waits as f64 / all as f64)).collect();
        last.sort_by(|one, other| other.1.total_cmp(&one.1));
        let share = |(at, &(place, percent)): (usize, &(usize, f64))| {
            let of_it = if at == 0 { " of it" } else { "" };
            format!("{percent:.0} %{of_it} for rank {}", ranks[place].rank)
        };
        last.iter().take(NAMED).enumerate().map(share).collect::<Vec<_>>().join(", ")
    }
}

/// The events that begin in a window; `events` must be in order.
fn beginning_in<'a, 'e>(events: &'a [&'e TraceEvent], (begin, end): Interval) -> &'a [&'e TraceEvent] {
    let first = events.partition_point(|event| event.start < begin);
    let behind = events.partition_point(|event| event.start < end);
    &events[first..behind]
}
