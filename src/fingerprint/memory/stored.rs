//! Fitted memory as it lies in a file: without the trees, which grow again from the rows it keeps.

use super::MemoryModel;
use super::curve::Curve;
use super::digest::Known;
use super::doubt::Doubts;
use super::edge::Edge;
use super::model::Model;
use crate::error::{Error, Result};
use crate::fingerprint::cross_validation::Spread;
use crate::target::Target;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stored {
    target: Target,
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
        let MemoryModel { target, seed, model, capacity, edge, doubts, spread, known } = memory;
        Stored { target, seed, curve: model.curve, capacity, edge, doubts, spread, known }
    }
}

impl TryFrom<Stored> for MemoryModel {
    type Error = Error;

    fn try_from(stored: Stored) -> Result<Self> {
        let Stored { target, seed, curve, capacity, edge, doubts, spread, known } = stored;
        target.check()?;
        let model = Model::grown(curve, &known.iter().collect::<Vec<_>>(), target.allocator, seed)?;
        Ok(MemoryModel { target, seed, model, capacity, edge, doubts, spread, known })
    }
}
