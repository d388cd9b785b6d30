//! From the memory of tensors to the memory used: the overhead of the process is added, between a floor and a cap.

use super::search::search;
use serde::{Deserialize, Serialize};

/// `used = clamp(large + (small - large) x smallness + demand, floor, cap)`, in MiB; demand is the memory of the
/// allocator and of the loaded code.
///
/// The floor exists only where the rows show it. A cap needs more evidence: on a device that was never full nothing
/// shows where memory ends, and its largest row is only the largest that was tried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UsageCurve {
    /// Memory of the process besides the tensors of large batches: a CUDA context, libraries.
    pub large: f64,
    /// The same for a single sample: libraries choose among more algorithms for small batches and load the kernels of
    /// each.
    pub small: f64,
    /// Memory of the process while it starts, and therefore the minimum even for the smallest network.
    pub floor: Option<f64>,
    /// Memory that the device can give.
    pub cap: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct UsagePoint {
    /// The demand on the device.
    pub load: MemoryLoad,
    /// MiB.
    pub used: f64,
    pub weight: f64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct MemoryLoad {
    /// MiB that the allocator took, measured where the profile has it, else simulated; plus the loaded code.
    pub demand: f64,
    /// Samples of a pass; libraries run the passes one after the other.
    pub batch: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CurveBends {
    /// Where the memory of a starting process counts as used.
    pub floor: bool,
    /// Where the device was full in some row.
    pub cap: bool,
}

/// A further number must reduce the mean relative error by this much, or it is left out.
const WORTH: f64 = 0.0005;

/// MiB that exceed any device: a pebibyte.
const MOST: f64 = (1u64 << 30) as f64;

/// At least this many rows must be on a floor or a cap: fewer may be chance.
const FEWEST_BOUND: usize = 5;

/// From this batch size on libraries have settled on one kind of kernel.
const LARGE: f64 = 128.0;

/// From 1 for one sample to 0 for large batches, by doublings.
fn smallness(batch: u64) -> f64 {
    (1.0 - (batch as f64).log2() / LARGE.log2()).clamp(0.0, 1.0)
}

/// Large, small, floor, cap.
type CurveValues = [f64; 4];

const FLOOR: usize = 2;
const CAP: usize = 3;

impl UsageCurve {
    /// A constant number of MiB in addition to the tensors, at any batch size.
    pub fn flat(constant: f64) -> Self {
        UsageCurve { large: constant, small: constant, floor: None, cap: None }
    }

    /// MiB used.
    pub fn used_memory(&self, load: &MemoryLoad) -> f64 {
        value(self.numbers(), load)
    }

    /// The curve of least weighted absolute relative error, which is robust against outliers.
    pub fn fit(points: &[UsagePoint], bends: CurveBends) -> Self {
        let used = |fold: fn(f64, f64) -> f64, from: f64| points.iter().map(|point| point.used).fold(from, fold);
        let (least, most) = (used(f64::min, f64::INFINITY), used(f64::max, 0.0));
        let step = 0.1 * least;
        let mut free = [true, true, false, false];
        let fit = |start: CurveValues, free: [bool; 4]| {
            search(start, free.map(|free| if free { step } else { 0.0 }), |numbers| loss(numbers, points))
        };
        let mut best = fit([0.5 * least, 0.5 * least, 0.0, f64::INFINITY], free);
        let worth = WORTH * points.iter().map(|point| point.weight).sum::<f64>();
        let bends = [(FLOOR, least, bends.floor), (CAP, most, bends.cap)];
        for (index, start, _) in bends.into_iter().filter(|(_, _, allowed)| *allowed) {
            let (mut numbers, mut more) = (best.0, free);
            (numbers[index], more[index]) = (start, true);
            let bent = fit(numbers, more);
            if bent.1 < best.1 - worth && bound(bent.0, index, points) >= FEWEST_BOUND {
                (best, free) = (bent, more);
            }
        }
        let [large, small, floor, cap] = best.0;
        UsageCurve { large, small, floor: (floor > 0.0).then_some(floor), cap: cap.is_finite().then_some(cap) }
    }

    /// Whether the numbers of a file are possible for a device.
    pub fn is_valid(&self) -> bool {
        let UsageCurve { large, small, floor, cap } = *self;
        let bounds = [floor.unwrap_or(0.0), cap.unwrap_or(MOST)];
        bounds[0] <= bounds[1] && [large, small, bounds[0], bounds[1]].iter().all(|mib| (0.0..=MOST).contains(mib))
    }

    fn numbers(&self) -> CurveValues {
        [self.large, self.small, self.floor.unwrap_or(0.0), self.cap.unwrap_or(f64::INFINITY)]
    }
}

fn value(numbers: CurveValues, load: &MemoryLoad) -> f64 {
    line(numbers, load).max(numbers[FLOOR]).min(numbers[CAP])
}

fn line([large, small, ..]: CurveValues, load: &MemoryLoad) -> f64 {
    large + (small - large) * smallness(load.batch) + load.demand
}

fn bound(numbers: CurveValues, index: usize, points: &[UsagePoint]) -> usize {
    let beyond = |point: &&UsagePoint| {
        let line = line(numbers, &point.load);
        if index == FLOOR { line < numbers[FLOOR] } else { line > numbers[CAP] }
    };
    points.iter().filter(beyond).count()
}

fn loss(numbers: CurveValues, points: &[UsagePoint]) -> f64 {
    let error = |point: &UsagePoint| {
        let value = value(numbers, &point.load);
        // Close to the logarithm of their ratio: too high by a factor counts as much as too low by it.
        point.weight * (value - point.used).abs() / (value * point.used).sqrt()
    };
    let [large, small, floor, cap] = numbers;
    match floor <= cap && large >= 0.0 && small >= 0.0 {
        true => points.iter().map(error).sum(),
        false => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: CurveBends = CurveBends { floor: true, cap: true };

    fn points(curve: UsageCurve) -> Vec<UsagePoint> {
        let batches = (0..=8u32).map(|doublings| 1u64 << doublings);
        let steps = batches.flat_map(|batch| {
            [10.0, 15.0, 35.0, 50.0].map(|sample| MemoryLoad { demand: 60.0 + sample * batch as f64, batch })
        });
        steps.map(|load| UsagePoint { load, used: curve.used_memory(&load), weight: 1.0 }).collect()
    }

    const PLAIN: UsageCurve = UsageCurve { large: 90.0, small: 90.0, floor: None, cap: None };

    #[test]
    fn the_numbers_behind_the_rows_are_found_again() {
        let truth = UsageCurve { large: 1100.0, small: 1350.0, floor: Some(1450.0), cap: Some(3000.0) };
        let found = UsageCurve::fit(&points(truth), ALL);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 0.02 * b, "{found:?}");
        close(found.large, 1100.0);
        close(found.small, 1350.0);
        close(found.floor.unwrap(), 1450.0);
        close(found.cap.unwrap(), 3000.0);
    }

    #[test]
    fn a_device_that_was_never_full_has_no_cap() {
        let found = UsageCurve::fit(&points(PLAIN), ALL);
        assert_eq!((found.floor, found.cap), (None, None));
        let load = MemoryLoad { demand: 1e6, batch: 1 };
        assert!((found.used_memory(&load) - 1e6 - 90.0).abs() < 1.0);
    }

    #[test]
    fn the_largest_row_is_no_cap_unless_the_device_was_full() {
        let points = points(UsageCurve { cap: Some(900.0), ..PLAIN });
        assert!(UsageCurve::fit(&points, ALL).cap.is_some());
        assert_eq!(UsageCurve::fit(&points, CurveBends { cap: false, ..ALL }).cap, None);
    }
}
