//! Fitted memory as stored in a file: without the trees, which are grown again from the stored rows.

use super::MemoryModel;
use super::curve::UsageCurve;
use super::digest::ProfiledVariant;
use super::edge::MemoryEdge;
use super::error_distribution::ErrorDistributions;
use super::model::UsageModel;
use crate::fingerprint::cross_validation::ErrorSpread;
use perf4sight_base::error::{Error, Result};
use perf4sight_platform::Platform;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredMemoryModel {
    #[serde(rename = "target")]
    platform: Platform,
    seed: u64,
    curve: UsageCurve,
    capacity: Option<f64>,
    edge: Option<MemoryEdge>,
    doubts: ErrorDistributions,
    spread: Option<ErrorSpread>,
    known: Vec<ProfiledVariant>,
}

impl From<MemoryModel> for StoredMemoryModel {
    fn from(memory: MemoryModel) -> Self {
        let MemoryModel { platform, seed, model, capacity, edge, doubts, spread, known } = memory;
        StoredMemoryModel { platform, seed, curve: model.curve, capacity, edge, doubts, spread, known }
    }
}

impl TryFrom<StoredMemoryModel> for MemoryModel {
    type Error = Error;

    fn try_from(stored: StoredMemoryModel) -> Result<Self> {
        let StoredMemoryModel { platform, seed, curve, capacity, edge, doubts, spread, known } = stored;
        platform.check()?;
        let model = UsageModel::fit_residuals(curve, &known.iter().collect::<Vec<_>>(), platform.allocator, seed)?;
        Ok(MemoryModel { platform, seed, model, capacity, edge, doubts, spread, known })
    }
}
