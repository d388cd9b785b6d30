//! The residual of the physical time, learned by trees from the breakdown of a step, within bounds.

use super::layers::OperationCorrections;
use super::physics::{PhysicalModel, TimeBreakdown};
use crate::features::physical::KernelClass;
use crate::trees::{ExtraTrees, Forest};
use linfa::ParamGuard;
use linfa::dataset::DatasetBase;
use linfa::traits::Fit;
use ndarray::{Array1, Array2};
use perf4sight_base::error::Result;
use serde::{Deserialize, Serialize};

/// Maximum correction of physics, in logarithms: about a third.
const BOUND: f64 = 0.3;

const TREES: usize = 50;

/// Leaves average a few rows, to reduce noise.
const SMALLEST_SPLIT: usize = 8;

/// Trees on log(measured / physical).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepCorrections {
    forest: Option<Forest>,
    /// The batch sizes it was fitted on: the smallest, the largest and powers of two between them, ascending.
    knots: Vec<f64>,
}

const COLUMNS: usize = KernelClass::ALL.len() + 3;

pub(super) struct StepResidual {
    pub(super) features: Vec<f64>,
    pub(super) batch: f64,
    /// log(measured / physical).
    pub(super) residual: f64,
}

/// The features of a step: the share of every class of operations, batch size, time per sample, time.
pub(super) fn features(spent: &TimeBreakdown, batch: f64) -> Vec<f64> {
    let total: f64 = spent.classes.iter().sum();
    let shares = spent.classes.map(|time| time / total);
    shares.into_iter().chain([batch, total / batch, total].map(f64::ln)).collect()
}

impl StepCorrections {
    pub(super) fn fit(seed: u64, rows: &[StepResidual]) -> Result<Self> {
        let matrix = Array2::from_shape_fn((rows.len(), COLUMNS), |(row, column)| rows[row].features[column]);
        let residuals = rows.iter().map(|row| row.residual.clamp(-BOUND, BOUND)).collect::<Array1<f64>>();
        let params = ExtraTrees::params(seed).trees(TREES).split_from(SMALLEST_SPLIT);
        let forest = params.check()?.fit(&DatasetBase::new(matrix, residuals))?;
        Ok(StepCorrections { forest: Some(forest), knots: knots(rows.iter().map(|row| row.batch)) })
    }

    /// Before any measurement: no correction.
    pub(super) fn unfitted() -> Self {
        StepCorrections { forest: None, knots: Vec::new() }
    }

    pub(super) fn is_taught(&self) -> bool {
        self.forest.is_some()
    }

    /// The curve from physical to corrected time for an unprofiled network.
    pub(super) fn curve(&self, physics: &PhysicalModel, corrections: &OperationCorrections) -> CorrectionCurve {
        let point = |batch: &f64| {
            let spent = physics.breakdown(&physics.part_times(corrections, *batch));
            let correction = |forest: &Forest| forest.predict_row(&features(&spent, *batch)).clamp(-BOUND, BOUND);
            (physics.time(*batch).ln(), spent.corrected.ln() + self.forest.as_ref().map_or(0.0, correction))
        };
        CorrectionCurve::new(self.knots.iter().map(point).collect())
    }

    /// The batch sizes of a curve's points, including the `measured` ones.
    pub(super) fn knots(&self, measured: impl Iterator<Item = u64>) -> Vec<f64> {
        let mut knots: Vec<f64> = self.knots.iter().copied().chain(measured.map(|batch| batch as f64)).collect();
        knots.sort_by(f64::total_cmp);
        knots.dedup();
        knots
    }

    /// The smallest and the largest batch size it was fitted on.
    pub(super) fn batches(&self) -> [f64; 2] {
        let end = |knot: Option<&f64>| knot.copied().unwrap_or(1.0);
        [end(self.knots.first()), end(self.knots.last())]
    }

    /// Whether the trees of a file have the features of this program.
    pub(super) fn is_valid(&self) -> bool {
        let ascending = self.knots.windows(2).all(|pair| pair[0] < pair[1]);
        let forest = self.forest.as_ref().is_some_and(|forest| forest.features() == COLUMNS);
        forest && ascending && self.knots.first().is_some_and(|batch| *batch >= 1.0)
    }
}

fn knots(batches: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let (low, high) = (batches.clone().fold(f64::INFINITY, f64::min), batches.fold(1.0, f64::max));
    let powers = (0..64).map(f64::from).map(f64::exp2).filter(|power| *power > low && *power < high);
    let mut knots: Vec<f64> = std::iter::once(low).chain(powers).chain(std::iter::once(high)).collect();
    knots.dedup();
    knots
}

/// Corrected over physical times of one network, both as logarithms. It is piecewise linear and never falls, so
/// corrected times still grow with the batch size.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CorrectionCurve(Vec<(f64, f64)>);

impl CorrectionCurve {
    /// Through these points, ascending in the first coordinate; where the second would fall it stays constant.
    fn new(mut points: Vec<(f64, f64)>) -> Self {
        for index in 1..points.len() {
            points[index].1 = points[index].1.max(points[index - 1].1);
        }
        CorrectionCurve(points)
    }

    /// The same, shifted by differences in the logarithm of corrected time at some physical times, ascending.
    pub(super) fn shifted(&self, by: impl Iterator<Item = (f64, f64)>) -> Self {
        CorrectionCurve::new(
            by.map(|(physical, effect)| (physical.ln(), self.corrected(physical).ln() + effect)).collect(),
        )
    }

    /// Corrected milliseconds; beyond its ends the correction stays constant.
    pub(super) fn corrected(&self, physical: f64) -> f64 {
        let log = physical.ln();
        let above = self.0.partition_point(|(x, _)| *x <= log);
        let corrected = match (above.checked_sub(1).map(|below| self.0[below]), self.0.get(above)) {
            (Some((x, y)), Some(&(next_x, next_y))) => y + (log - x) * (next_y - y) / (next_x - x),
            (Some((x, y)), None) => log - x + y,
            (None, Some(&(x, y))) => log - x + y,
            (None, None) => log,
        };
        corrected.exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_meets_its_points_and_never_falls() {
        // Corrected by factors 2, 0.5 and 1 at 1, 2 and 10 ms: the second would be faster than the first.
        let curve = CorrectionCurve::new(
            [(1.0, 2.0), (2.0, 1.0), (10.0, 10.0)].map(|(x, y): (f64, f64)| (x.ln(), y.ln())).to_vec(),
        );
        let at = |x: f64| (curve.corrected(x) * 1e9).round() / 1e9;
        assert_eq!([at(0.5), at(1.0), at(2.0), at(10.0), at(20.0)], [1.0, 2.0, 2.0, 10.0, 20.0]);
        // Halfway between 2 and 10 in logarithms, between 2 and 10.
        assert_eq!(at(20f64.sqrt()), (20f64.sqrt() * 1e9).round() / 1e9);
    }

    #[test]
    fn knots_span_what_was_measured() {
        assert_eq!(knots([70.0, 3.0, 9.0].into_iter()), [3.0, 4.0, 8.0, 16.0, 32.0, 64.0, 70.0]);
        assert_eq!(knots([4.0, 4.0].into_iter()), [4.0]);
    }
}
