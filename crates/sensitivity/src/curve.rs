//! A job's rate over CPUs, known at some numbers of them: what it is between them at least and at most.

use crate::rate::{KNOWN, Rate};
use serde::{Deserialize, Serialize};

/// The rate at a number of CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// How many CPUs the job had.
    pub cpus: f64,
    /// Its iterations a second.
    pub rate: Rate,
}

/// Points of one job, by CPUs; at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    points: Vec<Point>,
}

/// The bounds of a rate that was not measured, in iterations a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Between {
    /// On the chord of the two neighbours: below it no concave curve runs.
    pub least: f64,
    /// On the lines of the neighbours beyond, and not above what more CPUs reach: above it no concave curve runs that does not fall.
    pub most: f64,
}

/// How a curve is other than the search takes it to be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Oddity {
    /// It bends upwards at this number of CPUs: less there than on the line between its neighbours.
    NotConcave(f64),
    /// It is lower at this number of CPUs than at fewer.
    Falls(f64),
}

/// Less than this share of the best rate is no bend: intervals may be narrower than what differs from run to run.
const BEND: f64 = 0.01;

impl Curve {
    /// Of points in any order, the last of each number of CPUs; none of none.
    pub fn of(points: &[Point]) -> Option<Self> {
        let mut sorted: Vec<Point> = Vec::new();
        for point in points {
            sorted.retain(|other| other.cpus != point.cpus);
            sorted.push(*point);
        }
        sorted.sort_by(|a, b| a.cpus.total_cmp(&b.cpus));
        (!sorted.is_empty()).then_some(Curve { points: sorted })
    }

    /// By CPUs.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The point with the highest rate; of equals, the one with the fewest CPUs.
    pub fn best(&self) -> Point {
        let better =
            |best: Point, point: &Point| if point.rate.per_second > best.rate.per_second { *point } else { best };
        self.points.iter().fold(self.points[0], better)
    }

    /// Whether a share of the best rate is reached for sure with fewer CPUs than the most it is known at: what more than these bring is open
    /// else, as it is where the best rate may be much higher than it was measured.
    pub fn levels_off(&self, share: f64) -> bool {
        let best = self.best().rate.per_second;
        let top = self.points.iter().map(|point| point.rate.interval[1]).fold(best, f64::max);
        // No rate is known better than this, so that such a doubt is none.
        let at_least = |rate: Rate| rate.per_second.min(rate.interval[0] * (1.0 + KNOWN));
        let wanted = share * best.max(top * (1.0 - KNOWN));
        let enough = |point: &Point| at_least(point.rate) >= wanted;
        self.points[..self.points.len() - 1].iter().any(enough)
    }

    /// The rate measured at a number of CPUs.
    pub fn measured(&self, cpus: f64) -> Option<Rate> {
        self.points.iter().find(|point| point.cpus == cpus).map(|point| point.rate)
    }

    /// The bounds of the rate at a number of CPUs: what was measured there, or what a concave curve allows that comes from nothing at no CPUs.
    /// Beyond the most CPUs it is taken to stay.
    pub fn at(&self, cpus: f64) -> Between {
        let after = self.points.partition_point(|point| point.cpus < cpus);
        let known = |point: &Point| Between { least: point.rate.per_second, most: point.rate.per_second };
        match self.points.get(after) {
            Some(point) if point.cpus == cpus => known(point),
            Some(_) => self.between(after, cpus),
            None => known(&self.points[after - 1]),
        }
    }

    /// At a number of CPUs before the point with this index, and behind the one before.
    fn between(&self, after: usize, cpus: f64) -> Between {
        let corner = |index: usize| (self.points[index].cpus, self.points[index].rate.per_second);
        let before = |index: usize| if index == 0 { (0.0, 0.0) } else { corner(index - 1) };
        let (left, right) = (before(after), corner(after));
        let least = line(left, right, cpus);
        let from_left = (after > 0).then(|| line(before(after - 1), left, cpus));
        let from_right = (after + 1 < self.points.len()).then(|| line(right, corner(after + 1), cpus));
        // Noise may put a point with more CPUs below one with fewer.
        let reached = self.points[..=after].iter().map(|point| point.rate.per_second).fold(0.0, f64::max);
        let most = from_left.into_iter().chain(from_right).fold(reached, f64::min);
        Between { least, most: most.max(least) }
    }

    /// The interval of the rate at a number of CPUs, by those of the rates around: as it was measured there, or within the
    /// bounds that concavity sets for the ends of its neighbours' intervals. Nothing that was not measured is known better than what it is derived from.
    pub fn interval(&self, cpus: f64) -> [f64; 2] {
        let after = self.points.partition_point(|point| point.cpus < cpus);
        match self.points.get(after) {
            Some(point) if point.cpus == cpus => point.rate.interval,
            Some(_) if self.oddities().is_empty() => self.concave_bounds(after, cpus),
            _ => self.around(after),
        }
    }

    /// At a number of CPUs before the point with this index, where the curve may run through any ends of intervals.
    fn concave_bounds(&self, after: usize, cpus: f64) -> [f64; 2] {
        let [low, high] = [0, 1]
            .map(|end: usize| move |index: usize| (self.points[index].cpus, self.points[index].rate.interval[end]));
        let before = |index: usize| if index == 0 { (0.0, 0.0) } else { low(index - 1) };
        let from_left = (after > 0).then(|| line(before(after - 1), high(after - 1), cpus));
        let from_right = (after + 1 < self.points.len()).then(|| line(high(after), low(after + 1), cpus));
        let least = line(before(after), low(after), cpus);
        // What fewer CPUs may reach, more of them may too.
        let fewer = (0..after).map(|index| high(index).1).fold(least, f64::max);
        let most = from_left.into_iter().chain(from_right).fold(fewer.max(high(after).1), f64::min);
        [least, most.max(fewer)]
    }

    /// Between the points before and with this index, whichever there are, where nothing else is taken for granted than that no CPU makes a
    /// job slower than it was with fewer or faster than with more; from nothing at no CPUs.
    fn around(&self, after: usize) -> [f64; 2] {
        let neighbours = &self.points[after.saturating_sub(1)..self.points.len().min(after + 1)];
        let none = if after == 0 { 0.0 } else { f64::INFINITY };
        let low = neighbours.iter().map(|point| point.rate.interval[0]).fold(none, f64::min);
        [low, neighbours.iter().map(|point| point.rate.interval[1]).fold(0.0, f64::max)]
    }

    /// What does not fit a concave curve that does not fall, beyond what points are uncertain by.
    pub fn oddities(&self) -> Vec<Oddity> {
        let slack = BEND * self.best().rate.per_second;
        let bends = self.points.windows(3).filter_map(|three| {
            let low = |point: &Point| (point.cpus, point.rate.interval[0]);
            let chord = line(low(&three[0]), low(&three[2]), three[1].cpus);
            (three[1].rate.interval[1] + slack < chord).then_some(Oddity::NotConcave(three[1].cpus))
        });
        let falls = self.points.iter().enumerate().filter_map(|(index, point)| {
            let before = self.points[..index].iter().map(|other| other.rate.interval[0]).fold(0.0, f64::max);
            (point.rate.interval[1] + slack < before).then_some(Oddity::Falls(point.cpus))
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
