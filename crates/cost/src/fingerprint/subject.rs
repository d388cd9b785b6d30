//! The subject of a fingerprint: a device, a data set, a step, a quantity.

use perf4sight_step::workload::{Quantity, Step};
use serde::{Deserialize, Serialize};

/// The subject of a fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The device's name.
    pub device: String,
    /// The data set whose shapes the networks have.
    pub dataset: String,
    /// The step whose cost it predicts.
    #[serde(flatten)]
    pub step: Step,
    /// Latency or memory.
    pub quantity: Quantity,
}
