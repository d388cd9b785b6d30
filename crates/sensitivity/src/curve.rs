//! A job's rate over CPUs from measured points, with bounds between them.

use crate::rate::{IterationRate, KNOWN};
use serde::{Deserialize, Serialize};

/// The rate at a number of CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RatePoint {
    /// CPUs of the job.
    pub cpus: f64,
    /// Its iterations a second.
    pub rate: IterationRate,
}

/// Points of one job, sorted by CPUs; at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct RateCurve {
    points: Vec<RatePoint>,
}

/// Bounds of a rate that was not measured, in iterations a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateBounds {
    /// On the chord of the two neighbours: no concave curve is below it.
    pub least: f64,
    /// On the extended lines of the outer neighbours, and at most the rate with more CPUs: no concave, non-decreasing
    /// curve is above it.
    pub most: f64,
}

/// A contradiction to the assumed shape of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CurveOddity {
    /// It is convex at this number of CPUs: below the line between the neighbours.
    NotConcave(f64),
    /// It is lower at this number of CPUs than at fewer.
    Falls(f64),
}

/// A deviation below this share of the best rate is ignored: intervals may be narrower than the differences between
/// runs.
const BEND: f64 = 0.01;

impl RateCurve {
    /// Builds a curve from points in any order; of several with the same CPUs, the last one counts. None without
    /// points.
    pub fn new(points: &[RatePoint]) -> Option<Self> {
        let mut sorted: Vec<RatePoint> = Vec::new();
        for point in points {
            sorted.retain(|other| other.cpus != point.cpus);
            sorted.push(*point);
        }
        sorted.sort_by(|a, b| a.cpus.total_cmp(&b.cpus));
        (!sorted.is_empty()).then_some(RateCurve { points: sorted })
    }

    /// All points, sorted by CPUs.
    pub fn points(&self) -> &[RatePoint] {
        &self.points
    }

    /// The point with the highest rate; of equals, the one with the fewest CPUs.
    pub fn highest(&self) -> RatePoint {
        let better = |best: RatePoint, point: &RatePoint| {
            if point.rate.per_second > best.rate.per_second { *point } else { best }
        };
        self.points.iter().fold(self.points[0], better)
    }

    /// Whether the curve surely reaches a share of the best rate with fewer CPUs than the most that were measured. If
    /// not, or if the best rate may be much higher than measured, the effect of more CPUs is unknown.
    pub fn levels_off(&self, share: f64) -> bool {
        let best = self.highest().rate.per_second;
        let top = self.points.iter().map(|point| point.rate.interval[1]).fold(best, f64::max);
        // Uncertainty within [`KNOWN`] is ignored, because every rate has it.
        let at_least = |rate: IterationRate| rate.per_second.min(rate.interval[0] * (1.0 + KNOWN));
        let wanted = share * best.max(top * (1.0 - KNOWN));
        let enough = |point: &RatePoint| at_least(point.rate) >= wanted;
        self.points[..self.points.len() - 1].iter().any(enough)
    }

    /// The rate measured at a number of CPUs.
    pub fn measured(&self, cpus: f64) -> Option<IterationRate> {
        self.points.iter().find(|point| point.cpus == cpus).map(|point| point.rate)
    }

    /// The bounds of the rate at a number of CPUs: the measured rate, or the bounds of a concave curve through the
    /// origin. Beyond the most CPUs the rate is assumed to be constant.
    pub fn bounds_at(&self, cpus: f64) -> RateBounds {
        let after = self.points.partition_point(|point| point.cpus < cpus);
        let known = |point: &RatePoint| RateBounds { least: point.rate.per_second, most: point.rate.per_second };
        match self.points.get(after) {
            Some(point) if point.cpus == cpus => known(point),
            Some(_) => self.bounds_between(after, cpus),
            None => known(&self.points[after - 1]),
        }
    }

