//! Estimates the offsets of clocks from the ends of exchanges.

use super::order::{interval, median};
use super::{ClockDrift, RankClock, drift, possible};
use crate::collectives::{CollectiveOperation, ExchangePart, RankExchange, RankExchanges, connected_sets};
use crate::ranks::{TrainingJob, hosts};
use perf4sight_base::stats::percentile;
use perf4sight_traces::EventCategory;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The parts of an exchange, in nanoseconds from the Unix epoch by the clock of each rank.
pub(super) type ExchangeParts = Vec<TimedPart>;

/// When a rank, by its index, takes part.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimedPart {
    pub rank: usize,
    pub start: i64,
    pub end: i64,
    pub operation: CollectiveOperation,
    /// Whether it is a kernel: those of an exchange end within microseconds.
    pub is_kernel: bool,
}

/// The parts of the exchanges that tell most of clocks: first those that end nearly together, of kernels and then of processors, and last all
/// others. Less certain ones count where they alone connect ranks, such as stages of a pipeline.
pub(super) fn parts(job: &TrainingJob, exchanges: &RankExchanges) -> Vec<ExchangeParts> {
    let parts = |exchange: &RankExchange| -> ExchangeParts {
        let timed = |part: &ExchangePart| {
            let trace = &job.ranks[part.rank].trace;
            let base = trace.header.base;
            let call = exchanges.call(*part);
            let (start, end) = call.time;
            let [start, end] = [start, end].map(|moment| moment.saturating_add(base));
            let is_kernel = trace.events[call.event as usize].category == EventCategory::Kernel;
            TimedPart { rank: part.rank, start, end, operation: call.operation, is_kernel }
        };
        exchange.parts.iter().map(timed).collect()
    };
    let (together, others): (Vec<&RankExchange>, Vec<&RankExchange>) =
        exchanges.complete().partition(|exchange| exchange.operation.synchronises());
    let (kernels, processors): (Vec<ExchangeParts>, Vec<ExchangeParts>) =
        together.into_iter().map(parts).partition(|parts| parts.iter().all(|part| part.is_kernel));
    let mut chosen = Vec::new();
    for less_certain in [kernels, processors, others.into_iter().map(parts).collect()] {
        let known = islands(job.ranks.len(), &chosen);
        let connects = |parts: &ExchangeParts| parts.iter().any(|part| known[part.rank] != known[parts[0].rank]);
        chosen.extend(less_certain.into_iter().filter(connects));
    }
    chosen
}

/// For each rank the first one that exchanges connect it with.
fn islands<'a>(ranks: usize, exchanges: impl IntoIterator<Item = &'a ExchangeParts>) -> Vec<usize> {
    let together: Vec<Vec<usize>> =
        exchanges.into_iter().map(|parts| parts.iter().map(|part| part.rank).collect()).collect();
    connected_sets(ranks, together.iter())
}

/// Passes over all exchanges and ranks; the medians of medians settle within a few.
const PASSES: usize = 10;
/// Clocks that NTP slews go wrong by at most 500 ppm (RFC 5905). Clocks of virtual machines were seen to be worse; a slope
/// that is larger by far is none of a clock.
const FASTEST: f64 = 5e-3;

/// The clocks of all ranks.
pub(super) fn clocks(job: &TrainingJob, exchanges: &[ExchangeParts]) -> Vec<RankClock> {
    let rough = rough_offsets(job.ranks.len(), exchanges);
    let mut offsets = vec![0.0; job.ranks.len()];
    let mut residuals = residuals(&rough, &offsets, exchanges);
    for _ in 0..PASSES {
        let medians: Vec<f64> = residuals.iter().map(|of_rank| median(&values(of_rank))).collect();
        offsets.iter_mut().zip(&medians).for_each(|(offset, median)| *offset -= median);
        residuals = self::residuals(&rough, &offsets, exchanges);
    }
    let first = offsets[0];
    let possible = possible::offsets(job.ranks.len(), exchanges);
    let on_first_host = hosts::of_first(job);
    let end_together =
        islands(offsets.len(), exchanges.iter().filter(|parts| parts.iter().any(|part| part.operation.synchronises())));
    let clock = |rank: usize| {
        let found = rough[rank].map(|rough| rough as f64 + offsets[rank] - first);
        let base = job.ranks[rank].trace.header.base;
        let shared = SharedExchanges {
            own: &residuals[rank],
            first: &residuals[0],
            possible: possible::interval(possible[rank]),
            ends_together: end_together[rank] == end_together[0],
            apart: end_difference(rank, exchanges),
            ahead: possible_lead(rank, exchanges, possible::may_be_zero(possible[rank])),
            host: on_first_host[rank],
        };
        clock(base, found.unwrap_or(0.0), &shared, rank == 0)
    };
    (0..job.ranks.len()).map(clock).collect()
}

