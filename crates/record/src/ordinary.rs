//! Finds the iterations of a recording that nothing else delayed, compared with their neighbours.

use crate::recording::PeriodTimes;
use crate::warm_up;
use perf4sight_base::stats::median;

/// Marks the iterations that did not take much longer than their neighbours. Another program or an evaluation can make
/// an iteration several times as long, which would hide the overhead of recording.
pub(crate) struct OrdinaryIterations {
    pub plain: Vec<Vec<bool>>,
    pub recorded: Vec<Vec<bool>>,
}

impl OrdinaryIterations {
    pub fn find(times: &PeriodTimes) -> Self {
        OrdinaryIterations { plain: ordinary(&times.plain), recorded: ordinary(&times.recorded) }
    }

    /// The times of these iterations alone.
    pub fn select(&self, times: &PeriodTimes) -> PeriodTimes {
        let kept = |(times, ordinary): (&Vec<u64>, &Vec<bool>)| {
            times.iter().zip(ordinary).filter(|(_, ordinary)| **ordinary).map(|(time, _)| *time).collect()
        };
        PeriodTimes {
            plain: times.plain.iter().zip(&self.plain).map(kept).collect(),
            recorded: times.recorded.iter().zip(&self.recorded).map(kept).collect(),
        }
    }
}

/// Compares each iteration with its own period, because the speed of a machine may differ between periods: an iteration
/// counts unless it is [above the limit](warm_up::limit) of its period. Whole periods are compared with those before
/// and after them in the same way.
fn ordinary(periods: &[Vec<u64>]) -> Vec<Vec<bool>> {
    let middles: Vec<Option<f64>> = periods.iter().map(|times| middle(&ascending(times))).collect();
    let each = ordinary_within(periods).into_iter().zip(bursts(&middles));
    each.map(|(period, burst)| period.into_iter().map(|ordinary| ordinary && !burst).collect()).collect()
}

/// The same, each iteration compared with its own group alone.
fn ordinary_within(groups: &[Vec<u64>]) -> Vec<Vec<bool>> {
    within(groups, MIDDLE)
}

/// Of iterations that settle, those as many iterations after the profiler was started or stopped are a group: that makes the first ones longer each time.
/// Three of five may be long, as where an evaluation comes every ninth iteration.
pub(crate) fn ordinary_settled(groups: &[Vec<u64>]) -> Vec<Vec<bool>> {
    within(groups, QUARTILE)
}

/// Which time of a group in ascending order is the usual one.
const MIDDLE: usize = 2;
const QUARTILE: usize = 4;

fn within(groups: &[Vec<u64>], part: usize) -> Vec<Vec<bool>> {
    let sorted: Vec<Vec<f64>> = groups.iter().map(|times| ascending(times)).collect();
    let deviations: Vec<f64> = sorted.iter().flat_map(|times| deviations(times, part)).collect();
    let deviation = if deviations.is_empty() { 0.0 } else { median(&deviations) };
    let counts = |(times, sorted): (&Vec<u64>, &Vec<f64>)| -> Vec<bool> {
        let limit = usual(sorted, part).map_or(f64::INFINITY, |usual| warm_up::warm_up_limit(usual, deviation));
        times.iter().map(|&time| time as f64 <= limit).collect()
    };
    groups.iter().zip(&sorted).map(counts).collect()
}

fn ascending(times: &[u64]) -> Vec<f64> {
    let mut times: Vec<f64> = times.iter().map(|&time| time as f64).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// The median, of two middle values the smaller: disturbances only make iterations longer. So half of a period may be
/// disturbed, or one of two iterations; for a single one there is no comparison.
fn middle(ascending: &[f64]) -> Option<f64> {
    usual(ascending, MIDDLE)
}

fn usual(ascending: &[f64], part: usize) -> Option<f64> {
    ascending.get(ascending.len().checked_sub(1)? / part).copied()
}

/// The deviations of a period from its usual value. That value itself is excluded: in short periods its deviation of 0
/// would be among the most frequent.
fn deviations(ascending: &[f64], part: usize) -> Vec<f64> {
    let Some(usual) = usual(ascending, part) else { return Vec::new() };
    let at = (ascending.len() - 1) / part;
    let others = ascending.iter().enumerate().filter(|(other, _)| *other != at);
    others.map(|(_, time)| (time - usual).abs()).collect()
}

/// Whether a period's median took much longer than that of both neighbours, compared with the usual change between
/// periods. The first and the last period are never marked: they may follow a change of speed as well as a burst of
/// another program.
fn bursts(middles: &[Option<f64>]) -> Vec<bool> {
    let known: Vec<(usize, f64)> =
        middles.iter().enumerate().filter_map(|(at, middle)| Some((at, (*middle)?))).collect();
    let mut changes: Vec<f64> = known.windows(2).map(|pair| (pair[1].1 - pair[0].1).abs()).collect();
    changes.sort_by(f64::total_cmp);
    let mut bursts = vec![false; middles.len()];
    // A burst causes two changes, so at most half of the changes may belong to bursts.
    let Some(change) = middle(&changes) else { return bursts };
    for neighbours in known.windows(3) {
        let [(_, before), (at, own), (_, after)] = [neighbours[0], neighbours[1], neighbours[2]];
        bursts[at] = own > warm_up::warm_up_limit(before.max(after), change);
    }
    bursts
}
