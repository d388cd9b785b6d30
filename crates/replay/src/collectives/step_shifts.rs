//! Steps that one rank numbers otherwise, where its exchanges have no numbers: the ends of exchanges show which steps belong together.

use super::CollectiveCall;
use crate::ranks::{JobStep, TrainingJob, hosts};
use perf4sight_base::stats::{median, percentile};
use std::collections::BTreeMap;

/// Profilers of a job are started a few steps apart at most.
const MOST_STEPS: i64 = 16;
/// From so few pairs of steps how much their ends scatter says nothing.
const FEWEST_PAIRS: usize = 5;
/// Exchanges end on all ranks nearly together, while steps differ by more: if the right steps are compared, the differences of ends scatter
/// less by this factor at least than with any others.
const LESS_SCATTER: f64 = 3.0;
/// By how much the clocks of one host may differ, as a part of a step.
const ONE_CLOCK: f64 = 0.1;

/// By how many steps those of a rank, by index, are later than those of the same name on the first rank.
pub(super) fn find(job: &TrainingJob, calls: &[Vec<CollectiveCall>]) -> BTreeMap<usize, i64> {
    let is_numbered = |calls: &Vec<CollectiveCall>| {
        calls.iter().any(|call| call.arguments.sequence.is_some() || call.arguments.comms_id.is_some())
    };
    if job.ranks.len() < 2 || calls.iter().any(is_numbered) {
        return BTreeMap::new();
    }
    let ends: Vec<BTreeMap<usize, i64>> =
        (0..job.ranks.len()).map(|rank| ends_by_step(job, rank, &calls[rank])).collect();
    let on_first_host = hosts::of_first(job);
    let shift = |rank: usize| {
        let pair = RankPair { job, rank, first: &ends[0], other: &ends[rank], is_one_clock: on_first_host[rank] };
        Some((rank, pair.shift()?))
    };
    (1..job.ranks.len()).filter_map(shift).collect()
}

/// The last end in each step of a rank, by the index in its steps, of what ends on all ranks nearly together; in nanoseconds from the
/// Unix epoch by its own clock.
fn ends_by_step(job: &TrainingJob, rank: usize, calls: &[CollectiveCall]) -> BTreeMap<usize, i64> {
    let base = job.ranks[rank].trace.header.base;
    let mut ends = BTreeMap::new();
    for call in calls.iter().filter(|call| call.operation.synchronises()) {
        let Some(step) = call.step else { continue };
        let end = call.time.1.saturating_add(base);
        ends.entry(step).and_modify(|last: &mut i64| *last = end.max(*last)).or_insert(end);
    }
    ends
}

/// The first rank and another one, by index, with the ends of the exchanges in their steps.
struct RankPair<'a> {
    job: &'a TrainingJob,
    rank: usize,
    first: &'a BTreeMap<usize, i64>,
    other: &'a BTreeMap<usize, i64>,
    /// Whether both run on one host.
    is_one_clock: bool,
}

/// How far ends are apart, in nanoseconds: the median of the differences, the range of the middle half of them, and their number.
#[derive(Debug, Clone, Copy)]
struct EndDifferences {
    apart: f64,
    scatter: f64,
    pairs: usize,
}

impl RankPair<'_> {
    /// By how many steps those of the other rank are later, if that is certain and not zero.
    fn shift(&self) -> Option<i64> {
        let all: Vec<(i64, EndDifferences)> =
            (-MOST_STEPS..=MOST_STEPS).filter_map(|by| self.differences(by).map(|found| (by, found))).collect();
        let named = all.iter().find(|(by, _)| *by == 0)?.1;
        by_scatter(&all)
            .filter(|(_, found)| found.apart.abs() <= named.apart.abs())
            .or_else(|| self.by_clock(&all, named))
            .map(|(by, _)| by)
            .filter(|by| *by != 0)
    }

    /// Where all steps take equally long, their ends scatter alike however they are compared: then the one clock of a host tells.
    fn by_clock(&self, all: &[(i64, EndDifferences)], named: EndDifferences) -> Option<(i64, EndDifferences)> {
        let nearest = all.iter().min_by(|one, other| one.1.apart.abs().total_cmp(&other.1.apart.abs()))?;
        let step = self.step();
        let agrees = nearest.1.apart.abs() < ONE_CLOCK * step && named.apart.abs() > (1.0 - ONE_CLOCK) * step;
        (self.is_one_clock && agrees).then_some(*nearest)
    }

    /// How far ends are apart if steps of the other rank are so many later than those of the same name.
    fn differences(&self, by: i64) -> Option<EndDifferences> {
        let of_step = |step: &JobStep| {
            let own = step.of[self.rank].checked_add_signed(isize::try_from(-by).ok()?)?;
            Some(self.first.get(&step.of[0])?.saturating_sub(*self.other.get(&own)?) as f64)
        };
        let all: Vec<f64> = self.job.steps.iter().filter_map(of_step).collect();
        let scatter = percentile(&all, 75.0) - percentile(&all, 25.0);
        (!all.is_empty()).then(|| EndDifferences { apart: median(&all), scatter, pairs: all.len() })
    }

    /// The median time from one end to the next on the first rank, in nanoseconds.
    fn step(&self) -> f64 {
        let ends: Vec<i64> = self.first.values().copied().collect();
        median(&ends.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) as f64).collect::<Vec<_>>())
    }
}

/// The only steps whose ends scatter far less than any others do.
fn by_scatter(all: &[(i64, EndDifferences)]) -> Option<(i64, EndDifferences)> {
    let mut many: Vec<_> = all.iter().filter(|(_, found)| found.pairs >= FEWEST_PAIRS).copied().collect();
    many.sort_by(|one, other| one.1.scatter.total_cmp(&other.1.scatter));
    match many[..] {
        [least, next, ..] if least.1.scatter * LESS_SCATTER < next.1.scatter => Some(least),
        _ => None,
    }
}
