//! Steps that one rank numbers otherwise than another: the ends of exchanges show which steps belong together.

use super::CollectiveCall;
use crate::ranks::{TrainingJob, hosts};
use perf4sight_base::stats::{median, percentile, trend};
use std::collections::BTreeMap;

/// Profilers of a job are started a few steps apart at most.
const MOST_STEPS: i64 = 16;
/// From fewer pairs of steps, or less than half of all, how much their ends scatter says nothing.
const FEWEST_PAIRS: usize = 5;
/// Exchanges end on all ranks nearly together, while steps differ by more: if the right steps are compared, the differences of ends scatter
/// less by this factor at least than with any others.
const LESS_SCATTER: f64 = 3.0;
/// By how much the clocks of one host may differ, as a part of a step.
const ONE_CLOCK: f64 = 0.1;

/// When the steps of all ranks end.
pub(super) struct StepEnds<'a> {
    job: &'a TrainingJob,
    /// For each rank, by the index in its steps.
    ends: Vec<BTreeMap<usize, i64>>,
}

/// How far ends are apart if the steps of a rank are so many later, in nanoseconds: the median of the differences, and the range of the middle
/// half of them beside the drift of a clock.
#[derive(Debug, Clone, Copy)]
struct EndDifferences {
    by: i64,
    apart: f64,
    scatter: f64,
    pairs: usize,
}

impl<'a> StepEnds<'a> {
    pub fn find(job: &'a TrainingJob, calls: &[Vec<CollectiveCall>]) -> Self {
        StepEnds { job, ends: calls.iter().enumerate().map(|(rank, calls)| ends_by_step(job, rank, calls)).collect() }
    }

    /// By how many steps those of each rank, by index, are later than those of the first, where that is certain. Where names and clocks agree
    /// they are not: both would have to be off by the same steps.
    pub fn later_steps(&self) -> BTreeMap<usize, i64> {
        let on_first_host = hosts::of_first(self.job);
        let shift = |rank: usize| {
            let by_scatter = self.shift_by_scatter(0, rank);
            by_scatter.or_else(|| self.shift_by_clock(0, rank).filter(|_| on_first_host[rank]))
        };
        let is_doubtful = |rank: &usize| !self.do_names_and_clocks_agree(0, *rank);
        (1..self.job.ranks.len()).filter(is_doubtful).filter_map(|rank| Some((rank, shift(rank)?))).collect()
    }

    /// Whether the steps of two ranks that are named alike end together by the clocks as recorded.
    fn do_names_and_clocks_agree(&self, first: usize, other: usize) -> bool {
        let named = self.differences(first, other).into_iter().find(|one| one.by == 0);
        named.is_some_and(|named| named.apart.abs() < ONE_CLOCK * self.step(first))
    }

    /// By how many steps those of a rank are later than those of another: with the only ones whose ends scatter far less than with any others.
    pub fn shift_by_scatter(&self, first: usize, other: usize) -> Option<i64> {
        let enough = FEWEST_PAIRS.max(self.job.steps_of_both([first, other]).count().div_ceil(2));
        let mut all = self.differences(first, other);
        all.retain(|one| one.pairs >= enough);
        all.sort_by(|one, next| one.scatter.total_cmp(&next.scatter));
        match all[..] {
            [least, next, ..] if least.scatter * LESS_SCATTER < next.scatter => Some(least.by),
            _ => None,
        }
    }

    /// The same of ranks with one clock: ends of steps that take all equally long scatter alike however they are compared.
    fn shift_by_clock(&self, first: usize, other: usize) -> Option<i64> {
        let all = self.differences(first, other);
        let named = all.iter().find(|one| one.by == 0)?;
        let nearest = all.iter().min_by(|one, next| one.apart.abs().total_cmp(&next.apart.abs()))?;
        let step = self.step(first);
        let is_certain = nearest.apart.abs() < ONE_CLOCK * step && named.apart.abs() > (1.0 - ONE_CLOCK) * step;
        is_certain.then_some(nearest.by)
    }

    fn differences(&self, first: usize, other: usize) -> Vec<EndDifferences> {
        let both: Vec<[usize; 2]> = self.job.steps_of_both([first, other]).collect();
        let by = |by: i64| {
            let of_step = |step: &[usize; 2]| {
                let own = self.job.ranks[other].earlier_step(step[1], by)?;
                let end = *self.ends[first].get(&step[0])?;
                Some((end as f64, end.saturating_sub(*self.ends[other].get(&own)?) as f64))
            };
            let pairs: Vec<(f64, f64)> = both.iter().filter_map(of_step).collect();
            let from = pairs.first()?.0;
            let points: Vec<(f64, f64)> = pairs.iter().map(|(end, apart)| (end - from, *apart)).collect();
            let drift = trend(&points).map_or(0.0, |(slope, _)| slope);
            let beside: Vec<f64> = points.iter().map(|(end, apart)| apart - drift * end).collect();
            let scatter = percentile(&beside, 75.0) - percentile(&beside, 25.0);
            let apart = median(&points.iter().map(|(_, apart)| *apart).collect::<Vec<_>>());
            Some(EndDifferences { by, apart, scatter, pairs: pairs.len() })
        };
        (-MOST_STEPS..=MOST_STEPS).filter_map(by).collect()
    }

    /// The median time from one end to the next of a rank, in nanoseconds.
    fn step(&self, rank: usize) -> f64 {
        let ends: Vec<i64> = self.ends[rank].values().copied().collect();
        median(&ends.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) as f64).collect::<Vec<_>>())
    }
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
