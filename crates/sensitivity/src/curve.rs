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

/// Where a rate lies that was not measured, in iterations a second.
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

    /// Where the rate lies at a number of CPUs: what was measured there, or what a concave curve allows that comes from nothing at no CPUs.
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

    /// Where the rate lies at a number of CPUs, by what the rates around are uncertain by: as it was measured there, or in the sandwich of
    /// the ends of its neighbours' intervals. Nothing that was not measured is known better than what it is told from.
    pub fn interval(&self, cpus: f64) -> [f64; 2] {
        let after = self.points.partition_point(|point| point.cpus < cpus);
        match self.points.get(after) {
            Some(point) if point.cpus == cpus => point.rate.interval,
            Some(_) if self.oddities().is_empty() => self.sandwich(after, cpus),
            _ => self.around(after),
        }
    }

    /// At a number of CPUs before the point with this index, where the curve may run through any ends of intervals.
    fn sandwich(&self, after: usize, cpus: f64) -> [f64; 2] {
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
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> Curve {
        let points: Vec<Point> =
            points.iter().map(|(cpus, rate)| Point { cpus: *cpus, rate: Rate::exactly(*rate) }).collect();
        Curve::of(&points).unwrap()
    }

    /// Lines through (0, 0) and (2, 4), (2, 4) and (6, 6), (6, 6) and (8, 6).
    #[test]
    fn a_concave_curve_lies_between_chords_and_extended_lines() {
        let curve = curve(&[(2.0, 4.0), (6.0, 6.0), (8.0, 6.0)]);
        assert_eq!(curve.at(2.0), Between { least: 4.0, most: 4.0 });
        // The chord (2, 4)-(6, 6) at 4: 5; the line from the origin would reach 8, the one from the right stays at 6.
        assert_eq!(curve.at(4.0), Between { least: 5.0, most: 6.0 });
        // From the origin to (2, 4) at 1: 2; extended backwards (2, 4)-(6, 6) reaches 3.5.
        assert_eq!(curve.at(1.0), Between { least: 2.0, most: 3.5 });
        assert_eq!(curve.at(7.0), Between { least: 6.0, most: 6.0 });
        assert_eq!(curve.at(20.0), Between { least: 6.0, most: 6.0 });
    }

    /// 10 and 10.2 iterations a second: known to 3 %, the job has enough; where the second may be 30, nobody knows.
    #[test]
    fn whether_a_curve_levels_off_is_open_where_its_best_rate_is() {
        let levels = |least: f64, most: f64| {
            let first = Point { cpus: 1.0, rate: Rate { per_second: 10.0, interval: [9.7, 10.3] } };
            let second = Point { cpus: 2.0, rate: Rate { per_second: 10.2, interval: [least, most] } };
            Curve::of(&[first, second]).unwrap().levels_off(0.95)
        };
        assert!(levels(9.9, 10.5) && !levels(9.9, 30.0));
    }

    #[test]
    fn bends_upwards_and_falls_are_told_and_noise_is_not() {
        assert_eq!(curve(&[(1.0, 1.0), (2.0, 1.2), (3.0, 3.0)]).oddities(), [Oddity::NotConcave(2.0)]);
        assert_eq!(curve(&[(1.0, 1.0), (2.0, 0.8)]).oddities(), [Oddity::Falls(2.0)]);
        let noisy = |per_second: f64| Rate { per_second, interval: [0.9 * per_second, 1.1 * per_second] };
        let points = [(1.0, 1.0), (2.0, 0.9)].map(|(cpus, rate)| Point { cpus, rate: noisy(rate) });
        assert_eq!(Curve::of(&points).unwrap().oddities(), []);
    }

    /// Disturbed: 14.5 to 20.4 iterations a second at a quarter of a CPU and 14.8 to 57.1 at one.
    #[test]
    fn nothing_between_or_beyond_is_known_better_than_its_neighbours() {
        let point =
            |cpus: f64, per_second: f64, interval: [f64; 2]| Point { cpus, rate: Rate { per_second, interval } };
        let curve = Curve::of(&[point(0.25, 15.1, [14.5, 20.4]), point(1.0, 15.5, [14.8, 57.1])]).unwrap();
        let near = |found: [f64; 2], expected: [f64; 2]| {
            assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-9), "{found:?}");
        };
        // The chord of 14.5 and 14.8; from nothing through 20.4 at a quarter to 40.8 at a half, and to no more than 57.1 later.
        near(curve.interval(0.5), [14.6, 40.8]);
        near(curve.interval(0.7), [14.68, 57.1]);
        near(curve.interval(1.0), [14.8, 57.1]);
        near(curve.interval(2.0), [14.8, 57.1]);
        // From nothing to 14.5; backwards, the line from 20.4 to 14.8 rises, but more CPUs do not make it slower.
        near(curve.interval(0.125), [7.25, 20.4]);
        // 1, 1.2 and 3 are no concave curve: between them it may run anywhere from one to the other.
        let bent = [(1.0, 1.0), (2.0, 1.2), (3.0, 3.0)].map(|(cpus, rate)| point(cpus, rate, [rate; 2]));
        near(Curve::of(&bent).unwrap().interval(2.5), [1.2, 3.0]);
    }
}
