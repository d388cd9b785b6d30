//! Measured rows compared with the prediction for unprofiled networks.

use super::term::COUNT;
use serde::{Deserialize, Serialize};

/// The coordinates of a row among all rows of networks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowCoordinates {
    /// The network at its widths.
    pub(super) level: String,
    /// Logarithm of the batch size.
    pub(super) batch: f64,
    /// Derivatives of the logarithm of time by whitened parameters: uncorrelated and of equal variance.
    pub(super) slopes: Vec<f64>,
}

impl RowCoordinates {
    /// The batch size itself, rounded because its logarithm is not exact.
    pub(super) fn samples(&self) -> u64 {
        self.batch.exp().round() as u64
    }
}

/// A row and its deviation from the prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResidualSample {
    #[serde(rename = "place")]
    pub(super) coordinates: RowCoordinates,
    /// Logarithm of measured over predicted.
    pub(super) residual: f64,
    /// Relative spread of the row's repetitions, or of its steps, to either side.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) spread: f64,
}

fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

impl ResidualSample {
    /// Whether the values of a file are possible for measurements.
    pub(super) fn is_valid(&self) -> bool {
        let numbers = self.coordinates.slopes.iter().chain([&self.residual, &self.coordinates.batch, &self.spread]);
        self.coordinates.slopes.len() == COUNT
            && self.spread >= 0.0
            && self.coordinates.batch >= 0.0
            && numbers.into_iter().all(|number| number.abs() < 100.0)
    }
}
