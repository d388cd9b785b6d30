//! Rows besides what is predicted for networks of which nothing is known.

use super::term::COUNT;
use serde::{Deserialize, Serialize};

/// Where a row lies among all rows of networks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Coordinates {
    /// The network at its widths.
    pub(super) level: String,
    /// Logarithm of the batch size.
    pub(super) batch: f64,
    /// Derivatives of the logarithm of time, by parameters that are as uncertain as one another and know nothing of one another.
    pub(super) slopes: Vec<f64>,
}

impl Coordinates {
    /// The batch size itself: what is a whole number before and after its logarithm.
    pub(super) fn samples(&self) -> u64 {
        self.batch.exp().round() as u64
    }
}

/// A row and how far it lies from its prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sample {
    #[serde(rename = "place")]
    pub(super) coordinates: Coordinates,
    /// Logarithm of measured over predicted.
    pub(super) residual: f64,
    /// What visits to the row, or its steps, differ by to either side, as a share of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) spread: f64,
}

/// Whether a file can do without a number.
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

impl Sample {
    /// Whether a file holds what could have been measured.
    pub(super) fn is_sound(&self) -> bool {
        let numbers = self.coordinates.slopes.iter().chain([&self.residual, &self.coordinates.batch, &self.spread]);
        self.coordinates.slopes.len() == COUNT
            && self.spread >= 0.0
            && self.coordinates.batch >= 0.0
            && numbers.into_iter().all(|number| number.abs() < 100.0)
    }
}
