//! From simulated to used memory: a straight line between a floor and a cap.

use serde::{Deserialize, Serialize};

/// `used = clamp(offset + slope x simulated, floor, cap)`, in MiB.
///
/// The offset is what the process needs besides tensors (the CUDA context, loaded kernels); the floor what it reaches even for the smallest
/// network; the cap where a device with one memory for all starts to swap.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Curve {
    pub offset: f64,
    pub slope: f64,
    pub floor: f64,
    pub cap: f64,
}

/// One measured row: simulated and used, in MiB, and how much it weighs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub simulated: f64,
    pub used: f64,
    pub weight: f64,
}

/// Rounds of the pattern search; every one without progress halves the steps.
const ROUNDS: usize = 200;

impl Curve {
    pub fn at(&self, simulated: f64) -> f64 {
        (self.offset + self.slope * simulated).clamp(self.floor, self.cap)
    }

    /// The curve of least weighted absolute error of logarithms: outliers pull it no more than their neighbours.
    pub fn fit(points: &[Point]) -> Self {
        let used = |fold: fn(f64, f64) -> f64, from: f64| points.iter().map(|point| point.used).fold(from, fold);
        let (least, most) = (used(f64::min, f64::INFINITY), used(f64::max, 0.0));
        let start = Curve { offset: least, slope: 1.0, floor: least, cap: most };
        search(start, |curve| curve.loss(points))
    }

    fn loss(&self, points: &[Point]) -> f64 {
        let ordered = self.floor > 0.0 && self.floor <= self.cap && self.slope >= 0.0;
        match ordered {
            true => points.iter().map(|point| point.weight * (self.at(point.simulated) / point.used).ln().abs()).sum(),
            false => f64::INFINITY,
        }
    }

    fn numbers(&self) -> [f64; 4] {
        [self.offset, self.slope, self.floor, self.cap]
    }

    fn from_numbers([offset, slope, floor, cap]: [f64; 4]) -> Self {
        Curve { offset, slope, floor, cap }
    }
}

/// Pattern search (R. Hooke, T. A. Jeeves, 1961): one number at a time, a step up or down, smaller steps when none helps.
fn search(start: Curve, loss: impl Fn(&Curve) -> f64) -> Curve {
    let (mut best, mut least) = (start, loss(&start));
    let mut steps = [0.25 * start.offset, 0.25, 0.25 * start.floor, 0.25 * start.cap];
    for _ in 0..ROUNDS {
        let before = least;
        for index in 0..steps.len() {
            for direction in [1.0, -1.0] {
                let mut numbers = best.numbers();
                numbers[index] += direction * steps[index];
                let candidate = Curve::from_numbers(numbers);
                let value = loss(&candidate);
                if value < least {
                    (best, least) = (candidate, value);
                }
            }
        }
        if least == before {
            steps.iter_mut().for_each(|step| *step /= 2.0);
        }
    }
    best
}
