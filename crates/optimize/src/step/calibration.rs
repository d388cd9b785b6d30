//! How far predictions are off, by leaving rows and groups of rows out of the fit.
//!
//! The model is linear around its fit, so what it predicts for rows that were left out is known without fitting again
//! (Rasmussen and Williams 2006, section 5.4.2).

use super::deviations::{is_of_size, size};
use super::factor::CovarianceFactor;
use super::posterior::MarginalModel;
use crate::plan::{MeasuredPlan, TransformerPlan};
use ndarray::{Array1, Array2, Axis};
use perf4sight_base::error::Result;
use perf4sight_base::stats;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The percentile of errors of rows left out that intervals reach: somewhat above the nine of ten that they hold
/// for others, for rows that were left out of the fit still chose its scales (table in `docs/cost-model.md`).
const HELD: f64 = 93.0;
/// The percentile of errors that is reported.
const NINE_OF_TEN: f64 = 90.0;
/// The quantile of a normal distribution that holds nine of ten: the model's own belief, where nothing was left out.
const NORMAL: f64 = 1.645;
/// Few rows also choose the scales that their deviations are measured in, and sixteen parameters. A Student distribution of n degrees
/// of freedom has a 95th percentile of about `1.645 (1 + 0.92 / n)`; rows are no more independent than their sizes, of which there are
/// about as many as half of few rows, and some of these the parameters take: chosen on random splits (`docs/cost-model.md`).
const SCALE_OF_FEW: f64 = 2.5;
/// Groups of a number that are left out need as many rows outside to be fitted on.
const LEAST_OUTSIDE: usize = 8;
/// Fewer rows with layers that others have, too, say too little by themselves: all rows count.
const LEAST_KNOWN: usize = 10;

/// Plans with layers and heads of one size, which were left out together.
pub(super) const EACH_COMBINATION: &str = "each combination of degree and sizes";

/// By how many of the model's standard deviations measurements are off at most, [`HELD`] percent of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct IntervalCalibration {
    /// Plans whose layers were measured in other plans.
    known: f64,
    /// Plans with layers of a size that was never measured.
    size: f64,
    /// Plans with a value that was never measured, one doubling from those that were, by the number that it is of.
    numbers: BTreeMap<String, f64>,
}

/// How far predictions were off for plans that were left out of the fit together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOutPlans {
    /// What they have in common: the name of a number, in words, or nothing.
    pub what: String,
    /// Its value; none where plans were left out one by one.
    pub value: Option<u64>,
    /// Number of plans.
    pub plans: u64,
    /// Mean error in percent.
    pub mean_percent: f64,
    /// Nine of ten plans were off by at most this, in percent.
    pub nine_of_ten_percent: f64,
    /// The worst error in percent.
    pub worst_percent: f64,
}

/// What leaving plans out says.
pub(super) struct LeaveOutResults {
    pub calibration: IntervalCalibration,
    pub left_out: Vec<LeftOutPlans>,
    /// For each plan the predicted milliseconds, left out of the fit with those that differ from it in the global batch alone.
    pub predicted_ms: Vec<f64>,
    /// By how many of the model's standard deviations each of these is off.
    pub deviations: Vec<f64>,
}

/// Predictions for rows that were left out together: logarithms that are off, and those by the model's standard deviation.
struct LeftOutErrors {
    logarithms: Vec<f64>,
    deviations: Vec<f64>,
}

/// The model, and its linearised predictions for what is left out.
struct LinearModel {
    inverse: Array2<f64>,
    solved: Array1<f64>,
}

