//! Which number of CPUs to measure next, from what was measured so far.
//!
//! A job's rate over CPUs does not fall and is mostly concave, which bounds it between measured points: not below their chord, not above the
//! lines of the points beyond (sandwich algorithms: Rote, Computing 48, 1992). The most and the least CPUs are measured, then where the
//! bounds are widest, until they are narrow everywhere. Then the knees are verified: each is measured, and one step less.

use crate::curve::{Curve, Point};
use crate::grid::Grid;
use serde::{Deserialize, Serialize};

/// What is left to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// This number of CPUs is to be measured.
    Measure(f64),
    /// All knees hold.
    Done,
}

/// The fewest CPUs with a share of the best rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The share.
    pub share: f64,
    /// The CPUs.
    pub cpus: f64,
    /// Whether it was measured, and one step less too, and nothing else took time of the job there or beyond.
    pub verified: bool,
    /// Its bounds, by the intervals of the rates and what was not measured.
    pub between: [f64; 2],
}

impl Knee {
    /// What is left of it where the rate at this number of CPUs may be higher than was measured, because others took time of the job: nobody
    /// verified a knee that this point, or the one above, was held against, and it may be as far off as the point.
    pub fn doubt(&mut self, grid: &Grid, cpus: f64) {
        if grid.before(self.cpus).is_some_and(|before| cpus < before) {
            return;
        }
        self.verified = false;
        self.between = [self.between[0].min(cpus), self.between[1].max(cpus)];
    }
}

/// The shares of the best rate whose knees are looked for.
pub const SHARES: [f64; 2] = [0.9, 0.95];

/// Bounds are narrow that are closer than this share of the best rate.
const NARROW: f64 = 0.05;

/// What to measure next.
pub fn next(grid: &Grid, points: &[Point]) -> Next {
    let ends = [grid.cpus().last(), grid.cpus().first()];
    let Some(curve) = Curve::of(points) else { return ends[0].map_or(Next::Done, |most| Next::Measure(*most)) };
    let end = ends.into_iter().flatten().copied().find(|cpus| curve.measured(*cpus).is_none());
    let found = end.or_else(|| widest(grid, &curve)).or_else(|| unverified(grid, &curve));
    found.map_or(Next::Done, Next::Measure)
}

/// The fewest CPUs with each of the [`SHARES`], as far as is known.
pub fn knees(grid: &Grid, curve: &Curve) -> Vec<Knee> {
    SHARES.map(|share| knee(grid, curve, share)).into()
}

/// Where the bounds are widest; of equals, where there are the most CPUs. None where they are narrow.
fn widest(grid: &Grid, curve: &Curve) -> Option<f64> {
    let best = curve.best().rate.per_second;
    let width = |cpus: f64| {
        let between = curve.at(cpus);
        (between.most - between.least) / best
    };
    let open = grid.cpus().iter().map(|cpus| (*cpus, width(*cpus))).filter(|(_, width)| *width > NARROW);
    open.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(cpus, _)| cpus)
}

/// A claimed knee, or one step less, that was not measured.
fn unverified(grid: &Grid, curve: &Curve) -> Option<f64> {
    let unknown = |cpus: &f64| curve.measured(*cpus).is_none();
    SHARES.iter().find_map(|share| {
        let claimed = claimed(grid, curve, *share);
        [Some(claimed), grid.before(claimed)].into_iter().flatten().find(unknown)
    })
}

/// The fewest CPUs whose rate, on chords where it was not measured, has a share of the best.
fn claimed(grid: &Grid, curve: &Curve, share: f64) -> f64 {
    let (best, wanted) = (curve.best(), share * curve.best().rate.per_second);
    let reaches = |cpus: &f64| curve.at(*cpus).least >= wanted;
    grid.cpus().iter().copied().find(reaches).unwrap_or(best.cpus)
}

fn knee(grid: &Grid, curve: &Curve, share: f64) -> Knee {
    let cpus = claimed(grid, curve, share);
    let known = |cpus: f64| curve.measured(cpus).is_some();
    let best = curve.best();
    let may = |cpus: &f64| curve.interval(*cpus)[1] >= share * best.rate.interval[0];
    let must = |cpus: &f64| curve.interval(*cpus)[0] >= share * best.rate.interval[1];
    let fewest = |enough: &dyn Fn(&f64) -> bool| grid.cpus().iter().copied().find(|cpus| enough(cpus));
    let (low, high) = (fewest(&may).unwrap_or(cpus), fewest(&must).unwrap_or(best.cpus));
    Knee {
        share,
        cpus,
        verified: known(cpus) && grid.before(cpus).is_none_or(known),
        between: [low.min(cpus), high.max(cpus)],
    }
}
