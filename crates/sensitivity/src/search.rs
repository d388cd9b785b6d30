//! Selects the number of CPUs to measure next, from the points so far.
//!
//! A job's rate over CPUs does not fall and is usually concave, which bounds it between measured points: not below
//! their chord, not above the extended lines of the outer neighbours (sandwich algorithms: Rote, Computing 48, 1992).
//! The search measures the most and the least CPUs, then the number with the widest bounds, until they are narrow
//! everywhere. Then it verifies the knees: it measures each, and one step less.

use crate::curve::{RateCurve, RatePoint};
use crate::grid::CpuGrid;
use serde::{Deserialize, Serialize};
use std::iter;

/// The next step of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NextMeasurement {
    /// Measure this number of CPUs.
    Measure(f64),
    /// All knees are verified.
    Done,
}

/// The fewest CPUs with a share of the best rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The share.
    pub share: f64,
    /// The CPUs.
    pub cpus: f64,
    /// Whether it and one step less were measured, and no relevant point was disturbed.
    pub verified: bool,
    /// Its bounds, from the intervals of the rates and the numbers that were not measured.
    pub between: [f64; 2],
}

impl Knee {
    /// Marks the knee as unverified where the rate at this number of CPUs may be higher than measured, because others
    /// disturbed the job. It affects knees up to the next number above the point, and extends their bounds to the
    /// point.
    pub fn mark_unverified(&mut self, grid: &CpuGrid, cpus: f64) {
        if grid.previous(self.cpus).is_some_and(|before| cpus < before) {
            return;
        }
        self.verified = false;
        self.between = [self.between[0].min(cpus), self.between[1].max(cpus)];
    }
}

/// The shares of the best rate for which knees are computed.
pub const SHARES: [f64; 2] = [0.9, 0.95];

/// Bounds closer than this share of the best rate are narrow.
const NARROW: f64 = 0.05;

/// What to measure next.
pub fn next(grid: &CpuGrid, points: &[RatePoint]) -> NextMeasurement {
    let ends = [grid.cpus().last(), grid.cpus().first()];
    let Some(curve) = RateCurve::new(points) else {
        return ends[0].map_or(NextMeasurement::Done, |most| NextMeasurement::Measure(*most));
    };
    let end = ends.into_iter().flatten().copied().find(|cpus| curve.measured(*cpus).is_none());
    let found = end.or_else(|| widest(grid.cpus().iter(), &curve)).or_else(|| unverified(grid, &curve).next());
    found.map_or(NextMeasurement::Done, NextMeasurement::Measure)
}

/// What to measure next where several numbers of CPUs are measured at once: none of them depends on another one. None
/// where all knees are verified.
///
/// The first round is known beforehand: the most CPUs, half of them, half of those and so on, and the least. Every
/// later one has the widest bounds of each gap between measured numbers; the last ones verify the knees.
pub fn round(grid: &CpuGrid, points: &[RatePoint]) -> Vec<f64> {
    let Some(curve) = RateCurve::new(points) else { return halves(grid) };
    let unknown = |cpus: &f64| curve.measured(*cpus).is_none();
    let first: Vec<f64> = halves(grid).into_iter().filter(unknown).collect();
    let of_gap = |gap: [f64; 2]| widest(grid.cpus().iter().filter(|cpus| gap[0] < **cpus && **cpus < gap[1]), &curve);
    let cpus: Vec<f64> = curve.points().iter().map(|point| point.cpus).collect();
    let gaps: Vec<f64> = cpus.windows(2).filter_map(|gap| of_gap([gap[0], gap[1]])).collect();
    let mut last: Vec<f64> = unverified(grid, &curve).collect();
    last.sort_by(f64::total_cmp);
    last.dedup();
    [first, gaps, last].into_iter().find(|round| !round.is_empty()).unwrap_or_default()
}

/// The most CPUs, and again and again the most that are at most half of those before; the least.
fn halves(grid: &CpuGrid) -> Vec<f64> {
    let half = |cpus: &f64| grid.cpus().iter().copied().take_while(|fewer| *fewer <= cpus / 2.0).last();
    let halves = iter::successors(grid.cpus().last().copied(), half);
    let mut halves: Vec<f64> = halves.chain(grid.cpus().first().copied()).collect();
    halves.dedup();
    halves
}

/// The fewest CPUs with each of the [`SHARES`], from the points so far.
pub fn knees(grid: &CpuGrid, curve: &RateCurve) -> Vec<Knee> {
    SHARES.map(|share| knee(grid, curve, share)).into()
}

/// The number of CPUs with the widest bounds; of equals, the largest. None where all are narrow.
fn widest<'a>(cpus: impl Iterator<Item = &'a f64>, curve: &RateCurve) -> Option<f64> {
    let best = curve.highest().rate.per_second;
    let width = |cpus: f64| {
        let between = curve.bounds_at(cpus);
        (between.most - between.least) / best
    };
    let open = cpus.map(|cpus| (*cpus, width(*cpus))).filter(|(_, width)| *width > NARROW);
    open.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(cpus, _)| cpus)
}

/// The knees, and one step less, that were not measured.
fn unverified(grid: &CpuGrid, curve: &RateCurve) -> impl Iterator<Item = f64> {
    let pair = |share: f64| {
        let claimed = claimed(grid, curve, share);
        [Some(claimed), grid.previous(claimed)].into_iter().flatten()
    };
    SHARES.map(pair).into_iter().flatten().filter(|cpus| curve.measured(*cpus).is_none())
}

/// The fewest CPUs whose measured or interpolated rate reaches a share of the best.
fn claimed(grid: &CpuGrid, curve: &RateCurve, share: f64) -> f64 {
    let (best, wanted) = (curve.highest(), share * curve.highest().rate.per_second);
    let reaches = |cpus: &f64| curve.bounds_at(*cpus).least >= wanted;
    grid.cpus().iter().copied().find(reaches).unwrap_or(best.cpus)
}

fn knee(grid: &CpuGrid, curve: &RateCurve, share: f64) -> Knee {
    let cpus = claimed(grid, curve, share);
    let known = |cpus: f64| curve.measured(cpus).is_some();
    let best = curve.highest();
    let may = |cpus: &f64| curve.interval(*cpus)[1] >= share * best.rate.interval[0];
    let must = |cpus: &f64| curve.interval(*cpus)[0] >= share * best.rate.interval[1];
    let fewest = |enough: &dyn Fn(&f64) -> bool| grid.cpus().iter().copied().find(|cpus| enough(cpus));
    let (low, high) = (fewest(&may).unwrap_or(cpus), fewest(&must).unwrap_or(best.cpus));
    Knee {
        share,
        cpus,
        verified: known(cpus) && grid.previous(cpus).is_none_or(known),
        between: [low.min(cpus), high.max(cpus)],
    }
}
