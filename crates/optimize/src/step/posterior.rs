//! What a fit knows of other plans: the expected time and how far off it may be.

use super::deviations::{DeviationScales, PlanInfluence, covariance};
use super::factor::CovarianceFactor;
use super::fit::{FitRows, gradient};
use super::parameters::{COUNT, LogParameters, spreads};
use super::parts::PreparedPlan;
use ndarray::{Array1, Array2};
use perf4sight_base::error::Result;

/// A fit, prepared for predictions.
#[derive(Debug, Clone)]
pub(super) struct StepPosterior {
    logs: LogParameters,
    scales: DeviationScales,
    rows: Vec<PlanInfluence>,
    factor: CovarianceFactor,
    /// `K⁻¹ r`: how much each row's deviation counts.
    weights: Array1<f64>,
    /// `L⁻¹ J`.
    jacobian: Array2<f64>,
    /// Covariance of the parameters' logarithms.
    parameters: Array2<f64>,
}

/// The logarithm of a time: its mean and variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LogTime {
    pub mean: f64,
    pub variance: f64,
}

impl StepPosterior {
    /// # Errors
    /// See [`CovarianceFactor::new`].
    pub fn new(rows: &FitRows, logs: LogParameters, scales: DeviationScales) -> Result<Self> {
        let influences = rows.influences(&logs);
        let factor = CovarianceFactor::new(covariance(&influences, &scales))?;
        let jacobian = factor.whiten(rows.jacobian(&logs));
        let mut information = jacobian.t().dot(&jacobian);
        information
            .diag_mut()
            .iter_mut()
            .zip(spreads(rows.has_table))
            .for_each(|(one, spread)| *one += spread.powi(-2));
        let weights = factor.solve_vector(rows.residuals(&logs));
        let parameters = CovarianceFactor::new(information)?.inverse();
        Ok(StepPosterior { logs, scales, rows: influences, factor, weights, jacobian, parameters })
    }

    /// How many times as long the step takes with all-reduces that take so many times as long.
    pub fn times_as_long(&self, prepared: PreparedPlan, slower: [f64; 2]) -> f64 {
        prepared.slower(slower).parts(&self.logs).total() / prepared.parts(&self.logs).total()
    }

    /// The time of another measurement of a plan.
    pub fn predict(&self, prepared: &PreparedPlan) -> LogTime {
        let influence = PlanInfluence::new(prepared, &self.logs);
        let shared = self.rows.iter().map(|row| influence.covariance(row, &self.scales));
        let shared = Array1::from_iter(shared);
        let mean = prepared.parts(&self.logs).total().ln() + shared.dot(&self.weights);
        let whitened = self.factor.whiten_vector(shared);
        let own = influence.covariance(&influence, &self.scales) - whitened.dot(&whitened);
        let slope = Array1::from_iter(gradient(prepared, &self.logs)) - self.jacobian.t().dot(&whitened);
        let fitted = slope.dot(&self.parameters.dot(&slope));
        LogTime { mean, variance: own.max(0.0) + fitted + self.scales.noise.powi(2) }
    }
}

/// Rows as the linearised model expects them before anything is measured.
pub(super) struct MarginalModel {
    /// Covariance with what is not known of the parameters.
    pub factor: CovarianceFactor,
    /// What the rows are beyond the mean of the priors.
    pub beyond: Array1<f64>,
}

impl MarginalModel {
    /// # Errors
    /// See [`CovarianceFactor::new`].
    pub fn new(
        rows: &FitRows,
        logs: &LogParameters,
        medians: &LogParameters,
        scales: &DeviationScales,
    ) -> Result<Self> {
        let jacobian = rows.jacobian(logs);
        let scaled = &jacobian * &Array1::from_iter(spreads(rows.has_table));
        let spread = covariance(&rows.influences(logs), scales) + scaled.dot(&scaled.t());
        let moved = Array1::from_iter((0..COUNT).map(|place| medians[place] - logs[place]));
        Ok(MarginalModel {
            factor: CovarianceFactor::new(spread)?,
            beyond: rows.residuals(logs) - jacobian.dot(&moved),
        })
    }

    /// Twice the negative logarithm of the rows' density, but for a constant.
    pub fn improbability(&self) -> f64 {
        let whitened = self.factor.whiten_vector(self.beyond.clone());
        self.factor.log_determinant() + whitened.dot(&whitened)
    }
}
