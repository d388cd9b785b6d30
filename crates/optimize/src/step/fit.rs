//! The most probable parameters: Levenberg-Marquardt on times whitened by their covariance, with the priors.

use super::deviations::{Influence, Scales, covariance};
use super::factor::Factor;
use super::parameters::{COUNT, Logs, medians, spreads};
use super::parts::Prepared;
use ndarray::{Array1, Array2, Axis};
use perf4sight_base::error::Result;

/// Deviations enter by shares of the step, which parameters change: they settle within this many rounds.
const ROUNDS: usize = 3;
/// Steps of Levenberg-Marquardt in a round.
const MOST_STEPS: usize = 60;
/// A fit has settled where a step changes its cost by less than this share.
const SETTLED: f64 = 1e-9;
/// Step of finite differences on logarithms: the square root of the precision, rounded.
const DIFFERENCE: f64 = 1e-6;
/// Damping beyond which no step helps.
const MOST_DAMPING: f64 = 1e9;

/// Rows to fit: plans and the logarithms of their times.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    pub prepared: Vec<Prepared>,
    pub times: Array1<f64>,
    pub has_table: bool,
}

/// The most probable parameters of rows.
///
/// # Errors
/// See [`Factor::new`].
pub(super) fn parameters(rows: &Rows, scales: &Scales) -> Result<Logs> {
    let mut logs = medians();
    for _ in 0..ROUNDS {
        let factor = Factor::new(covariance(&rows.influences(&logs), scales))?;
        logs = settle(rows, &factor, logs)?;
    }
    Ok(logs)
}

fn settle(rows: &Rows, factor: &Factor, start: Logs) -> Result<Logs> {
    let (mut logs, mut cost, mut damping) = (start, rows.cost(factor, &start), 1e-3);
    for _ in 0..MOST_STEPS {
        let next = rows.step(factor, &logs, damping)?;
        let next_cost = rows.cost(factor, &next);
        // Also where it is no number.
        if !(next_cost < cost) {
            damping *= 8.0;
            if damping > MOST_DAMPING {
                break;
            }
            continue;
        }
        let gain = cost - next_cost;
        (logs, cost, damping) = (next, next_cost, damping / 4.0);
        if gain < SETTLED * cost {
            break;
        }
    }
    Ok(logs)
}

impl Rows {
    pub fn influences(&self, logs: &Logs) -> Vec<Influence> {
        self.prepared.iter().map(|prepared| Influence::new(prepared, logs)).collect()
    }

    /// Logarithms of measured over physical times.
    pub fn residuals(&self, logs: &Logs) -> Array1<f64> {
        &self.times - &Array1::from_iter(self.prepared.iter().map(|prepared| prepared.parts(logs).total().ln()))
    }

    /// Derivatives of the logarithms of times by those of parameters: a row a plan.
    pub fn jacobian(&self, logs: &Logs) -> Array2<f64> {
        let rows = self.prepared.iter().flat_map(|prepared| gradient(prepared, logs));
        Array2::from_shape_vec((self.prepared.len(), COUNT), rows.collect()).expect("each plan gives COUNT derivatives")
    }

    /// Twice the negative logarithm of the posterior density, but for a constant.
    fn cost(&self, factor: &Factor, logs: &Logs) -> f64 {
        let whitened = factor.whiten_vector(self.residuals(logs));
        whitened.dot(&whitened) + self.from_prior(logs).mapv(|distance| distance * distance).sum()
    }

    /// Distances from the priors' medians, in standard deviations.
    fn from_prior(&self, logs: &Logs) -> Array1<f64> {
        let (medians, spreads) = (medians(), spreads(self.has_table));
        Array1::from_iter((0..COUNT).map(|place| (logs[place] - medians[place]) / spreads[place]))
    }

    fn step(&self, factor: &Factor, logs: &Logs, damping: f64) -> Result<Logs> {
        let jacobian = factor.whiten(self.jacobian(logs));
        let residuals = factor.whiten_vector(self.residuals(logs));
        let spreads = spreads(self.has_table);
        let mut normal = jacobian.t().dot(&jacobian);
        let mut right = jacobian.t().dot(&residuals);
        let from_prior = self.from_prior(logs);
        for place in 0..COUNT {
            normal[[place, place]] = (normal[[place, place]] + spreads[place].powi(-2)) * (1.0 + damping);
            right[place] -= from_prior[place] / spreads[place];
        }
        let change = Factor::new(normal)?.solve_vector(right);
        let mut next = *logs;
        next.iter_mut().zip(change).for_each(|(log, change)| *log += change);
        Ok(next)
    }

    /// The rows at these places.
    pub fn select(&self, places: &[usize]) -> Rows {
        Rows {
            prepared: places.iter().map(|place| self.prepared[*place]).collect(),
            times: self.times.select(Axis(0), places),
            has_table: self.has_table,
        }
    }
}

/// Derivatives of the logarithm of a plan's time by those of the parameters.
pub(super) fn gradient(prepared: &Prepared, logs: &Logs) -> Logs {
    let at = prepared.parts(logs).total().ln();
    std::array::from_fn(|place| {
        let mut moved = *logs;
        moved[place] += DIFFERENCE;
        (prepared.parts(&moved).total().ln() - at) / DIFFERENCE
    })
}
