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

pub use limit::{Limit, Tried};
pub(super) use prepared::Prepared;

use super::architecture::architecture;
use super::folds::{FOLDS, Folds};
use super::observations::{Attempt, Observations};
use super::rows::Row;
use super::spread::{Residuals, Spread};
use crate::error::{Error, Result};
use crate::network::Network;
use crate::records::{Reading, Variant};
use crate::target::Target;
use crate::workload::Stage;
use curve::Curve;
use digest::{Known, Step, digest, of_variants, points, trials};
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
            spread: spread(&known, seed)?,
            residuals: residuals(&parts, &curve, seed)?,
            target: observations.target.clone(),
            seed,
            curve,
            known,
        })
    }

    /// The same with more rows: the new network weighs as much as every other. What did not fit says where the limit is.
    pub fn calibrate(&self, stage: Stage, rows: &[Row], failed: &[Attempt]) -> Result<Self> {
        let added = digest(stage, &Observations { rows, failed, target: &self.target });
        let known: Vec<Known> = self.known.iter().cloned().chain(added).collect();
        let parts: Vec<&Known> = known.iter().collect();
        let curve = Curve::fit(&points(&parts));
        let limit = Limit::fit(&trials(&parts))?.or(self.limit);
        let (spread, residuals) = (spread(&known, self.seed)?, residuals(&parts, &curve, self.seed)?);
        Ok(Memory { curve, limit, spread, residuals, known, ..self.clone() })
    }

    pub fn about<'a>(&'a self, stage: Stage, network: &'a Network) -> Prepared<'a> {
        let residual = self.residuals.get(&architecture(network));
        Prepared::new(self, residual, network.parameters(), simulation(network, stage, &self.target))
    }

    /// Refuses what a file says that no fit could have said.
    ///
    /// # Errors
    /// Numbers beyond any device.
    pub fn check(&self) -> Result<()> {
        match self.curve.is_sound() && self.limit.is_none_or(|limit| limit.is_sound()) {
            true => Ok(()),
            false => Err(Error::input("what it fitted to memory is no device's")),
        }
    }

    pub fn spread(&self) -> Option<&Spread> {
        self.spread.as_ref()
    }

    /// Residuals of every group of variants, predicted from all others; none where the others are too few to fit.
    pub fn left_out<G: Ord + Send + Sync>(
        stage: Stage,
        seed: u64,
        observations: &Observations,
        group: &(impl Fn(&Variant) -> G + Sync),
    ) -> Result<Vec<Residuals>> {
        let known: Vec<(G, Known)> =
            of_variants(stage, observations).into_iter().map(|(variant, known)| (group(variant), known)).collect();
        let groups: Vec<&G> = known.iter().map(|(group, _)| group).collect::<BTreeSet<&G>>().into_iter().collect();
        let residuals = groups.par_iter().map(|name| {
            let part = |own: bool| known.iter().filter(move |(group, _)| (group == *name) == own).map(|(_, part)| part);
            let others: Vec<&Known> = part(false).collect();
            let points = points(&others);
            if points.is_empty() {
                return Ok(Residuals::new());
            }
            let curve = Curve::fit(&points);
            let forests = residuals(&others, &curve, seed)?;
            let left = |part: &Known| left_open(part, &curve, forests.get(&part.architecture));
            Ok(part(true).flat_map(left).collect())
        });
        residuals.collect()
    }
}

/// MiB that the device has in all.
fn capacity(row: &Row) -> Option<f64> {
    match row.record.reading {
        Reading::Memory(columns) => columns.capacity.map(|bytes| bytes.mib()),
        Reading::Latency(_) => None,
    }
}

/// From the residuals of every network, predicted from all others, and of levels, predicted from the others of their network.
fn spread(known: &[Known], seed: u64) -> Result<Option<Spread>> {
    let Some(spread) = networks_left_out(known) else { return Ok(None) };
    Ok(Some(spread.with_levels(levels_left_out(known, seed)?)))
}

fn networks_left_out(known: &[Known]) -> Option<Spread> {
    let networks: BTreeSet<&String> = known.iter().map(|part| &part.network).collect();
    let networks: Vec<&String> = networks.into_iter().collect();
    let residuals = networks.par_iter().map(|name| -> Option<Residuals> {
        let (own, others): (Vec<&Known>, Vec<&Known>) = known.iter().partition(|part| part.network == **name);
        let points = points(&others);
        let curve = (!points.is_empty()).then(|| Curve::fit(&points))?;
        Some(own.iter().flat_map(|part| left_open(part, &curve, None)).collect())
    });
    Spread::new(&residuals.flatten().collect::<Vec<_>>())
}

/// Residuals of levels, predicted from the other levels of their network and all other networks, by architecture.
fn levels_left_out(known: &[Known], seed: u64) -> Result<BTreeMap<String, Residuals>> {
    let folds = Folds::new(known.iter().map(|part| (part.network.as_str(), part.level)));
    let mut levels: BTreeMap<String, Residuals> = BTreeMap::new();
    for fold in 0..FOLDS {
        let (own, others): (Vec<&Known>, Vec<&Known>) =
            known.iter().partition(|part| folds.holds(fold, &part.network, part.level));
        let points = points(&others);
        if own.is_empty() || points.is_empty() {
            continue;
        }
        let curve = Curve::fit(&points);
        let forests = residuals(&others, &curve, seed)?;
        for part in own {
            let left = left_open(part, &curve, forests.get(&part.architecture));
            levels.entry(part.architecture.clone()).or_default().extend(left);
        }
    }
    Ok(levels)
}

/// What a curve, and trees where there are some, leave open of the rows of a variant: logarithms of measured over predicted.
fn left_open(part: &Known, curve: &Curve, forests: Option<&Residual>) -> Residuals {
    let residual = |step: &Step| {
        let query = part.query(step, curve);
        Some((step.used? / forests.map_or(query.curve, |forests| forests.at(query))).ln())
    };
    part.steps.iter().filter_map(residual).collect()
}
