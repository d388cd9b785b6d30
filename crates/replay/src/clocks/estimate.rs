//! Estimates the offsets of clocks from the ends of exchanges.

use super::order::{interval, median};
use super::{Clock, Drift, drift, hosts, possible};
use crate::collectives::{Exchange, Exchanges, Operation, Part};
use crate::ranks::Job;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The parts of an exchange, in nanoseconds from the Unix epoch by the clock of each rank.
pub(super) type Parts = Vec<Timed>;

/// When a rank, by its index, takes part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timed {
    pub rank: usize,
    pub start: i64,
    pub end: i64,
    pub operation: Operation,
}

/// The parts of all exchanges that end nearly together; of all others if there are none of these.
pub(super) fn parts(job: &Job, exchanges: &Exchanges) -> Vec<Parts> {
    let parts = |exchange: &Exchange| -> Parts {
        let timed = |part: &Part| {
            let base = job.ranks[part.rank].trace.header.base;
            let (start, end) = exchanges.call(*part).time;
            let [start, end] = [start, end].map(|moment| moment.saturating_add(base));
            Timed { rank: part.rank, start, end, operation: exchanges.call(*part).operation }
        };
        exchange.parts.iter().map(timed).collect()
    };
    let shared: Vec<&Exchange> = exchanges.whole().collect();
    let together: Vec<Parts> =
        shared.iter().filter(|exchange| exchange.operation.synchronises()).map(|exchange| parts(exchange)).collect();
    if together.is_empty() { shared.into_iter().map(parts).collect() } else { together }
}

/// Passes over all exchanges and ranks; the medians of medians settle within a few.
const PASSES: usize = 10;
/// Clocks that NTP slews go wrong by at most 500 ppm (RFC 5905). Clocks of virtual machines were seen to be worse; a slope
/// that is larger by far is none of a clock.
const FASTEST: f64 = 5e-3;

/// The clocks of all ranks.
pub(super) fn clocks(job: &Job, exchanges: &[Parts]) -> Vec<Clock> {
    let rough = rough(job.ranks.len(), exchanges);
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
    let clock = |rank: usize| {
        let found = rough[rank].map(|rough| rough as f64 + offsets[rank] - first);
        let base = job.ranks[rank].trace.header.base;
        let shared = Shared {
            own: &residuals[rank],
            first: &residuals[0],
            possible: possible[rank],
            ends_together: exchanges.iter().flatten().any(|part| part.operation.synchronises()),
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
struct Shared<'a> {
    /// The residuals of both.
    own: &'a [(i64, f64)],
    first: &'a [(i64, f64)],
    /// The offsets with which no exchange ends before it began elsewhere.
    possible: Option<[f64; 2]>,
    /// Whether exchanges end nearly together on all ranks; a message may arrive after its sender has gone on.
    ends_together: bool,
    /// Whether it runs on the host of the first rank, as their traces say.
    host: bool,
}

/// By how much the ranks of one host may differ in nanoseconds: each process fits its own counter to the clock of the host
/// (c10/util/ApproximateClock.cpp).
const ON_ONE_HOST: f64 = 1e6;

/// With fewer exchanges their spread does not show how uncertain the median is: the interval is that of all offsets
/// that are possible.
const FEW: usize = 6;

fn clock(base: i64, found: f64, shared: &Shared, is_first: bool) -> Clock {
    let mut clock = Clock { base, offset: 0.0, interval: None, exchanges: shared.own.len(), drift: None };
    if is_first {
        return Clock { interval: Some([0.0; 2]), ..clock };
    }
    let agrees = |[low, high]: [f64; 2]| low <= ON_ONE_HOST && high >= -ON_ONE_HOST;
    if shared.host && shared.possible.is_none_or(agrees) {
        return Clock { interval: Some([0.0; 2]), ..clock };
    }
    let [own, first] = [shared.own, shared.first].map(|residuals| interval(&values(residuals)));
    let Some(([low, high], [first_low, first_high])) = own.zip(first) else { return clock };
    // Both are relative to what all ranks have in common, so that their uncertainties add up.
    let spread = [found + low - first_high, found + high - first_low];
    let interval = shared.possible.filter(|_| shared.own.len() < FEW || !shared.ends_together).unwrap_or(spread);
    clock.interval = Some(interval);
    clock.drift = drift(shared.own, shared.first);
    if clock.drift.is_some() || interval[0] > 0.0 || interval[1] < 0.0 {
        clock.offset = found;
    }
    clock
}

/// The drift relative to the first rank, if it is certain.
fn drift(own: &[(i64, f64)], first: &[(i64, f64)]) -> Option<Drift> {
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
    certain.then_some(Drift { rate, interval, around })
}

/// For each rank, by how much the ends of its exchanges, with the offsets added, are behind the median of all ranks;
/// with the moment of each by its own clock.
fn residuals(rough: &[Option<i64>], offsets: &[f64], exchanges: &[Parts]) -> Vec<Vec<(i64, f64)>> {
    let mut residuals = vec![Vec::new(); offsets.len()];
    for parts in exchanges {
        // Relative to one of them, which 64 bits of a float hold to less than a nanosecond.
        let reference = parts.iter().find_map(|part| Some((rough[part.rank]?, part.end)));
        let Some((reference, about)) = reference else { continue };
        let relative = |part: &Timed| {
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
fn rough(ranks: usize, exchanges: &[Parts]) -> Vec<Option<i64>> {
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
