//! Estimates the offsets of clocks from the ends of exchanges.

use super::order::{interval, median};
use super::{Clock, Drift, drift};
use crate::collectives::{Exchange, Exchanges};
use crate::ranks::Job;
use std::collections::BTreeMap;

/// The ends of an exchange: indices of ranks, and nanoseconds from the Unix epoch by the clock of each.
pub(super) type Ends = Vec<(usize, i64)>;

/// The ends of all exchanges that end nearly together; of all others if there are none of these.
pub(super) fn ends(job: &Job, exchanges: &Exchanges) -> Vec<Ends> {
    let ends = |exchange: &Exchange| -> Ends {
        let end = |rank: usize, end: i64| (rank, end.saturating_add(job.ranks[rank].trace.header.base));
        exchange.parts.iter().map(|part| end(part.rank, exchanges.call(*part).time.1)).collect()
    };
    let shared: Vec<&Exchange> = exchanges.whole().collect();
    let together: Vec<Ends> =
        shared.iter().filter(|exchange| exchange.operation.synchronises()).map(|exchange| ends(exchange)).collect();
    if together.is_empty() { shared.into_iter().map(ends).collect() } else { together }
}

/// Passes over all exchanges and ranks; the medians of medians settle within a few.
const PASSES: usize = 10;
/// Clocks that NTP slews go wrong by at most 500 ppm (RFC 5905); a larger slope is none of a clock.
const FASTEST: f64 = 500e-6;

/// The clocks of all ranks.
pub(super) fn clocks(job: &Job, ends: &[Ends]) -> Vec<Clock> {
    let rough = rough(job.ranks.len(), ends);
    let mut offsets = vec![0.0; job.ranks.len()];
    let mut residuals = residuals(&rough, &offsets, ends);
    for _ in 0..PASSES {
        let medians: Vec<f64> = residuals.iter().map(|of_rank| median(&values(of_rank))).collect();
        offsets.iter_mut().zip(&medians).for_each(|(offset, median)| *offset -= median);
        residuals = self::residuals(&rough, &offsets, ends);
    }
    let first = offsets[0];
    let clock = |rank: usize| {
        let found = rough[rank].map(|rough| rough as f64 + offsets[rank] - first);
        let base = job.ranks[rank].trace.header.base;
        clock(base, found.unwrap_or(0.0), &residuals[rank], &residuals[0], rank == 0)
    };
    (0..job.ranks.len()).map(clock).collect()
}

fn values(points: &[(i64, f64)]) -> Vec<f64> {
    points.iter().map(|point| point.1).collect()
}

fn clock(base: i64, found: f64, own: &[(i64, f64)], first: &[(i64, f64)], is_first: bool) -> Clock {
    let mut clock = Clock { base, offset: 0.0, interval: None, exchanges: own.len(), drift: None };
    if is_first {
        return Clock { interval: Some([0.0; 2]), ..clock };
    }
    let Some(([low, high], [first_low, first_high])) = interval(&values(own)).zip(interval(&values(first))) else {
        return clock;
    };
    // Both are relative to what all ranks have in common, so that their uncertainties add up.
    let interval = [found + low - first_high, found + high - first_low];
    clock.interval = Some(interval);
    clock.drift = drift(own, first);
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
fn residuals(rough: &[Option<i64>], offsets: &[f64], ends: &[Ends]) -> Vec<Vec<(i64, f64)>> {
    let mut residuals = vec![Vec::new(); offsets.len()];
    for ends in ends {
        // Relative to one of them, which 64 bits of a float hold to less than a nanosecond.
        let Some((reference, about)) = ends.iter().find_map(|(rank, end)| Some((rough[*rank]?, *end))) else {
            continue;
        };
        let relative = |(rank, end): &(usize, i64)| {
            let rough = rough[*rank]?;
            Some((end.saturating_sub(about).saturating_add(rough - reference)) as f64 + offsets[*rank])
        };
        let moved: Vec<Option<f64>> = ends.iter().map(relative).collect();
        let common = median(&moved.iter().flatten().copied().collect::<Vec<_>>());
        for ((rank, end), moved) in ends.iter().zip(moved) {
            residuals[*rank].extend(moved.map(|moved| (*end, moved - common)));
        }
    }
    residuals
}

/// Offsets to a nanosecond, from the median difference to a rank whose offset is known, beginning with the first rank;
/// none for a rank without a chain of exchanges to it.
fn rough(ranks: usize, ends: &[Ends]) -> Vec<Option<i64>> {
    // Differences between the first part of an exchange and each other connect all of its ranks.
    let mut pairs: BTreeMap<(usize, usize), Vec<i64>> = BTreeMap::new();
    for ends in ends {
        for (rank, end) in &ends[1..] {
            pairs.entry((ends[0].0, *rank)).or_default().push(ends[0].1.saturating_sub(*end));
        }
    }
    let mut offsets = vec![None; ranks];
    offsets[0] = Some(0i64);
    let medians = pairs.into_iter().map(|(pair, mut differences)| {
        differences.sort_unstable();
        (differences.len(), pair, differences[differences.len() / 2])
    });
    let mut medians: Vec<(usize, (usize, usize), i64)> = medians.collect();
    medians.sort_by_key(|(count, pair, _)| (std::cmp::Reverse(*count), *pair));
    loop {
        let next = medians.iter().find_map(|(_, (one, other), difference)| match (offsets[*one], offsets[*other]) {
            (Some(known), None) => Some((*other, i64::saturating_add(known, *difference))),
            (None, Some(known)) => Some((*one, i64::saturating_sub(known, *difference))),
            (Some(_), Some(_)) | (None, None) => None,
        });
        match next {
            Some((rank, offset)) => offsets[rank] = Some(offset),
            None => return offsets,
        }
    }
}
