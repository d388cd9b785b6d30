//! From the memory that tensors take to the memory that is used: the process beside it, between a floor and a cap.

use super::search::search;
use serde::{Deserialize, Serialize};

/// `used = clamp(large + (small - large) x smallness + demand, floor, cap)`, in MiB; demand is what the allocator took.
///
/// Without a floor or cap that the rows show there is none: on a device that was never full nothing says where memory ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Curve {
    /// What the process needs beside the tensors of large batches: a CUDA context, libraries.
    pub large: f64,
    /// What it needs beside those of a single sample: libraries choose among more algorithms for small batches and load the kernels of
    /// each.
    pub small: f64,
    /// What the process needs while it starts, and therefore even for the smallest network.
    pub floor: Option<f64>,
    /// What the device can give.
    pub cap: Option<f64>,
}

/// One measured row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    /// MiB that the allocator took: measured where the profile has it, else simulated.
    pub demand: f64,
    /// Of [`smallness`].
    pub smallness: f64,
    /// MiB.
    pub used: f64,
    /// How much it counts.
    pub weight: f64,
}

/// A floor or a cap must take away this much of the mean relative error, or it is not there.
const WORTH: f64 = 0.0005;

/// MiB beyond any device: a pebibyte.
const MOST: f64 = (1u64 << 30) as f64;

/// From this batch size on libraries have settled on one kind of kernel.
const LARGE: f64 = 128.0;

/// From 1 for one sample to 0 for large batches, by doublings.
pub(super) fn smallness(batch: u64) -> f64 {
    (1.0 - (batch as f64).log2() / LARGE.log2()).clamp(0.0, 1.0)
}

/// Large, small, floor, cap.
type Numbers = [f64; 4];

impl Curve {
    /// MiB used.
    pub fn at(&self, demand: f64, batch: u64) -> f64 {
        value(self.numbers(), demand, smallness(batch))
    }

    /// The curve of least weighted relative error: outliers pull it no more than their neighbours.
    pub fn fit(points: &[Point]) -> Self {
        let used = |fold: fn(f64, f64) -> f64, from: f64| points.iter().map(|point| point.used).fold(from, fold);
        let (least, most) = (used(f64::min, f64::INFINITY), used(f64::max, 0.0));
        let step = 0.1 * least;
        let fit = |start: Numbers, [floor, cap]: [f64; 2]| {
            search(start, [step, step, floor, cap], |numbers| loss(numbers, points))
        };
        let mut best = fit([0.5 * least, 0.5 * least, 0.0, f64::INFINITY], [0.0; 2]);
        let worth = WORTH * points.iter().map(|point| point.weight).sum::<f64>();
        for (index, start) in [(2, least), (3, most)] {
            let mut numbers = best.0;
            numbers[index] = start;
            let steps = [2, 3].map(|bound| if numbers[bound] > 0.0 && numbers[bound].is_finite() { step } else { 0.0 });
            let bounded = fit(numbers, steps);
            if bounded.1 < best.1 - worth {
                best = bounded;
            }
        }
        let [large, small, floor, cap] = best.0;
        Curve { large, small, floor: (floor > 0.0).then_some(floor), cap: cap.is_finite().then_some(cap) }
    }

    /// Whether a file holds what a device can have.
    pub fn is_sound(&self) -> bool {
        let Curve { large, small, floor, cap } = *self;
        let bounds = [floor.unwrap_or(0.0), cap.unwrap_or(MOST)];
        bounds[0] <= bounds[1] && [large, small, bounds[0], bounds[1]].iter().all(|mib| (0.0..=MOST).contains(mib))
    }

    fn numbers(&self) -> Numbers {
        [self.large, self.small, self.floor.unwrap_or(0.0), self.cap.unwrap_or(f64::INFINITY)]
    }
}

fn value([large, small, floor, cap]: Numbers, demand: f64, smallness: f64) -> f64 {
    (large + (small - large) * smallness + demand).max(floor).min(cap)
}

fn loss(numbers: Numbers, points: &[Point]) -> f64 {
    let [large, small, floor, cap] = numbers;
    let error = |point: &Point| {
        let value = value(numbers, point.demand, point.smallness);
        // Close to the logarithm of their ratio: too high by a factor counts as much as too low by it.
        point.weight * (value - point.used).abs() / (value * point.used).sqrt()
    };
    match floor <= cap && large >= 0.0 && small >= 0.0 {
        true => points.iter().map(error).sum(),
        false => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(curve: Curve) -> Vec<Point> {
        let batches = (0..=8u32).map(|doublings| 1u64 << doublings);
        let steps = batches.flat_map(|batch| [10.0, 35.0].map(|sample| (batch, 60.0 + sample * batch as f64)));
        let point =
            |(batch, demand)| Point { demand, smallness: smallness(batch), used: curve.at(demand, batch), weight: 1.0 };
        steps.map(point).collect()
    }

    #[test]
    fn the_numbers_behind_the_rows_are_found_again() {
        let truth = Curve { large: 1100.0, small: 1350.0, floor: Some(1400.0), cap: Some(5000.0) };
        let found = Curve::fit(&points(truth));
        let close = |a: f64, b: f64| assert!((a - b).abs() < 0.02 * b, "{found:?}");
        close(found.large, 1100.0);
        close(found.small, 1350.0);
        close(found.cap.unwrap(), 5000.0);
        close(found.floor.unwrap(), 1400.0);
    }

    #[test]
    fn a_device_that_was_never_full_has_no_cap() {
        let truth = Curve { large: 90.0, small: 90.0, floor: None, cap: None };
        let found = Curve::fit(&points(truth));
        assert_eq!((found.floor, found.cap), (None, None));
        assert!((found.at(1e6, 1) - 1e6 - 90.0).abs() < 1.0);
    }
}
