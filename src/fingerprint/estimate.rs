//! How far off the hybrid method is for what it has not seen, estimated from the rows of a profile alone.

use super::cross_validation::Residuals;
use super::latency::Latency;
use super::memory::Memory;
use super::rows::Observations;
use crate::error::Result;
use crate::records::Variant;
use crate::stats::mean;
use crate::workload::{Quantity, Step};

/// The mean absolute percentage error for rows of `group`s of variants that were left out, each group once and all weighing the
/// same; none where there are too few rows, or one group only.
///
/// # Errors
/// When a fit fails.
pub fn left_out_error<G: Ord + Send + Sync>(
    (step, quantity): (Step, Quantity),
    seed: u64,
    observations: &Observations,
    group: impl Fn(&Variant) -> G + Sync,
) -> Result<Option<f64>> {
    let residuals = match quantity {
        Quantity::Latency => Latency::left_out(step, seed, observations, &group)?,
        Quantity::Memory => Memory::left_out(step, seed, observations, &group)?,
    };
    // A residual is the logarithm of measured over predicted, an error is relative to what was measured.
    let error = |residual: &f64| 100.0 * ((-residual).exp() - 1.0).abs();
    let of_group = |residuals: &Residuals| mean(&residuals.iter().map(error).collect::<Vec<f64>>());
    let errors: Vec<f64> = residuals.iter().filter(|residuals| !residuals.is_empty()).map(of_group).collect();
    Ok((!errors.is_empty()).then(|| mean(&errors)))
}
