//! The most probable parameters: Levenberg-Marquardt on times whitened by their covariance, with the priors.

use super::deviations::{DeviationScales, PlanInfluence, covariance};
use super::factor::CovarianceFactor;
use super::parameters::{COUNT, LogParameters, medians, spreads};
use super::parts::PreparedPlan;
use ndarray::{Array1, Array2, Axis};
use perf4sight_base::error::Result;
use perf4sight_operations::FitProgress;
use perf4sight_operations::minimize::minimize;

/// Deviations enter by shares of the step, which parameters change: they settle within this many rounds.
pub(super) const ROUNDS: usize = 3;
/// Step of finite differences on logarithms: the square root of the precision, rounded.
const DIFFERENCE: f64 = 1e-6;

/// Rows to fit: plans and the logarithms of their times.
#[derive(Debug, Clone)]
pub(super) struct FitRows {
    pub prepared: Vec<PreparedPlan>,
    pub times: Array1<f64>,
    pub has_table: bool,
}

/// The most probable parameters of rows; each round is reported.
///
/// # Errors
/// See [`CovarianceFactor::new`]; an error of the watch.
pub(super) fn parameters(rows: &FitRows, scales: &DeviationScales, watch: &FitProgress<'_>) -> Result<LogParameters> {
    let mut logs = medians();
    for _ in 0..ROUNDS {
        let factor = CovarianceFactor::new(covariance(&rows.influences(&logs), scales))?;
        logs = minimize(logs, |logs| rows.distances(&factor, logs))?;
        watch(1)?;
    }
    Ok(logs)
}

impl FitRows {
    pub fn influences(&self, logs: &LogParameters) -> Vec<PlanInfluence> {
        self.prepared.iter().map(|prepared| PlanInfluence::new(prepared, logs)).collect()
    }

    /// Logarithms of measured over physical times.
    pub fn residuals(&self, logs: &LogParameters) -> Array1<f64> {
        &self.times - &Array1::from_iter(self.prepared.iter().map(|prepared| prepared.parts(logs).total().ln()))
    }

    /// Derivatives of the logarithms of times by those of parameters: a row a plan.
    pub fn jacobian(&self, logs: &LogParameters) -> Array2<f64> {
        let rows = self.prepared.iter().flat_map(|prepared| gradient(prepared, logs));
        Array2::from_shape_vec((self.prepared.len(), COUNT), rows.collect()).expect("each plan gives COUNT derivatives")
    }

    /// Whitened residuals and distances from the priors' medians: the posterior density falls with their squares.
    fn distances(&self, factor: &CovarianceFactor, logs: &LogParameters) -> Array1<f64> {
        let (medians, spreads) = (medians(), spreads(self.has_table));
        let priors = (0..COUNT).map(|place| (logs[place] - medians[place]) / spreads[place]);
        factor.whiten_vector(self.residuals(logs)).into_iter().chain(priors).collect()
    }

    /// The rows at these places.
    pub fn select(&self, places: &[usize]) -> FitRows {
        FitRows {
            prepared: places.iter().map(|place| self.prepared[*place]).collect(),
            times: self.times.select(Axis(0), places),
            has_table: self.has_table,
        }
    }
}

/// Derivatives of the logarithm of a plan's time by those of the parameters.
pub(super) fn gradient(prepared: &PreparedPlan, logs: &LogParameters) -> LogParameters {
    let at = prepared.parts(logs).total().ln();
    std::array::from_fn(|place| {
        let mut moved = *logs;
        moved[place] += DIFFERENCE;
        (prepared.parts(&moved).total().ln() - at) / DIFFERENCE
    })
}
