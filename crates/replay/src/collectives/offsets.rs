//! Offsets between the clocks of ranks, if nothing shows which calls are parts of one exchange. All parts of an exchange end at about the same time
//! in every step. So of all differences between the ends of two ranks' calls the offset of their clocks is the most frequent.

use super::CollectiveCall;
use crate::ranks::TrainingJob;
use std::cmp::Reverse;
use std::ops::Range;

/// Differences this close count as the same, in nanoseconds: processes end an exchange about this close together, and the times that
/// ranks take between exchanges differ by more from step to step.
const SAME: i64 = 10_000;
/// The most differences that are compared: fewer steps if there are many ranks or calls.
const DIFFERENCES: usize = 50_000_000;

/// How often the most frequent difference between the ends of two ranks' calls occurs, its size in reverse order, and what has to be added to the
/// second rank's times so that their calls end together.
type FrequentDifference = (usize, Reverse<i64>, i64);

/// Nanoseconds to add to the times of each rank. `calls`: for each rank and each place in the order of a step, the index of the call in every step.
pub(super) fn estimate_offsets(job: &TrainingJob, all: &[Vec<CollectiveCall>], calls: &[Vec<Vec<usize>>]) -> Vec<i64> {
    let ends = |rank: usize, step: usize| {
        let base = job.ranks[rank].trace.header.base;
        let own = calls[rank].iter().map(move |nth| &all[rank][nth[step]]);
        own.map(move |call| (call, call.time.1.saturating_add(base)))
    };
    let most: usize = calls.iter().map(Vec::len).max().unwrap_or(0) * calls.len();
    let steps = (DIFFERENCES / (most * most).max(1)).clamp(3, job.steps.len().max(3)).min(job.steps.len());
    let frequent = |one: usize, other: usize| {
        let mut differences = Vec::new();
        for step in 0..steps {
            for (call, end) in ends(one, step) {
                let alike = ends(other, step).filter(|(own, _)| call.is_alike(own));
                differences.extend(alike.map(|(_, own)| end.saturating_sub(own)));
            }
        }
        most_frequent(differences)
    };
    combine_differences(calls.len(), frequent)
}

/// The offsets of all ranks from those between two, the most frequent ones first (a spanning tree by Prim 1957).
fn combine_differences(ranks: usize, frequent: impl Fn(usize, usize) -> FrequentDifference) -> Vec<i64> {
    let mut offsets = vec![0i64; ranks];
    let mut left: Vec<(usize, usize, FrequentDifference)> =
        (1..ranks).map(|rank| (rank, 0, frequent(0, rank))).collect();
    while let Some(place) = (0..left.len()).max_by_key(|place| (left[*place].2, Reverse(left[*place].0))) {
        let (rank, from, (_, _, apart)) = left.swap_remove(place);
        offsets[rank] = offsets[from].saturating_add(apart);
        for (other, from, known) in &mut left {
            let own = frequent(rank, *other);
            if own > *known {
                (*from, *known) = (rank, own);
            }
        }
    }
    offsets
}

/// The most frequent difference, the smallest of equally frequent ones; zero if it is not more than twice as frequent as zero.
fn most_frequent(mut differences: Vec<i64>) -> FrequentDifference {
    differences.sort_unstable();
    let same = differences.iter().filter(|difference| difference.abs() <= SAME / 2).count();
    let most = closest_together(&differences);
    match most.get(most.len() / 2) {
        Some(apart) if most.len() > 2 * same => (most.len(), Reverse(apart.saturating_abs()), *apart),
        _ => (same, Reverse(0), 0),
    }
}

/// The largest group of sorted values that count as the same.
fn closest_together(sorted: &[i64]) -> &[i64] {
    let (mut first, mut best) = (0, 0..0);
    for (last, value) in sorted.iter().enumerate() {
        while value.saturating_sub(sorted[first]) > SAME {
            first += 1;
        }
        let score = |range: &Range<usize>| (range.len(), Reverse(sorted[range.start].saturating_abs()));
        let own = first..last + 1;
        if best.is_empty() || score(&own) > score(&best) {
            best = own;
        }
    }
    &sorted[best]
}
