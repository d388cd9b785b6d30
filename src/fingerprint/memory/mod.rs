//! Memory by simulation: a step's allocations are simulated, a curve makes used memory of them, and a limit says whether they fit. How close
//! it comes, and what else was tried, stands in `docs/accuracy/memory.md`.

mod boundary;
mod curve;
mod digest;
mod doubt;
mod edge;
mod kernels;
mod likelier;
mod model;
mod offset;
mod prepared;
mod query;
mod residual;
mod search;
mod simulated;
mod stored;

pub use boundary::{Boundary, Tried};
pub use likelier::{Likelier, likelier};

use super::cross_validation::{FOLDS, Folds, Residuals, Spread};
use super::novelty::Novelty;
use super::rows::{Attempt, Observations, Row};
use crate::error::{Error, Result};
use crate::network::Network;
use crate::records::Variant;
use crate::target::{Allocator, Target};
use crate::units::Bytes;
use crate::workload::Step;
use digest::{Known, capacity, digest, of_variants};
use doubt::Doubts;
use edge::Edge;
use model::Model;
use prepared::Prepared;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use stored::Stored;

/// The fitted memory of one device and stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub(super) struct MemoryModel {
    target: Target,
    seed: u64,
    model: Model,
    /// MiB that the device has in all, where the rows tell.
    capacity: Option<f64>,
    /// None where nothing failed and no row names the device's capacity.
    edge: Option<Edge>,
    doubts: Doubts,
    spread: Option<Spread>,
    known: Vec<Known>,
}

impl MemoryModel {
    pub fn fit(step: Step, seed: u64, observations: &Observations) -> Result<Self> {
        let capacity = observations.rows.iter().filter_map(|row| capacity(&row.record)).reduce(f64::min);
        let known = digest(step, observations);
        let parts: Vec<&Known> = known.iter().collect();
        let target = observations.target.clone();
        let model = Model::fit(&parts, target.allocator, seed)?
            .ok_or_else(|| Error::input("no step fitted into the device's memory"))?;
        let doubts = Doubts::of(&known, target.allocator);
        Ok(MemoryModel {
            edge: Edge::of(&parts, &model.curve, &doubts, (&target, capacity))?,
            spread: spread(&known, target.allocator, seed)?,
            target,
            seed,
            model,
            capacity,
            doubts,
            known,
        })
    }

    /// The same with more rows: the new network weighs as much as every other. What did not fit says where the limit is.
    pub fn calibrate(&self, step: Step, rows: &[Row], failed: &[Attempt]) -> Result<Self> {
        let added = digest(step, &Observations { rows, failed, target: &self.target });
        let known: Vec<Known> = self.known.iter().cloned().chain(added).collect();
        let parts: Vec<&Known> = known.iter().collect();
        let allocator = self.target.allocator;
        let model = Model::fit(&parts, allocator, self.seed)?.unwrap_or_else(|| self.model.clone());
        let doubts = Doubts::of(&known, allocator);
        let edge = Edge::of(&parts, &model.curve, &doubts, (&self.target, self.capacity))?;
        Ok(MemoryModel { model, edge, doubts, spread: spread(&known, allocator, self.seed)?, known, ..self.clone() })
    }

    pub fn about<'a>(&'a self, step: Step, network: &'a Network, novelty: &Novelty) -> Prepared<'a> {
        Prepared::new(self, step, network, novelty)
    }

    /// Refuses what a file says that no fit could have said.
    ///
    /// # Errors
    /// Numbers beyond any device.
    pub fn check(&self) -> Result<()> {
        if !self.spread.as_ref().is_none_or(Spread::is_sound) {
            return Err(Error::input("its intervals have widths that no fit gives"));
        }
        let kernels = self.known.iter().all(|part| part.kernels().is_sound());
        let is_limited = self.capacity.is_none_or(|mib| mib.is_finite() && mib > 0.0);
        let is_sound = is_limited && self.doubts.is_sound() && self.edge.is_none_or(|edge| edge.is_sound());
        match kernels && is_sound && self.model.curve.is_sound() {
            true => Ok(()),
            false => Err(Error::input("what it fitted to memory is no device's")),
        }
    }

    /// All that the device has, where the rows tell.
    pub fn capacity(&self) -> Option<Bytes> {
        self.capacity.map(Bytes::from_mib)
    }

    /// Residuals of every group of variants, predicted from all others; none where the others are too few to fit.
    pub fn left_out<G: Ord + Send + Sync>(
        step: Step,
        seed: u64,
        observations: &Observations,
        group: &(impl Fn(&Variant) -> G + Sync),
    ) -> Result<Vec<Residuals>> {
        let known: Vec<(G, Known)> =
            of_variants(step, observations).into_iter().map(|(variant, known)| (group(variant), known)).collect();
        let groups: Vec<&G> = known.iter().map(|(group, _)| group).collect::<BTreeSet<&G>>().into_iter().collect();
        let residuals = groups.par_iter().map(|name| {
            let part = |own: bool| known.iter().filter(move |(group, _)| (group == *name) == own).map(|(_, part)| part);
            let others: Vec<&Known> = part(false).collect();
            let Some(model) = Model::fit(&others, observations.target.allocator, seed)? else {
                return Ok(Residuals::new());
            };
            Ok(part(true).flat_map(|part| model.left_open(part)).collect())
        });
        residuals.collect()
    }
}

/// From the residuals of every network, predicted from all others, and of levels, predicted from the others of their network.
fn spread(known: &[Known], allocator: Allocator, seed: u64) -> Result<Option<Spread>> {
    let Some(spread) = networks_left_out(known, allocator) else { return Ok(None) };
    Ok(Some(spread.with_levels(levels_left_out(known, allocator, seed)?)))
}

fn networks_left_out(known: &[Known], allocator: Allocator) -> Option<Spread> {
    let networks: BTreeSet<&String> = known.iter().map(|part| &part.network).collect();
    let networks: Vec<&String> = networks.into_iter().collect();
    let residuals = networks.par_iter().map(|name| -> Option<Residuals> {
        let (own, others): (Vec<&Known>, Vec<&Known>) = known.iter().partition(|part| part.network == **name);
        let model = Model::untaught(digest::curve(&others, allocator)?);
        Some(own.iter().flat_map(|part| model.left_open(part)).collect())
    });
    Spread::new(&residuals.flatten().collect::<Vec<_>>())
}

/// Residuals of levels, predicted from the other levels of their network and all other networks, by architecture.
fn levels_left_out(known: &[Known], allocator: Allocator, seed: u64) -> Result<BTreeMap<String, Residuals>> {
    let folds = Folds::new(known.iter().map(|part| (part.network.as_str(), part.level)));
    let mut levels: BTreeMap<String, Residuals> = BTreeMap::new();
    for fold in 0..FOLDS {
        let (own, others): (Vec<&Known>, Vec<&Known>) =
            known.iter().partition(|part| folds.holds(fold, &part.network, part.level));
        if own.is_empty() {
            continue;
        }
        let Some(model) = Model::fit(&others, allocator, seed)? else { continue };
        for part in own {
            levels.entry(part.architecture.clone()).or_default().extend(model.left_open(part));
        }
    }
    Ok(levels)
}