/// Leaves out each row, with those that only repeat its step for more or fewer samples, all rows of each size, and all rows of each value of each number of the plans.
///
/// # Errors
/// See [`CovarianceFactor::new`].
pub(super) fn calibrate(marginal: &MarginalModel, rows: &[MeasuredPlan]) -> Result<LeaveOutResults> {
    let inverse = marginal.factor.inverse();
    let linear = LinearModel { solved: inverse.dot(&marginal.beyond), inverse };
    let plans: Vec<TransformerPlan> = rows.iter().map(|row| row.plan).collect();
    let each = linear.without_group(groups(&plans, but_samples).into_values())?;
    let sizes = groups(&plans, size);
    let alone: BTreeSet<usize> = sizes.values().filter(|rows| rows.len() == 1).flatten().copied().collect();
    let known: Vec<f64> = (0..rows.len()).filter(|row| !alone.contains(row)).map(|row| each.deviations[row]).collect();
    let known = if known.len() < LEAST_KNOWN { &each.deviations } else { &known };
    // What rows that chose the noise are off by is no reason to believe less than the noise.
    let known = quantile(known, known.len()).map(|known| known.max(NORMAL));
    let offs = linear.extrapolated(sizes.into_values().map(|rows| (rows, 1.0)))?;
    let of_size = pooled_error(&offs).unwrap_or(NORMAL);
    let together = LeftOutErrors::all(offs.into_iter().flatten());
    let mut left_out = vec![each.left_out("each plan", None)];
    left_out.extend((!together.logarithms.is_empty()).then(|| together.left_out(EACH_COMBINATION, None)));
    let mut numbers = BTreeMap::new();
    for (column, name) in names(&plans) {
        let values = groups(&plans, |plan| plan.numbers()[column].1);
        let all: Vec<u64> = values.keys().copied().collect();
        let distant = values.clone().into_iter().map(|(value, rows)| (rows, doublings(value, &all)));
        let offs = linear.extrapolated(distant)?;
        let independent =
            |rows: &Vec<usize>| rows.iter().map(|row| but_samples(&plans[*row])).collect::<BTreeSet<_>>().len();
        let Some(held) = worst_value(&offs, &values.values().map(independent).collect::<Vec<_>>()) else { continue };
        numbers.insert(name.to_owned(), held);
        let words = name.replace('_', " ");
        left_out.extend(values.keys().zip(offs).filter_map(|(value, off)| Some(off?.left_out(&words, Some(*value)))));
    }
    let calibration = IntervalCalibration { known: known.unwrap_or(of_size), size: of_size, numbers };
    let predicted_ms = rows.iter().zip(&each.logarithms).map(|(row, off)| row.step_ms * (-off).exp()).collect();
    Ok(LeaveOutResults { calibration, left_out, predicted_ms, deviations: each.deviations })
}

