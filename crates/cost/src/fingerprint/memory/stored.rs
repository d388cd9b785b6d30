//! Fitted memory as stored in a file: without the trees, which are grown again from the stored rows.

use super::MemoryModel;
use super::curve::Curve;
use super::digest::Known;
use super::doubt::Doubts;
use super::edge::Edge;
use super::model::Model;
use crate::fingerprint::cross_validation::Spread;
use perf4sight_base::error::{Error, Result};
use perf4sight_platform::Platform;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stored {
    #[serde(rename = "target")]
    platform: Platform,
    seed: u64,
    curve: Curve,
    capacity: Option<f64>,
    edge: Option<Edge>,
    doubts: Doubts,
    spread: Option<Spread>,
    known: Vec<Known>,
}

impl From<MemoryModel> for Stored {
    fn from(memory: MemoryModel) -> Self {
        let MemoryModel { platform, seed, model, capacity, edge, doubts, spread, known } = memory;
        Stored { platform, seed, curve: model.curve, capacity, edge, doubts, spread, known }
    }
}

impl TryFrom<Stored> for MemoryModel {
    type Error = Error;

    fn try_from(stored: Stored) -> Result<Self> {
        let Stored { platform, seed, curve, capacity, edge, doubts, spread, known } = stored;
        platform.check()?;
        let model = Model::grown(curve, &known.iter().collect::<Vec<_>>(), platform.allocator, seed)?;
        Ok(MemoryModel { platform, seed, model, capacity, edge, doubts, spread, known })
    }
}
