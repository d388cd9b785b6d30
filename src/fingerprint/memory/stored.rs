//! Fitted memory as it lies in a file: without the trees, which grow again from the rows it keeps.

use super::Memory;
use super::curve::Curve;
use super::digest::Known;
use super::limit::Limit;
use super::model::Model;
use crate::error::{Error, Result};
use crate::fingerprint::spread::Spread;
use crate::target::Target;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stored {
    target: Target,
    seed: u64,
    curve: Curve,
    limit: Option<Limit>,
    spread: Option<Spread>,
    known: Vec<Known>,
}

impl From<Memory> for Stored {
    fn from(memory: Memory) -> Self {
        let Memory { target, seed, model, limit, spread, known } = memory;
        Stored { target, seed, curve: model.curve, limit, spread, known }
    }
}

impl TryFrom<Stored> for Memory {
    type Error = Error;

    fn try_from(stored: Stored) -> Result<Self> {
        let Stored { target, seed, curve, limit, spread, known } = stored;
        target.check()?;
        let model = Model::grown(curve, &known.iter().collect::<Vec<_>>(), target.allocator, seed)?;
        Ok(Memory { target, seed, model, limit, spread, known })
    }
}
