//! How far predictions are off, by leaving rows and groups of rows out of the fit.
//!
//! The model is linear around its fit, so what it predicts for rows that were left out is known without fitting again
//! (Rasmussen and Williams 2006, section 5.4.2).

use super::factor::Factor;
use super::posterior::Marginal;
use crate::plan::Plan;
use ndarray::{Array1, Array2, Axis};
use perf4sight_base::error::Result;
use perf4sight_base::stats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The percentile of errors of rows left out that intervals reach: somewhat above the nine of ten that they hold
/// for others, for rows that were left out of the fit still chose its scales (table in `docs/cost-model.md`).
pub(super) const HELD: f64 = 92.0;
/// The quantile of a normal distribution that holds this share on both sides.
const NORMAL: f64 = 1.645;
/// Few rows also choose the scales that their deviations are measured in. A Student distribution of n degrees of
/// freedom has a 95th percentile of about `1.645 (1 + 0.92 / n)`, from n = 10 on.
const NOISE_OF_FEW: f64 = 0.92;
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

/// How far predictions were off for plans that were left out of the fit together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// What they have in common: each plan by itself, or all plans of one degree or size in turn.
    pub what: String,
    /// Number of plans that were left out in turn.
    pub plans: u64,
    /// Mean error in percent.
    pub mean_percent: f64,
    /// The worst error in percent.
    pub worst_percent: f64,
}

/// Predictions for rows that were left out: logarithms that are off, and those by the model's standard deviation.
#[derive(Default)]
struct Off {
    logarithms: Vec<f64>,
    deviations: Vec<f64>,
}

/// Leaves out each row, and all rows of each value of each number of the plans.
///
/// # Errors
/// See [`Factor::new`].
pub(super) fn calibrate(marginal: &Marginal, plans: &[Plan]) -> Result<(Calibration, Vec<LeftOut>)> {
    let inverse = marginal.factor.inverse();
    let solved = inverse.dot(&marginal.beyond);
    let mut each = Off::default();
    each.extend(&(&solved / &inverse.diag()), &inverse.diag().mapv(f64::recip));
    let mut left_out = vec![each.left_out("each plan")];
    let mut unlike = Vec::new();
    for (name, groups) in groups(plans) {
        let mut off = Off::default();
        for group in groups {
            let block = Factor::new(block(&inverse, &group))?;
            off.extend(&block.solve_vector(solved.select(Axis(0), &group)), &block.inverse().diag().to_owned());
        }
        left_out.push(off.left_out(&format!("all with the same {name}")));
        unlike.extend(off.deviations);
    }
    let alike = quantile(&each.deviations);
    // Where no number has two values, nothing is known of others: the model's own belief stands.
    Ok((Calibration { alike, unlike: quantile(&unlike).max(alike).max(NORMAL) }, left_out))
}

impl Off {
    fn extend(&mut self, off: &Array1<f64>, variances: &Array1<f64>) {
        self.logarithms.extend(off);
        self.deviations.extend(off.iter().zip(variances).map(|(off, variance)| (off / variance.sqrt()).abs()));
    }

    fn left_out(&self, what: &str) -> LeftOut {
        // A logarithm that measurements lie above predictions is a prediction that is too low.
        let percents: Vec<f64> = self.logarithms.iter().map(|off| 100.0 * (-off).exp_m1().abs()).collect();
        LeftOut {
            what: what.to_owned(),
            plans: percents.len() as u64,
            mean_percent: stats::mean(&percents),
            worst_percent: percents.iter().copied().fold(0.0, f64::max),
        }
    }
}

/// The quantile of distances in standard deviations, no sharper than few rows can show.
fn quantile(distances: &[f64]) -> f64 {
    if distances.is_empty() {
        return NORMAL;
    }
    // With n rows the order statistic n + 1 would hold the share exactly (conformal prediction).
    let count = distances.len() as f64;
    let share = HELD * (count + 1.0) / count;
    stats::percentile(distances, share.min(100.0)) * (1.0 + NOISE_OF_FEW / count)
}

/// By number: rows that share a value of it, where enough rows have another one.
fn groups(plans: &[Plan]) -> Vec<(&'static str, Vec<Vec<usize>>)> {
    let names = plans.first().map(Plan::numbers).into_iter().flatten().map(|(name, _)| name).enumerate();
    let groups = names.map(|(column, name)| {
        let mut rows: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        plans.iter().enumerate().for_each(|(row, plan)| rows.entry(plan.numbers()[column].1).or_default().push(row));
        (name, rows.into_values().filter(|rows| rows.len() + LEAST_OUTSIDE <= plans.len()).collect::<Vec<_>>())
    });
    groups.filter(|(_, groups)| !groups.is_empty()).collect()
}

fn block(matrix: &Array2<f64>, places: &[usize]) -> Array2<f64> {
    matrix.select(Axis(0), places).select(Axis(1), places)
}
