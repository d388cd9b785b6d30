//! The model of a step: a physical one whose parameters have priors, with deviations of layers and heads.
//!
//! A layer takes the longer of host and device for each micro-batch, forward and backward; a pipeline adds slots that
//! fill and drain it; the last stage has the head; the update and the all-reduce of gradients end the step.

mod calibration;
mod deviations;
mod factor;
mod fit;
mod links;
mod parameters;
mod parts;
mod posterior;

use crate::all_reduce::AllReduceTimes;
use crate::plan::{MeasuredPlan, TransformerPlan};
use crate::repeated::each_once;
pub use calibration::LeftOutPlans;
use calibration::{EACH_COMBINATION, IntervalCalibration, LeaveOutResults, but_samples, calibrate, doublings};
use deviations::{DeviationScales, is_of_size, size};
use fit::FitRows;
use ndarray::Array1;
use parameters::{LogParameters, PRIORS, medians};
use parts::PreparedPlan;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats;
use perf4sight_base::units::count_text;
use perf4sight_operations::FitProgress;
use posterior::{MarginalModel, StepPosterior};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The fewest rows of a fit: with fewer, nothing would say how far off it is.
pub const LEAST_ROWS: usize = 5;
/// The most rows of a fit, whose time grows with their cube.
pub const MOST_ROWS: usize = 3000;
/// Rows that choose among the scales of deviations: more would choose the same, and take longer.
const CHOOSING_ROWS: usize = 200;

/// A model of steps, fitted on measured plans.
#[derive(Debug, Clone)]
pub struct StepModel {
    fitted: FittedStep,
    posterior: StepPosterior,
}

/// What a model's file holds: the rest follows from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FittedStep {
    /// Times of all-reduces.
    all_reduce: AllReduceTimes,
    /// The rows of the fit, a plan each.
    rows: Vec<MeasuredPlan>,
    /// Logarithms of the parameters.
    logs: LogParameters,
    scales: DeviationScales,
    calibration: IntervalCalibration,
    left_out: Vec<LeftOutPlans>,
    /// For each row the predicted milliseconds, left out of the fit.
    predicted_ms: Vec<f64>,
    /// By how many of the model's standard deviations each of these is off.
    #[serde(default)]
    deviations: Vec<f64>,
}

/// A row of the fit, predicted without it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeftOutRow<'a> {
    /// What was measured.
    pub measured: &'a MeasuredPlan,
    /// The predicted milliseconds.
    pub predicted_ms: f64,
    /// By how many of its own standard deviations the prediction is off; none in a model that was stored without.
    pub deviations: Option<f64>,
}