fn values(points: &[(i64, f64)]) -> Vec<f64> {
    points.iter().map(|point| point.1).collect()
}

/// What is known of a rank's clock relative to that of the first.
struct SharedExchanges<'a> {
    /// The residuals of both.
    own: &'a [(i64, f64)],
    first: &'a [(i64, f64)],
    /// The offsets with which no exchange ends before it began elsewhere.
    possible: Option<[f64; 2]>,
    /// Whether exchanges that end nearly together connect both; a message may arrive after its sender has gone on.
    ends_together: bool,
    /// By how many nanoseconds one rank may always end exchanges later than another.
    apart: f64,
    /// By how many nanoseconds one rank may be ahead of another where none waits for all.
    ahead: f64,
    /// Whether it runs on the host of the first rank, as their traces say.
    host: bool,
}

/// By how much the ranks of one host may differ in nanoseconds: each process fits its own counter to the clock of the host
/// (c10/util/ApproximateClock.cpp).
const ON_ONE_HOST: f64 = 1e6;

/// With fewer exchanges their spread does not show how uncertain the median is: the interval is that of all offsets
/// that are possible.
const FEW: usize = 6;

fn clock(base: i64, found: f64, shared: &SharedExchanges, is_first: bool) -> RankClock {
    let mut clock = RankClock {
        base,
        offset: 0.0,
        interval: None,
        exchanges: shared.own.len(),
        drift: None,
        settings: Vec::new(),
        is_first: false,
    };
    if is_first {
        return RankClock { interval: Some([0.0; 2]), is_first, ..clock };
    }
    let agrees = |[low, high]: [f64; 2]| low <= ON_ONE_HOST && high >= -ON_ONE_HOST;
    if shared.host && shared.possible.is_none_or(agrees) {
        return RankClock { interval: Some([0.0; 2]), is_first: true, ..clock };
    }
    let [own, first] = [shared.own, shared.first].map(|residuals| interval(&values(residuals)));
    let Some(([low, high], [first_low, first_high])) = own.zip(first) else { return clock };
    // Both are relative to what all ranks have in common, so that their uncertainties add up.
    let spread = [found + low - first_high, found + high - first_low];
    let spread = with_lag(spread, shared.apart);
    let of_processors = shared.apart > 0.0;
    let interval = match shared.possible {
        Some(possible) if shared.own.len() < FEW || !shared.ends_together => possible,
        Some(possible) => clamp_interval(spread, possible),
        None if !shared.ends_together && found.abs() <= shared.ahead => [spread[0].min(0.0), spread[1].max(0.0)],
        None => spread,
    };
    clock.interval = Some(interval);
    // With a clock that drifts by more than ends differ, no offset is possible throughout.
    clock.drift = drift(shared.own, shared.first).filter(|_| !of_processors || shared.possible.is_none());
    if clock.drift.is_some() || interval[0] > 0.0 || interval[1] < 0.0 {
        clock.offset = found;
    }
    clock
}

/// The interval of an offset where a rank may always end exchanges later than others by so much: an offset of zero, with which
/// exchanges end together, is no chance; one that such a lag explains may be none, or greater by it.
fn with_lag([low, high]: [f64; 2], lag: f64) -> [f64; 2] {
    match [low - lag, high + lag] {
        _ if low <= 0.0 && high >= 0.0 => [low, high],
        both => both,
    }
}

/// The part of an interval that is possible; the whole if none is.
fn clamp_interval([low, high]: [f64; 2], [least, most]: [f64; 2]) -> [f64; 2] {
    let both = [low.max(least), high.min(most)];
    if both[0] <= both[1] { both } else { [low, high] }
}

/// Roots of broadcasts, and who sends to the root of a gather, are ahead of others by so many exchanges at most: longer messages wait
/// for their receiver.
const AHEAD: f64 = 3.0;

/// By how many nanoseconds a rank may be ahead of another where none waits for all: a few times the median from one exchange to the next. Who sends on without
/// waiting for who receives, as in a pipeline in one direction, may be ahead by as long as both exchange, if no message arrives before it was sent then.
fn possible_lead(rank: usize, exchanges: &[ExchangeParts], is_possible: bool) -> f64 {
    let own = exchanges.iter().flatten().filter(|part| part.rank == rank);
    let mut starts: Vec<i64> = own.map(|part| part.start).collect();
    starts.sort_unstable();
    if let (true, Some((first, last))) = (is_possible, starts.first().zip(starts.last())) {
        return last.saturating_sub(*first) as f64;
    }
    AHEAD * median(&starts.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) as f64).collect::<Vec<_>>())
}

/// Exchanges whose transfer takes longer than this percentile of all may have been disturbed.
const USUAL: f64 = 90.0;

