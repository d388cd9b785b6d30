//! What a fit knows of other plans: the expected time and how far off it may be.

use super::deviations::{Influence, Scales, covariance};
use super::factor::Factor;
use super::fit::{Rows, gradient};
use super::parameters::{COUNT, Logs, spreads};
use super::parts::Prepared;
use ndarray::{Array1, Array2};
use perf4sight_base::error::Result;

/// A fit, prepared for predictions.
#[derive(Debug, Clone)]
pub(super) struct Posterior {
    logs: Logs,
    scales: Scales,
    rows: Vec<Influence>,
    factor: Factor,
    /// `K⁻¹ r`: how much each row's deviation counts.
    weights: Array1<f64>,
    /// `L⁻¹ J`.
    jacobian: Array2<f64>,
    /// Covariance of the parameters' logarithms.
    parameters: Array2<f64>,
}

/// The logarithm of a time: its mean and variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Expected {
    pub mean: f64,
    pub variance: f64,
}

impl Posterior {
    /// # Errors
    /// See [`Factor::new`].
    pub fn new(rows: &Rows, logs: Logs, scales: Scales) -> Result<Self> {
        let influences = rows.influences(&logs);
        let factor = Factor::new(covariance(&influences, &scales))?;
        let jacobian = factor.whiten(rows.jacobian(&logs));
        let mut information = jacobian.t().dot(&jacobian);
        information
            .diag_mut()
            .iter_mut()
            .zip(spreads(rows.has_table))
            .for_each(|(one, spread)| *one += spread.powi(-2));
        let weights = factor.solve_vector(rows.residuals(&logs));
        let parameters = Factor::new(information)?.inverse();
        Ok(Posterior { logs, scales, rows: influences, factor, weights, jacobian, parameters })
    }

    /// How many times as long the step takes with all-reduces that take so many times as long.
    pub fn times_as_long(&self, prepared: Prepared, slower: [f64; 2]) -> f64 {
        prepared.slower(slower).parts(&self.logs).total() / prepared.parts(&self.logs).total()
    }

    /// The time of another measurement of a plan.
    pub fn predict(&self, prepared: &Prepared) -> Expected {
        let influence = Influence::new(prepared, &self.logs);
        let shared = self.rows.iter().map(|row| influence.covariance(row, &self.scales));
        let shared = Array1::from_iter(shared);
        let mean = prepared.parts(&self.logs).total().ln() + shared.dot(&self.weights);
        let whitened = self.factor.whiten_vector(shared);
        let own = influence.covariance(&influence, &self.scales) - whitened.dot(&whitened);
        let slope = Array1::from_iter(gradient(prepared, &self.logs)) - self.jacobian.t().dot(&whitened);
        let fitted = slope.dot(&self.parameters.dot(&slope));
        Expected { mean, variance: own.max(0.0) + fitted + self.scales.noise.powi(2) }
    }
}

/// Rows as the linearised model expects them before anything is measured.
pub(super) struct Marginal {
    /// Covariance with what is not known of the parameters.
    pub factor: Factor,
    /// What the rows are beyond the mean of the priors.
    pub beyond: Array1<f64>,
}

impl Marginal {
    /// # Errors
    /// See [`Factor::new`].
    pub fn new(rows: &Rows, logs: &Logs, medians: &Logs, scales: &Scales) -> Result<Self> {
        let jacobian = rows.jacobian(logs);
        let scaled = &jacobian * &Array1::from_iter(spreads(rows.has_table));
        let spread = covariance(&rows.influences(logs), scales) + scaled.dot(&scaled.t());
        let moved = Array1::from_iter((0..COUNT).map(|place| medians[place] - logs[place]));
        Ok(Marginal { factor: Factor::new(spread)?, beyond: rows.residuals(logs) - jacobian.dot(&moved) })
    }

    /// Twice the negative logarithm of the rows' density, but for a constant.
    pub fn improbability(&self) -> f64 {
        let whitened = self.factor.whiten_vector(self.beyond.clone());
        self.factor.log_determinant() + whitened.dot(&whitened)
    }
}
