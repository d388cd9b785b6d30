//! Finds stragglers, the ranks that the others wait for in an exchange. The last rank of an exchange spends the least
//! time in it, and the others spend as much more as they wait. This does not depend on the ranks' clocks.

use crate::breakdown::{Breakdown, Iteration, RankBreakdown};
use crate::gpu::device::GpuWork;
use crate::ranks::missing;
use crate::threads::gradient_exchange;
use perf4sight_traces::intervals::{Interval, clipped, length, union};
use perf4sight_traces::{RankTrace, TraceEvent};
use std::collections::BTreeMap;

/// Waiting is reported from this share of an iteration on.
const WORTH: f64 = 0.02;
/// The largest number of ranks in the warning.
const NAMED: usize = 3;
/// The stragglers are the ranks that come last in exchanges with this share of all waiting.
const MOSTLY: f64 = 2.0 / 3.0;

/// The time that ranks are in exchanges with others in the iterations that count, in nanoseconds of a mean iteration.
#[derive(Debug, Clone, PartialEq)]
pub struct ExchangeWaits {
    /// What ranks wait until all are there; none if the traces of some are missing, one of which may have been the last.
    pub for_ranks: Option<RankWaits>,
    /// How long each rank can do nothing but exchange or wait, by its index.
    pub blocked: Vec<f64>,
    /// An iteration.
    pub iteration: f64,
}

/// How long ranks wait for others in exchanges, in nanoseconds of a mean iteration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RankWaits {
    /// The mean over all ranks, also where they work meanwhile.
    pub mean: f64,
    /// In which each rank does nothing else, by its index.
    pub idle: Vec<f64>,
    /// When that is.
    pub(crate) when: Vec<Vec<Interval>>,
    /// Indices of the ranks that the others waited for, and the share of the waiting; the largest first.
    pub last: Vec<(usize, f64)>,
}

impl ExchangeWaits {
    /// None if the ranks exchange nothing, or have no iteration in common.
    pub(crate) fn find(ranks: &[RankTrace], run: &Breakdown) -> Option<Self> {
        let world = run.ranks.iter().filter_map(|rank| rank.place.of).max().unwrap_or(0) as usize;
        let world = world.max(ranks.len());
        let exchanges: Vec<Vec<&TraceEvent>> =
            ranks.iter().map(|ranked| gradient_exchange::among_all(ranked, world)).collect();
        let together = run.iterations_on_all_ranks();
        if world < 2 || together.is_empty() || exchanges.iter().all(Vec::is_empty) {
            return None;
        }
        let count = together.len() as f64;
        let blocked = exchanges.iter().zip(&run.ranks).enumerate().map(|(place, (events, rank))| {
            let all = union(events.iter().map(|event| (event.start, event.end())));
            let within = together.iter().flat_map(|parts| clipped(&all, parts[place].window));
            within.map(|(interval, _)| rank.idle_in(interval)).sum::<i64>() as f64 / count
        });
        let times = together.iter().flatten().map(|part| (part.window.1 - part.window.0) as f64);
        Some(ExchangeWaits {
            blocked: blocked.collect(),
            iteration: times.sum::<f64>() / count / ranks.len() as f64,
            for_ranks: (ranks.len() > 1 && missing::are_all(ranks))
                .then(|| RankWaits::find(&exchanges, run, &together))
                .flatten(),
        })
    }

    /// A warning about the time that ranks wait for each other and for which ranks; none if it is short or unknown.
    pub(crate) fn warning(&self, ranks: &[RankTrace]) -> Option<String> {
        let waits = self.for_ranks.as_ref().filter(|waits| waits.mean > WORTH * self.iteration)?;
        let milliseconds = |nanoseconds: f64| format!("{:.3} ms", nanoseconds / 1e6);
        Some(format!(
            "where ranks exchange something, a rank waits {} of an iteration's {} until all are there, on average over all ranks, the last one included: {}",
            milliseconds(waits.mean),
            milliseconds(self.iteration),
            waits.shares(ranks)
        ))
    }
}