/// By how many nanoseconds one rank may always end an exchange later than another: kernels end together, and a processor ends
/// with the last message that it sends or receives, at some time during the transfer. This takes as long as the exchange on
/// the rank that came last. Of the exchanges of a rank those with the most others count, for they connect it with these.
pub(super) fn end_difference(rank: usize, exchanges: &[ExchangeParts]) -> f64 {
    let own: Vec<&ExchangeParts> =
        exchanges.iter().filter(|parts| parts.iter().any(|part| part.rank == rank)).collect();
    let most = own.iter().map(|parts| parts.len()).max().unwrap_or(0);
    let largest = own.into_iter().filter(|parts| parts.len() == most);
    let of_processors = largest.filter(|parts| parts.iter().any(|part| !part.is_kernel));
    let transfer = |parts: &ExchangeParts| parts.iter().map(|part| part.end.saturating_sub(part.start)).min();
    let transfers: Vec<f64> = of_processors.filter_map(transfer).map(|time| time as f64).collect();
    if transfers.is_empty() { 0.0 } else { percentile(&transfers, USUAL) }
}

/// The drift relative to the first rank, if it is certain.
fn drift(own: &[(i64, f64)], first: &[(i64, f64)]) -> Option<ClockDrift> {
    let around = own.get(own.len() / 2)?.0;
    let slope = |points: &[(i64, f64)]| {
        // Residuals are what is to be subtracted.
        let relative: Vec<(f64, f64)> =
            points.iter().map(|(time, residual)| (time.saturating_sub(around) as f64, -residual)).collect();
        drift::slope(&relative)
    };
    let ((own, [low, high]), (first, [first_low, first_high])) = slope(own).zip(slope(first))?;
    let (rate, interval) = (own - first, [low - first_high, high - first_low]);
    let certain = (interval[0] > 0.0 || interval[1] < 0.0) && rate.abs() < FASTEST;
    certain.then_some(ClockDrift { rate, interval, around })
}

/// For each rank, by how much the ends of its exchanges, with the offsets added, are behind the median of all ranks;
/// with the moment of each by its own clock.
fn residuals(rough: &[Option<i64>], offsets: &[f64], exchanges: &[ExchangeParts]) -> Vec<Vec<(i64, f64)>> {
    let mut residuals = vec![Vec::new(); offsets.len()];
    for parts in exchanges {
        // Relative to one of them, which 64 bits of a float hold to less than a nanosecond.
        let reference = parts.iter().find_map(|part| Some((rough[part.rank]?, part.end)));
        let Some((reference, about)) = reference else { continue };
        let relative = |part: &TimedPart| {
            let moved = part.end.saturating_sub(about).saturating_add(rough[part.rank]? - reference);
            Some(moved as f64 + offsets[part.rank])
        };
        let moved: Vec<Option<f64>> = parts.iter().map(relative).collect();
        let common = median(&moved.iter().flatten().copied().collect::<Vec<_>>());
        for (part, moved) in parts.iter().zip(moved) {
            residuals[part.rank].extend(moved.map(|moved| (part.end, moved - common)));
        }
    }
    residuals
}

/// Offsets to a nanosecond, from the median difference to a rank whose offset is known, beginning with the first rank;
/// none for a rank without a chain of exchanges to it.
fn rough_offsets(ranks: usize, exchanges: &[ExchangeParts]) -> Vec<Option<i64>> {
    // Differences between the first part of an exchange and each other connect all of its ranks.
    let mut pairs: BTreeMap<(usize, usize), Vec<i64>> = BTreeMap::new();
    for parts in exchanges {
        for part in &parts[1..] {
            pairs.entry((parts[0].rank, part.rank)).or_default().push(parts[0].end.saturating_sub(part.end));
        }
    }
    let medians = pairs.into_iter().map(|(pair, mut differences)| {
        differences.sort_unstable();
        (differences.len(), pair, differences[differences.len() / 2])
    });
    let mut medians: Vec<(usize, (usize, usize), i64)> = medians.collect();
    medians.sort_by_key(|(count, pair, _)| (Reverse(*count), *pair));
    let mut offsets = vec![None; ranks];
    offsets[0] = Some(0i64);
    while let Some((rank, offset)) = next_known(&medians, &offsets) {
        offsets[rank] = Some(offset);
    }
    offsets
}

/// A rank whose offset follows from that of another.
fn next_known(medians: &[(usize, (usize, usize), i64)], offsets: &[Option<i64>]) -> Option<(usize, i64)> {
    medians.iter().find_map(|(_, (one, other), difference)| match (offsets[*one], offsets[*other]) {
        (Some(known), None) => Some((*other, i64::saturating_add(known, *difference))),
        (None, Some(known)) => Some((*one, i64::saturating_sub(known, *difference))),
        (Some(_), Some(_)) | (None, None) => None,
    })
}