    /// The bounds at a number of CPUs between the point with index `after` and the previous one.
    fn bounds_between(&self, after: usize, cpus: f64) -> RateBounds {
        let corner = |index: usize| (self.points[index].cpus, self.points[index].rate.per_second);
        let before = |index: usize| if index == 0 { (0.0, 0.0) } else { corner(index - 1) };
        let (left, right) = (before(after), corner(after));
        let least = line(left, right, cpus);
        let from_left = (after > 0).then(|| line(before(after - 1), left, cpus));
        let from_right = (after + 1 < self.points.len()).then(|| line(right, corner(after + 1), cpus));
        // Noise may put a point with more CPUs below one with fewer.
        let reached = self.points[..=after].iter().map(|point| point.rate.per_second).fold(0.0, f64::max);
        let most = from_left.into_iter().chain(from_right).fold(reached, f64::min);
        RateBounds { least, most: most.max(least) }
    }

    /// The interval of the rate at a number of CPUs: the measured interval, or the bounds of a concave curve through
    /// the intervals of the neighbours. An interpolated rate is never more certain than the rates it is derived from.
    pub fn interval(&self, cpus: f64) -> [f64; 2] {
        let after = self.points.partition_point(|point| point.cpus < cpus);
        match self.points.get(after) {
            Some(point) if point.cpus == cpus => point.rate.interval,
            Some(_) if self.oddities().is_empty() => self.concave_bounds(after, cpus),
            _ => self.monotone_bounds(after),
        }
    }

    /// The bounds between two points, when the curve may pass through any values of their intervals.
    fn concave_bounds(&self, after: usize, cpus: f64) -> [f64; 2] {
        let [low, high] = [0, 1]
            .map(|end: usize| move |index: usize| (self.points[index].cpus, self.points[index].rate.interval[end]));
        let before = |index: usize| if index == 0 { (0.0, 0.0) } else { low(index - 1) };
        let from_left = (after > 0).then(|| line(before(after - 1), high(after - 1), cpus));
        let from_right = (after + 1 < self.points.len()).then(|| line(high(after), low(after + 1), cpus));
        let least = line(before(after), low(after), cpus);
        // More CPUs may reach any rate that fewer CPUs may reach.
        let fewer = (0..after).map(|index| high(index).1).fold(least, f64::max);
        let most = from_left.into_iter().chain(from_right).fold(fewer.max(high(after).1), f64::min);
        [least, most.max(fewer)]
    }

    /// The bounds between the point with index `after` and the previous one, where only monotonicity is assumed: a rate
    /// between those of the neighbours, from zero at no CPUs.
    fn monotone_bounds(&self, after: usize) -> [f64; 2] {
        let neighbours = &self.points[after.saturating_sub(1)..self.points.len().min(after + 1)];
        let none = if after == 0 { 0.0 } else { f64::INFINITY };
        let low = neighbours.iter().map(|point| point.rate.interval[0]).fold(none, f64::min);
        [low, neighbours.iter().map(|point| point.rate.interval[1]).fold(0.0, f64::max)]
    }

    /// The points that contradict a concave, non-decreasing curve by more than their uncertainty.
    pub fn oddities(&self) -> Vec<CurveOddity> {
        let slack = BEND * self.highest().rate.per_second;
        let bends = self.points.windows(3).filter_map(|three| {
            let low = |point: &RatePoint| (point.cpus, point.rate.interval[0]);
            let chord = line(low(&three[0]), low(&three[2]), three[1].cpus);
            (three[1].rate.interval[1] + slack < chord).then_some(CurveOddity::NotConcave(three[1].cpus))
        });
        let falls = self.points.iter().enumerate().filter_map(|(index, point)| {
            let before = self.points[..index].iter().map(|other| other.rate.interval[0]).fold(0.0, f64::max);
            (point.rate.interval[1] + slack < before).then_some(CurveOddity::Falls(point.cpus))
        });
        bends.chain(falls).collect()
    }
}

/// The line through two corners, at `x`.
fn line(a: (f64, f64), b: (f64, f64), x: f64) -> f64 {
    a.1 + (b.1 - a.1) * (x - a.0) / (b.0 - a.0)
}

#[cfg(test)]
mod tests;