impl IntervalCalibration {
    /// The standard deviations that a plan's interval reaches: by whether layers of its size were measured, and by its values that
    /// were not, with how many doublings each is away from those that were. Errors add up over doublings and numbers as the steps
    /// of a random walk do. What layers of a size never measured take is far less certain than how they are arranged, which then
    /// does not count.
    pub fn deviations(&self, is_known_size: bool, unmeasured: &[(&'static str, f64)]) -> f64 {
        let counted = unmeasured.iter().filter(|(name, _)| is_known_size || is_of_size(name));
        let squared: f64 = counted.map(|&(name, doublings)| self.of_number(name).powi(2) * doublings).sum();
        squared.sqrt().max(if is_known_size { self.known } else { self.size })
    }

    /// Standard deviations of values of a number that were never measured; of one that has a single value those of the
    /// worst other one of how layers are arranged.
    fn of_number(&self, name: &str) -> f64 {
        let others = self.numbers.iter().filter(|(other, _)| !is_of_size(other) && !is_of_size(name));
        let worst = others.map(|(_, held)| *held).fold(NORMAL, f64::max);
        self.numbers.get(name).copied().unwrap_or(worst)
    }
}

/// How many doublings a value is from the nearest other one, at least one.
pub(super) fn doublings(value: u64, measured: &[u64]) -> f64 {
    let others = measured.iter().filter(|other| **other != value);
    let distances = others.map(|other| (value as f64 / *other as f64).log2().abs());
    let nearest = distances.fold(f64::INFINITY, f64::min);
    if nearest.is_finite() { nearest.max(1.0) } else { 1.0 }
}

impl LinearModel {
    /// Each row left out with those of its group.
    fn without_group(&self, groups: impl Iterator<Item = Vec<usize>>) -> Result<LeftOutErrors> {
        let count = self.solved.len();
        let mut each = LeftOutErrors { logarithms: vec![0.0; count], deviations: vec![0.0; count] };
        for group in groups {
            let off = self.group(&group)?;
            for ((row, logarithm), deviation) in group.into_iter().zip(off.logarithms).zip(off.deviations) {
                (each.logarithms[row], each.deviations[row]) = (logarithm, deviation);
            }
        }
        Ok(each)
    }

    /// The rows of a group left out together.
    fn group(&self, group: &[usize]) -> Result<LeftOutErrors> {
        let block = CovarianceFactor::new(self.inverse.select(Axis(0), group).select(Axis(1), group))?;
        Ok(LeftOutErrors::new(
            &block.solve_vector(self.solved.select(Axis(0), group)),
            &block.inverse().diag().to_owned(),
        ))
    }

    /// Leaves out each group of rows that is this many doublings from the others, with what it is off over a doubling; none for a
    /// group without which too few rows are left.
    fn extrapolated(&self, groups: impl Iterator<Item = (Vec<usize>, f64)>) -> Result<Vec<Option<LeftOutErrors>>> {
        let apart = groups.map(|(group, doublings)| {
            if group.len() + LEAST_OUTSIDE > self.solved.len() {
                return Ok(None);
            }
            let mut off = self.group(&group)?;
            off.deviations.iter_mut().for_each(|one| *one /= doublings.sqrt());
            Ok(Some(off))
        });
        apart.collect()
    }
}

impl LeftOutErrors {
    fn new(off: &Array1<f64>, variances: &Array1<f64>) -> Self {
        LeftOutErrors {
            logarithms: off.to_vec(),
            deviations: off.iter().zip(variances).map(|(off, variance)| (off / variance.sqrt()).abs()).collect(),
        }
    }

    fn all(offs: impl Iterator<Item = LeftOutErrors>) -> Self {
        offs.fold(LeftOutErrors { logarithms: Vec::new(), deviations: Vec::new() }, |mut all, off| {
            all.logarithms.extend(off.logarithms);
            all.deviations.extend(off.deviations);
            all
        })
    }

    fn left_out(&self, what: &str, value: Option<u64>) -> LeftOutPlans {
        // A logarithm that measurements lie above predictions is a prediction that is too low.
        let percents: Vec<f64> = self.logarithms.iter().map(|off| 100.0 * (-off).exp_m1().abs()).collect();
        LeftOutPlans {
            what: what.to_owned(),
            value,
            plans: percents.len() as u64,
            mean_percent: stats::mean(&percents),
            nine_of_ten_percent: stats::percentile(&percents, NINE_OF_TEN),
            worst_percent: percents.iter().copied().fold(0.0, f64::max),
        }
    }
}

/// The quantile of distances in standard deviations, of which so many are independent; none without any.
fn quantile(distances: &[f64], independent: usize) -> Option<f64> {
    let independent = distances.len().min(independent);
    (!distances.is_empty()).then(|| of_few(distances.len()) * stats::percentile(distances, share(independent)))
}

/// Of so many independent distances the order statistic n + 1 would hold [`HELD`] percent exactly (conformal prediction): of few it is
/// the worst of all.
fn share(independent: usize) -> f64 {
    (HELD * (independent as f64 + 1.0) / independent as f64).min(100.0)
}

/// How much wider the scales of so many rows may be than they seem.
fn of_few(rows: usize) -> f64 {
    1.0 + SCALE_OF_FEW / rows as f64
}

/// What holds another size. Rows of a group are off together: groups are independent, they are not.
fn pooled_error(groups: &[Option<LeftOutErrors>]) -> Option<f64> {
    let groups: Vec<&[f64]> = groups.iter().flatten().map(|off| off.deviations.as_slice()).collect();
    quantile(&groups.concat(), groups.len())
}

/// What holds the rows of another value of a number: of each value that was left out, with so many independent rows, what holds its
/// rows; of values, of which there are few, the worst. A value's single worst row says little of the rows of others.
fn worst_value(groups: &[Option<LeftOutErrors>], independent: &[usize]) -> Option<f64> {
    let left_out = groups.iter().zip(independent).filter_map(|(off, count)| Some((off.as_ref()?, count)));
    let each: Vec<f64> = left_out.map(|(off, count)| stats::percentile(&off.deviations, share(*count))).collect();
    let rows = groups.iter().flatten().map(|off| off.deviations.len()).sum();
    (!each.is_empty()).then(|| of_few(rows) * stats::percentile(&each, share(each.len())))
}

/// All of a plan but how many samples its step has.
pub(super) fn but_samples(plan: &TransformerPlan) -> impl Ord + use<> {
    TransformerPlan { global_batch: 0, ..*plan }.numbers()
}

/// The rows of each value of a key.
fn groups<Key: Ord>(plans: &[TransformerPlan], key: impl Fn(&TransformerPlan) -> Key) -> BTreeMap<Key, Vec<usize>> {
    let mut groups: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
    for (row, plan) in plans.iter().enumerate() {
        groups.entry(key(plan)).or_default().push(row);
    }
    groups
}

/// The numbers of plans by their place.
fn names(plans: &[TransformerPlan]) -> impl Iterator<Item = (usize, &'static str)> {
    plans.first().map(TransformerPlan::numbers).into_iter().flatten().map(|(name, _)| name).enumerate()
}