/// The predicted time of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictedStep {
    /// The median, in milliseconds.
    pub step_ms: f64,
    /// The interval that holds nine of ten measurements, in milliseconds.
    pub interval_ms: (f64, f64),
    /// Numbers of the plan that were never measured: column, value.
    pub unmeasured: Vec<(&'static str, u64)>,
    /// Numbers of its layers that were measured, but never together: column, value. Empty where they were.
    pub never_together: Vec<(&'static str, u64)>,
}

impl StepModel {
    /// Pieces of a fit: rounds of two fits of parameters, the choice of scales, what is left out, the posterior.
    pub const PARTS: u64 = 2 * fit::ROUNDS as u64 + 3;

    /// Fits measured plans. A plan that was measured several times is one with the median of its times.
    ///
    /// # Errors
    /// Fewer plans than [`LEAST_ROWS`] or more than [`MOST_ROWS`]; times that are no positive numbers.
    pub fn fit(rows: Vec<MeasuredPlan>, all_reduce: AllReduceTimes) -> Result<Self> {
        StepModel::fit_watched(rows, all_reduce, &|_| Ok(()))
    }

    /// The same, watched: each of [`StepModel::PARTS`] pieces is reported when it is done.
    ///
    /// # Errors
    /// See [`StepModel::fit`]; an error of the watch, which ends the fit.
    pub fn fit_watched(rows: Vec<MeasuredPlan>, all_reduce: AllReduceTimes, watch: &FitProgress<'_>) -> Result<Self> {
        let rows = each_plan(&rows);
        check(&rows)?;
        let prepared = prepare(&rows, &all_reduce);
        let first = fit::parameters(&prepared, &DeviationScales::USUAL, watch)?;
        let scales = choose_scales(&prepared, &first)?;
        watch(1)?;
        let logs = fit::parameters(&prepared, &scales, watch)?;
        let marginal = MarginalModel::new(&prepared, &logs, &medians(), &scales)?;
        let LeaveOutResults { calibration, left_out, predicted_ms, deviations } = calibrate(&marginal, &rows)?;
        watch(1)?;
        let posterior = StepPosterior::new(&prepared, logs, scales)?;
        watch(1)?;
        let fitted = FittedStep { all_reduce, rows, logs, scales, calibration, left_out, predicted_ms, deviations };
        Ok(StepModel { fitted, posterior })
    }

    /// The time of a plan's step.
    pub fn predict(&self, plan: &TransformerPlan) -> PredictedStep {
        let prepared = PreparedPlan::new(*plan, &self.fitted.all_reduce);
        let expected = self.posterior.predict(&prepared);
        let unmeasured = self.unmeasured_numbers(plan);
        let is_known_size = self.fitted.rows.iter().any(|row| size(&row.plan) == size(plan));
        let deviations = self.fitted.calibration.deviations(is_known_size, &self.distances(&unmeasured));
        let off = deviations * expected.variance.sqrt();
        let step_ms = expected.mean.exp();
        let is_new_combination = !is_known_size && !unmeasured.iter().any(|(name, _)| is_of_size(name));
        let never_together = if is_new_combination { self.numbers_of_size(plan) } else { Vec::new() };
        let slowest = links::slowest(plan, &self.fitted.rows, &self.fitted.all_reduce);
        let longer = self.posterior.times_as_long(prepared, slowest);
        let interval_ms = (step_ms * (-off).exp(), step_ms * off.exp() * longer);
        PredictedStep { step_ms, interval_ms, unmeasured, never_together }
    }

    /// What is stored.
    pub fn stored(&self) -> &FittedStep {
        &self.fitted
    }

    /// The parameters: name with unit, value.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static str, f64)> {
        PRIORS.iter().zip(self.fitted.logs).map(|(prior, log)| (prior.name, log.exp()))
    }

    /// The rows of the fit.
    pub fn measured(&self) -> &[MeasuredPlan] {
        &self.fitted.rows
    }

    /// Each row of the fit, with what the model predicts for it.
    pub fn rows(&self) -> impl Iterator<Item = (&MeasuredPlan, PredictedStep)> {
        self.fitted.rows.iter().map(|row| (row, self.predict(&row.plan)))
    }

    /// Each row of the fit, predicted where it is left out.
    pub fn rows_left_out(&self) -> impl Iterator<Item = LeftOutRow<'_>> {
        let deviations = self.fitted.deviations.iter().copied().map(Some).chain(std::iter::repeat(None));
        let rows = self.fitted.rows.iter().zip(&self.fitted.predicted_ms).zip(deviations);
        rows.map(|((measured, predicted_ms), deviations)| LeftOutRow {
            measured,
            predicted_ms: *predicted_ms,
            deviations,
        })
    }

    /// How many plans of the fit differ in more than the samples of a step: each is predicted from all others of them.
    pub fn different_plans(&self) -> usize {
        self.fitted.rows.iter().map(|row| but_samples(&row.plan)).collect::<BTreeSet<_>>().len()
    }

    /// Whether a plan is one of the fit, so that what is predicted for it says little of others.
    pub fn is_fitted(&self, plan: &TransformerPlan) -> bool {
        self.fitted.rows.iter().any(|row| row.plan == *plan)
    }

    /// Errors of plans that were left out of the fit: each by itself first, then all of a value of each number.
    pub fn left_out(&self) -> &[LeftOutPlans] {
        &self.fitted.left_out
    }

    /// The mean error of each plan, left out of the fit with those that differ from it in the global batch alone, in percent.
    pub fn left_out_percent(&self) -> f64 {
        self.fitted.left_out.first().map_or(f64::NAN, |each| each.mean_percent)
    }

    /// The mean error of plans with layers and heads of a size of which no plan was in the fit, in percent; none where that
    /// cannot be said.
    pub fn combination_left_out_percent(&self) -> Option<f64> {
        let combination = self.fitted.left_out.iter().find(|one| one.what == EACH_COMBINATION);
        combination.map(|one| one.mean_percent)
    }

    /// Whether times of all-reduces come from a formula instead of a table.
    pub fn assumes_all_reduce(&self) -> bool {
        self.fitted.all_reduce.is_assumed()
    }

    /// How many doublings these numbers are from the nearest measured ones.
    fn distances(&self, unmeasured: &[(&'static str, u64)]) -> Vec<(&'static str, f64)> {
        let numbers = self.fitted.rows.iter().flat_map(|row| row.plan.numbers());
        let measured = |name: &str| {
            let own = numbers.clone().filter(|(measured, _)| *measured == name);
            own.map(|(_, value)| value).collect::<Vec<_>>()
        };
        unmeasured.iter().map(|&(name, value)| (name, doublings(value, &measured(name)))).collect()
    }

    /// The numbers of a plan's layers in which measured plans differ.
    fn numbers_of_size(&self, plan: &TransformerPlan) -> Vec<(&'static str, u64)> {
        let differs =
            |column: usize, value: u64| self.fitted.rows.iter().any(|row| row.plan.numbers()[column].1 != value);
        let numbers = plan.numbers().into_iter().enumerate();
        let own = numbers.filter(|(column, (name, value))| is_of_size(name) && differs(*column, *value));
        own.map(|(_, number)| number).collect()
    }

    fn unmeasured_numbers(&self, plan: &TransformerPlan) -> Vec<(&'static str, u64)> {
        let measured =
            |column: usize, value: u64| self.fitted.rows.iter().any(|row| row.plan.numbers()[column].1 == value);
        let numbers = plan.numbers().into_iter().enumerate();
        let unmeasured = numbers.filter(|(column, (_, value))| !measured(*column, *value));
        unmeasured.map(|(_, number)| number).collect()
    }
}

impl TryFrom<FittedStep> for StepModel {
    type Error = Error;

    /// Prepares a stored model for predictions.
    fn try_from(fitted: FittedStep) -> Result<Self> {
        check(&fitted.rows)?;
        let posterior = StepPosterior::new(&prepare(&fitted.rows, &fitted.all_reduce), fitted.logs, fitted.scales)?;
        Ok(StepModel { fitted, posterior })
    }
}

/// Milliseconds that the medians of the priors give a plan: on A100, before anything is measured.
pub(crate) fn expected_ms(plan: &TransformerPlan) -> f64 {
    PreparedPlan::new(*plan, &AllReduceTimes::default()).parts(&medians()).total()
}

fn each_plan(rows: &[MeasuredPlan]) -> Vec<MeasuredPlan> {
    let plans = each_once(rows.iter().map(|row| (row.plan, row.step_ms)));
    plans.into_iter().map(|(plan, times)| MeasuredPlan { plan, step_ms: stats::median(&times) }).collect()
}

fn check(rows: &[MeasuredPlan]) -> Result<()> {
    let expected = format!("{LEAST_ROWS} to {MOST_ROWS} measured plans that differ");
    if !(LEAST_ROWS..=MOST_ROWS).contains(&rows.len()) {
        return Err(
            Error::input(format!("{} to fit", count_text(rows.len() as u64, "measured plan"))).expected(expected)
        );
    }
    rows.iter().try_for_each(|row| {
        row.plan.check()?;
        match row.step_ms.is_finite() && row.step_ms > 0.0 {
            true => Ok(()),
            false => Err(Error::input(format!("a step took {} ms", row.step_ms)).expected("a positive number")),
        }
    })
}

fn prepare(rows: &[MeasuredPlan], all_reduce: &AllReduceTimes) -> FitRows {
    FitRows {
        prepared: rows.iter().map(|row| PreparedPlan::new(row.plan, all_reduce)).collect(),
        times: Array1::from_iter(rows.iter().map(|row| row.step_ms.ln())),
        has_table: !all_reduce.is_assumed(),
    }
}

/// The scales that the rows leave.
fn choose_scales(rows: &FitRows, logs: &LogParameters) -> Result<DeviationScales> {
    let stride = rows.prepared.len().div_ceil(CHOOSING_ROWS);
    let chosen: Vec<usize> = (0..rows.prepared.len()).step_by(stride).collect();
    let some = rows.select(&chosen);
    let all = DeviationScales::all()
        .map(|scales| Ok((MarginalModel::new(&some, logs, &medians(), &scales)?.improbability(), scales)));
    Ok(DeviationScales::posterior_scales(&all.collect::<Result<Vec<_>>>()?))
}
