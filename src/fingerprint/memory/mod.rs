//! Memory by simulation: a step's allocations are simulated, a curve makes used memory of them, and a limit says whether they fit. How close
//! it comes, and what else was tried, stands in `ACCURACY.md` beside this file.

mod curve;
mod digest;
mod limit;
mod prepared;
mod residual;
mod search;
mod simulated;
mod stored;

pub(super) use prepared::Prepared;

use super::observations::Observations;
use super::rows::Row;
use super::spread::{Residuals, Spread};
use crate::error::Result;
use crate::network::Network;
use crate::records::Reading;
use crate::target::Target;
use crate::workload::Stage;
use curve::Curve;
use digest::{Known, architecture, digest, points, trials};
use limit::Limit;
use rayon::prelude::*;
use residual::{Residual, residuals};
use serde::{Deserialize, Serialize};
use simulated::simulation;
use std::collections::{BTreeMap, BTreeSet};
use stored::Stored;

/// The fitted memory of one device and stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub(super) struct Memory {
    target: Target,
    seed: u64,
    curve: Curve,
    /// None where nothing failed and no row names the device's capacity.
    limit: Option<Limit>,
    spread: Option<Spread>,
    known: Vec<Known>,
    /// By architecture; grown from `known`, not stored.
    residuals: BTreeMap<String, Residual>,
}

impl Memory {
    pub fn fit(stage: Stage, seed: u64, observations: &Observations) -> Result<Self> {
        let capacity = observations.rows.iter().filter_map(capacity).reduce(f64::min);
        let known = digest(stage, observations);
        let parts: Vec<&Known> = known.iter().collect();
        let (curve, trials) = (Curve::fit(&points(&parts)), trials(&parts));
        let assumed = || Some(Limit::assumed(capacity? - curve.large, &trials));
        Ok(Memory {
            limit: Limit::fit(&trials)?.or_else(assumed),
            spread: spread(&known),
            residuals: residuals(&parts, &curve, seed)?,
            target: observations.target.clone(),
            seed,
            curve,
            known,
        })
    }

    /// The same with more rows: the new network weighs as much as every other.
    pub fn calibrate(&self, stage: Stage, rows: &[Row]) -> Result<Self> {
        let added = digest(stage, &Observations { rows, failed: &[], target: &self.target });
        let known: Vec<Known> = self.known.iter().cloned().chain(added).collect();
        let parts: Vec<&Known> = known.iter().collect();
        let curve = Curve::fit(&points(&parts));
        let limit = Limit::fit(&trials(&parts))?.or(self.limit);
        let (spread, residuals) = (spread(&known), residuals(&parts, &curve, self.seed)?);
        Ok(Memory { curve, limit, spread, residuals, known, ..self.clone() })
    }

    pub fn about<'a>(&'a self, stage: Stage, network: &'a Network) -> Prepared<'a> {
        let residual = self.residuals.get(&architecture(network));
        Prepared::new(self, residual, network.parameters(), simulation(network, stage, &self.target))
    }

    pub fn spread(&self) -> Option<Spread> {
        self.spread
    }
}

/// MiB that the device has in all.
fn capacity(row: &Row) -> Option<f64> {
    match row.record.reading {
        Reading::Memory(columns) => columns.capacity.map(|bytes| bytes.mib()),
        Reading::Latency(_) => None,
    }
}

/// From the residuals of every network, predicted from all others.
fn spread(known: &[Known]) -> Option<Spread> {
    let networks: BTreeSet<&String> = known.iter().map(|part| &part.network).collect();
    let networks: Vec<&String> = networks.into_iter().collect();
    let residuals = networks.par_iter().map(|name| -> Option<Residuals> {
        let (own, others): (Vec<&Known>, Vec<&Known>) = known.iter().partition(|part| part.network == **name);
        let points = points(&others);
        let curve = (!points.is_empty()).then(|| Curve::fit(&points))?;
        let steps = own.iter().flat_map(|part| &part.steps);
        let residual = |step: &digest::Step| Some((step.used? / curve.at(step.simulated.reserved, step.batch)).ln());
        Some(steps.filter_map(residual).collect())
    });
    Spread::new(&residuals.flatten().collect::<Vec<_>>())
}
