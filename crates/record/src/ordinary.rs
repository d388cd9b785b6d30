//! Iterations of a recording that nothing else came into, told from those around them.

use crate::recording::Times;
use crate::warm_up;
use perf4sight_base::stats::median;

/// Which iterations did not take much longer than those around them, as those do that another program or an evaluation comes into: one may
/// take several times as long, and its time would drown what recording takes.
pub(crate) struct Ordinary {
    pub plain: Vec<Vec<bool>>,
    pub recorded: Vec<Vec<bool>>,
}

impl Ordinary {
    pub fn of(times: &Times) -> Self {
        Ordinary { plain: ordinary(&times.plain), recorded: ordinary(&times.recorded) }
    }

    /// The times of these iterations alone.
    pub fn among(&self, times: &Times) -> Times {
        let kept = |(times, ordinary): (&Vec<u64>, &Vec<bool>)| {
            times.iter().zip(ordinary).filter(|(_, ordinary)| **ordinary).map(|(time, _)| *time).collect()
        };
        Times {
            plain: times.plain.iter().zip(&self.plain).map(kept).collect(),
            recorded: times.recorded.iter().zip(&self.recorded).map(kept).collect(),
        }
    }

    /// How many are not among them, and of how many.
    pub fn others(&self) -> [usize; 2] {
        let all = || self.plain.iter().chain(&self.recorded).flatten();
        [all().filter(|ordinary| !**ordinary).count(), all().count()]
    }
}

/// Each iteration is held against its own period, for a machine may be faster in one than in another: it counts unless it is
/// [beyond](warm_up::limit) the middle one. And so is a whole period against those before and after it.
fn ordinary(periods: &[Vec<u64>]) -> Vec<Vec<bool>> {
    let sorted: Vec<Vec<f64>> = periods.iter().map(|times| ascending(times)).collect();
    let deviations: Vec<f64> = sorted.iter().flat_map(|times| deviations(times)).collect();
    let deviation = if deviations.is_empty() { 0.0 } else { median(&deviations) };
    let bursts = bursts(&sorted.iter().map(|times| middle(times)).collect::<Vec<_>>());
    let counts = |((times, sorted), burst): ((&Vec<u64>, &Vec<f64>), bool)| -> Vec<bool> {
        let limit = middle(sorted).map_or(f64::INFINITY, |middle| warm_up::beyond(middle, deviation));
        times.iter().map(|&time| !burst && time as f64 <= limit).collect()
    };
    periods.iter().zip(&sorted).zip(bursts).map(counts).collect()
}

fn ascending(times: &[u64]) -> Vec<f64> {
    let mut times: Vec<f64> = times.iter().map(|&time| time as f64).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// The middle one, of two the lesser: what comes into an iteration only makes it longer. So half of a period may be longer, of two
/// iterations one; of a single one nothing tells.
fn middle(ascending: &[f64]) -> Option<f64> {
    ascending.get(ascending.len().checked_sub(1)? / 2).copied()
}

/// How far those of a period are off its middle one, which itself tells nothing: of few it would make most deviations none.
fn deviations(ascending: &[f64]) -> Vec<f64> {
    let Some(middle) = middle(ascending) else { return Vec::new() };
    let at = (ascending.len() - 1) / 2;
    let others = ascending.iter().enumerate().filter(|(other, _)| *other != at);
    others.map(|(_, time)| (time - middle).abs()).collect()
}

/// Whether a period, by its middle iteration, took much longer than both of those next to it, by what periods change from one to the next.
/// The first and the last may lie behind a change of speed as well as in a burst of another program, and stay.
fn bursts(middles: &[Option<f64>]) -> Vec<bool> {
    let told: Vec<(usize, f64)> =
        middles.iter().enumerate().filter_map(|(at, middle)| Some((at, (*middle)?))).collect();
    let mut changes: Vec<f64> = told.windows(2).map(|pair| (pair[1].1 - pair[0].1).abs()).collect();
    changes.sort_by(f64::total_cmp);
    let mut bursts = vec![false; middles.len()];
    // A burst makes two changes: half of them at most may be such.
    let Some(change) = middle(&changes) else { return bursts };
    for neighbours in told.windows(3) {
        let [(_, before), (at, own), (_, after)] = [neighbours[0], neighbours[1], neighbours[2]];
        bursts[at] = own > warm_up::beyond(before.max(after), change);
    }
    bursts
}
