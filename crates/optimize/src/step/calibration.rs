//! How far predictions are off, by leaving rows and groups of rows out of the fit.
//!
//! The model is linear around its fit, so what it predicts for rows that were left out is known without fitting again
//! (Rasmussen and Williams 2006, section 5.4.2).

use super::posterior::Marginal;
use crate::plan::Plan;
use ndarray::{Array2, Axis};
use perf4sight_base::error::Result;
use perf4sight_base::stats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::factor::Factor;

/// The share of measurements that intervals hold.
pub(super) const HELD: f64 = 90.0;
/// The quantile of a normal distribution that holds this share on both sides.
const NORMAL: f64 = 1.645;
/// Groups of a number that are left out need as many rows outside to be fitted on.
const LEAST_OUTSIDE: usize = 8;

/// By how many of the model's standard deviations measurements are off at most, [`HELD`] percent of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Calibration {
    /// Plans like those that were measured.
    pub alike: f64,
    /// Plans with a number, such as a degree, that was never measured.
    pub unlike: f64,
}

impl Calibration {
    /// Leaves out each row, and each value of each number of the plans.
    ///
    /// # Errors
    /// See [`Factor::new`].
    pub fn new(marginal: &Marginal, plans: &[Plan]) -> Result<Self> {
        let inverse = marginal.factor.inverse();
        let solved = inverse.dot(&marginal.beyond);
        let rows = solved.iter().zip(inverse.diag()).map(|(solved, inverse)| (solved / inverse.sqrt()).abs());
        let alike = quantile(rows.collect());
        let mut left_out = Vec::new();
        for group in groups(plans) {
            let block = Factor::new(block(&inverse, &group))?;
            let off = block.solve_vector(solved.select(Axis(0), &group));
            let variances = block.inverse();
            left_out.extend(off.iter().zip(variances.diag()).map(|(off, variance)| (off / variance.sqrt()).abs()));
        }
        // Where no number has two values, nothing is known of others: the model's own belief stands.
        Ok(Calibration { alike, unlike: quantile(left_out).max(alike).max(NORMAL) })
    }
}

/// The quantile of distances in standard deviations, no sharper than few rows can show.
fn quantile(distances: Vec<f64>) -> f64 {
    if distances.is_empty() {
        return NORMAL;
    }
    // With n rows the order statistic n + 1 would hold the share exactly (conformal prediction).
    let share = HELD * (distances.len() as f64 + 1.0) / distances.len() as f64;
    stats::percentile(&distances, share.min(100.0))
}

/// Rows that share a value of a number, where enough rows have another one.
fn groups(plans: &[Plan]) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<(usize, u64), Vec<usize>> = BTreeMap::new();
    for (row, plan) in plans.iter().enumerate() {
        for (column, (_, value)) in plan.numbers().into_iter().enumerate() {
            groups.entry((column, value)).or_default().push(row);
        }
    }
    groups.into_values().filter(|group| group.len() + LEAST_OUTSIDE <= plans.len()).collect()
}

fn block(matrix: &Array2<f64>, places: &[usize]) -> Array2<f64> {
    matrix.select(Axis(0), places).select(Axis(1), places)
}
