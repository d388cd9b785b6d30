//! Fits the parameters to measured times: robust least squares on the logarithm of the ratio, with log-normal priors
//! (Levenberg-Marquardt, with weights updated in every step).

use super::cholesky::Cholesky;
use super::cholesky::NormalEquations;
use super::step::StepTime;
use super::term::{COUNT, ParameterValues};
use perf4sight_platform::SpeedParameter;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone)]
pub(super) struct ObservedStep {
    pub(super) step: StepTime,
    pub(super) milliseconds: f64,
    /// Its weight in independent rows.
    pub(super) weight: f64,
}

/// The distribution of the logarithms of the parameters: a normal distribution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "PackedBelief", into = "PackedBelief")]
pub(super) struct ParameterBelief {
    pub(super) center: ParameterValues,
    /// The inverse of the covariance.
    pub(super) certainty: NormalEquations<COUNT>,
}

/// Residual of a row that counts as one standard deviation, in logarithms: unexplained on any device measured so far.
pub(super) const NOISE: f64 = 0.06;

/// Rows of one network have low weight in the fit, because they share the network's effect. With the effects modelled
/// separately they give this many times more information on the parameters: then networks left out are predicted
/// about as well as their intervals state.
const EVIDENCE: f64 = 10.0;

impl ParameterBelief {
    pub(super) fn values(&self) -> ParameterValues {
        values(&self.center)
    }

    /// The uncertainty of the logarithms of the parameters, with the networks' effects modelled separately. None
    /// where the values of a file are not possible for a fit.
    pub(super) fn uncertainty(&self, before: &ParameterBelief) -> Option<Cholesky> {
        let [prior, renewed] = [before, self].map(|belief| &belief.certainty.matrix);
        Cholesky::decompose(COUNT, |row, column| {
            prior[row][column] + EVIDENCE * (renewed[row][column] - prior[row][column])
        })
    }
}

pub(super) fn values(logs: &ParameterValues) -> ParameterValues {
    let mut values = logs.map(f64::exp);
    let loss = &mut values[SpeedParameter::SmallBatchLoss as usize];
    // Up to 1, larger batches never take less time.
    *loss = loss.min(1.0);
    values
}

const STEPS: usize = 60;

/// Iteration stops when the loss falls by less than this share.
const GAIN: f64 = 1e-6;

/// Updates a distribution by measured steps.
pub(super) fn fit(prior: &ParameterBelief, rows: &[ObservedStep]) -> ParameterBelief {
    let mut at = prior.center;
    let (mut normal, mut loss) = equations(prior, rows, &at);
    let mut damping = 1e-3;
    for _ in 0..STEPS {
        let Some(change) = normal.solve(damping) else { break };
        let tried = std::array::from_fn(|index| at[index] + change[index].clamp(-1.0, 1.0));
        let (next, next_loss) = equations(prior, rows, &tried);
        if next_loss < loss {
            let gain = (loss - next_loss) / loss;
            (at, normal, loss, damping) = (tried, next, next_loss, (damping * 0.3_f64).max(1e-9));
            if gain < GAIN {
                break;
            }
        } else {
            damping *= 10.0;
        }
    }
    ParameterBelief { center: at, certainty: normal }
}

/// The normal equations around a point, and the loss there.
fn equations(prior: &ParameterBelief, rows: &[ObservedStep], at: &ParameterValues) -> (NormalEquations<COUNT>, f64) {
    let values = values(at);
    let offset: ParameterValues = std::array::from_fn(|index| at[index] - prior.center[index]);
    let (mut normal, mut loss) = prior.certainty.with_prior_offset(&offset);
    let slopes: Vec<(f64, ParameterValues)> = rows.par_iter().map(|row| row.step.slopes(&values)).collect();
    for (row, (time, slopes)) in rows.iter().zip(slopes) {
        let residual = (time / row.milliseconds).ln() / NOISE;
        // Pseudo-Huber: quadratic near zero, linear for large residuals of disturbed rows.
        let root = (1.0 + residual * residual).sqrt();
        loss += 2.0 * row.weight * (root - 1.0);
        normal.add(&slopes.map(|slope| slope / time / NOISE), residual, row.weight / root);
    }
    (normal, loss)
}

/// The distribution as stored in a file: the triangle of the symmetric matrix, row by row.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackedBelief {
    center: Vec<f64>,
    certainty: Vec<f64>,
}

impl From<ParameterBelief> for PackedBelief {
    fn from(belief: ParameterBelief) -> Self {
        let triangle = belief.certainty.matrix.iter().enumerate().flat_map(|(row, cells)| cells[..=row].to_vec());
        PackedBelief { center: belief.center.to_vec(), certainty: triangle.collect() }
    }
}

impl TryFrom<PackedBelief> for ParameterBelief {
    type Error = String;

    fn try_from(packed: PackedBelief) -> Result<Self, String> {
        let misfit = || format!("{} parameters where this program has {COUNT}", packed.center.len());
        let center: ParameterValues = packed.center.as_slice().try_into().map_err(|_| misfit())?;
        let mut certainty = NormalEquations::zero();
        let mut cells = packed.certainty.iter();
        for row in 0..COUNT {
            for column in 0..=row {
                let cell = *cells.next().ok_or_else(misfit)?;
                certainty.matrix[row][column] = cell;
                certainty.matrix[column][row] = cell;
            }
        }
        let finite = center.iter().all(|log| log.abs() < 100.0) && certainty.solve(0.0).is_some();
        if cells.next().is_some() || !finite {
            return Err(misfit());
        }
        Ok(ParameterBelief { center, certainty })
    }
}