impl RankWaits {
    /// From the iterations in which all ranks have the same number of exchanges; none if there are none.
    fn find(exchanges: &[Vec<&TraceEvent>], run: &Breakdown, together: &[Vec<&Iteration>]) -> Option<Self> {
        let mut last: BTreeMap<usize, i64> = BTreeMap::new();
        let mut waiting: Vec<Vec<Interval>> = vec![Vec::new(); exchanges.len()];
        let mut count = 0;
        for parts in together {
            let own: Vec<&[&TraceEvent]> =
                exchanges.iter().zip(parts).map(|(events, part)| beginning_in(events, part.window)).collect();
            if own.iter().any(|events| events.len() != own[0].len()) {
                continue;
            }
            count += 1;
            for at in 0..own[0].len() {
                let latest = (0..own.len()).min_by_key(|rank| own[*rank][at].duration)?;
                for (rank, waiting) in waiting.iter_mut().enumerate() {
                    let waits = own[rank][at].duration - own[latest][at].duration;
                    waiting.push((own[rank][at].start, own[rank][at].start + waits));
                    *last.entry(latest).or_default() += waits;
                }
            }
        }
        let when: Vec<Vec<Interval>> = waiting.into_iter().map(union).collect();
        let mean = |nanoseconds: i64| nanoseconds as f64 / f64::from(count);
        let idle = run.ranks.iter().zip(&when).map(|(rank, when)| when.iter().map(|at| rank.idle_in(*at)).sum());
        let idle = idle.map(mean).collect();
        let all: i64 = last.values().sum();
        let mut last: Vec<(usize, f64)> =
            last.into_iter().map(|(place, waits)| (place, waits as f64 / all.max(1) as f64)).collect();
        last.sort_by(|one, other| other.1.total_cmp(&one.1));
        let of_all = when.iter().map(|when| mean(length(when))).sum::<f64>() / when.len() as f64;
        (count > 0).then_some(RankWaits { mean: of_all, idle, when, last })
    }

    /// Indices of the ranks for which the others wait most of the time; none if a different rank is the last each time.
    pub(crate) fn stragglers(&self) -> Vec<usize> {
        let mut share = 0.0;
        let before = |(place, own): &(usize, f64)| {
            let needed = share < MOSTLY;
            share += own;
            needed.then_some(*place)
        };
        let stragglers: Vec<usize> = self.last.iter().map_while(before).collect();
        if 2 * stragglers.len() <= self.idle.len() { stragglers } else { Vec::new() }
    }

    fn shares(&self, ranks: &[RankTrace]) -> String {
        let share = |(at, &(place, share)): (usize, &(usize, f64))| {
            let of_it = if at == 0 { " of it" } else { "" };
            format!("{:.0} %{of_it} for rank {}", 100.0 * share, ranks[place].rank)
        };
        self.last.iter().take(NAMED).enumerate().map(share).collect::<Vec<_>>().join(", ")
    }
}

impl RankBreakdown {
    /// Nanoseconds of an interval in which nothing but an exchange or the wait for it is seen: of accelerators no work but collectives; without any, no work
    /// of the process as seen from its main thread.
    pub(crate) fn idle_in(&self, interval: Interval) -> i64 {
        if self.device.is_recorded() {
            return self.device.in_window(interval).exposed_time(GpuWork::Collective);
        }
        let works = clipped(&self.timeline, interval).filter(|(_, span)| span.state.is_working());
        interval.1 - interval.0 - works.map(|((start, end), _)| end - start).sum::<i64>()
    }
}

/// The events that begin in a window; `events` must be in order.
fn beginning_in<'a, 'e>(events: &'a [&'e TraceEvent], (begin, end): Interval) -> &'a [&'e TraceEvent] {
    let first = events.partition_point(|event| event.start < begin);
    let behind = events.partition_point(|event| event.start < end);
    &events[first..behind]
}
