//! Memory by simulation: a step's allocations are simulated, a curve converts them to memory used, and a limit gives
//! the verdict. The accuracy, and the alternatives that were tried, are in `docs/accuracy/memory.md`.

mod boundary;
mod curve;
mod digest;
mod doubt;
mod edge;
mod kernels;
mod likelier;
mod model;
mod prepared;
mod query;
mod residual;
mod search;
mod stored;

pub use boundary::{Boundary, Tried};
pub use likelier::{Likelier, likelier};

use super::cross_validation::{Folds, Residuals, Spread, leave_out};
use super::rows::{Attempt, Observations, Row};
use crate::records::Variant;
use curve::Curve;
use digest::{Known, capacity, digest, digest_variants};
use doubt::Doubts;
use edge::Edge;
use model::Model;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_network::Network;
use perf4sight_platform::{Allocator, Memory, Platform, Readings};
use perf4sight_step::workload::Step;
use prepared::PreparedNetwork;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use stored::Stored;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub(super) struct MemoryModel {
    platform: Platform,
    seed: u64,
    model: Model,
    /// Total memory of the device in MiB, where the rows have it.
    capacity: Option<f64>,
    /// None where nothing failed and no row has the device's capacity.
    edge: Option<Edge>,
    doubts: Doubts,
    spread: Option<Spread>,
    known: Vec<Known>,
}

impl MemoryModel {
    /// The device that was profiled.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    pub fn fit(step: Step, seed: u64, observations: &Observations) -> Result<Self> {
        let capacity = observations.rows.iter().filter_map(|row| capacity(&row.record)).reduce(f64::min);
        let known = digest(step, observations);
        let parts: Vec<&Known> = known.iter().collect();
        let platform = observations.platform.clone();
        let model = Model::fit(&parts, platform.allocator, seed)?
            .ok_or_else(|| Error::input("no step fitted into the device's memory"))?;
        let doubts = Doubts::fit(&known, platform.allocator);
        Ok(MemoryModel {
            edge: Edge::find(&parts, &model.curve, &doubts, (&platform, capacity))?,
            spread: spread(&known, platform.allocator, seed)?,
            platform,
            seed,
            model,
            capacity,
            doubts,
            known,
        })
    }

    /// The prior of a device, before any measurement on it: of what steps need at most, however a profiler of the device would read it.
    pub fn before(platform: &Platform) -> Self {
        let process = ProcessMemory::new(platform.memory);
        MemoryModel {
            platform: Platform { readings: Readings::Highest, ..platform.clone() },
            seed: 0,
            model: Model::unfitted(Curve::flat(process.typical)),
            capacity: None,
            edge: None,
            doubts: Doubts::before(platform.allocator, process.deviation),
            spread: None,
            known: Vec::new(),
        }
    }

    /// The same with more rows: the new network weighs as much as every other. Steps that did not fit help to find
    /// the limit.
    pub fn calibrate(&self, step: Step, rows: &[Row], failed: &[Attempt]) -> Result<Self> {
        let added = digest(step, &Observations { rows, taught: &[], failed, platform: &self.platform });
        let known: Vec<Known> = self.known.iter().cloned().chain(added).collect();
        let parts: Vec<&Known> = known.iter().collect();
        let allocator = self.platform.allocator;
        let model = Model::fit(&parts, allocator, self.seed)?.unwrap_or_else(|| self.model.clone());
        let doubts = Doubts::fit(&known, allocator);
        let edge = Edge::find(&parts, &model.curve, &doubts, (&self.platform, self.capacity))?;
        Ok(MemoryModel { model, edge, doubts, spread: spread(&known, allocator, self.seed)?, known, ..self.clone() })
    }

    pub fn prepare<'a>(&'a self, network: &'a Network) -> PreparedNetwork<'a> {
        PreparedNetwork::new(self, network)
    }

    /// Refuses a file that no fit can have written.
    ///
    /// # Errors
    /// Numbers that no device can have.
    pub fn check(&self) -> Result<()> {
        if !self.spread.as_ref().is_none_or(Spread::is_sound) {
            return Err(Error::input("its intervals have widths that no fit gives"));
        }
        let kernels = self.known.iter().all(|part| part.kernels().is_sound());
        let is_limited = self.capacity.is_none_or(|mib| mib.is_finite() && mib > 0.0);
        let is_sound = is_limited && self.doubts.is_sound() && self.edge.is_none_or(|edge| edge.is_sound());
        match kernels && is_sound && self.model.curve.is_sound() {
            true => Ok(()),
            false => Err(Error::input("its model of memory holds numbers that no device can have")),
        }
    }

    /// Total memory of the device, where the rows have it.
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
        let known = digest_variants(step, observations);
        let residuals = |own: &[&(&Variant, Known)], others: &[&(&Variant, Known)]| {
            let others: Vec<&Known> = others.iter().map(|(_, part)| part).collect();
            let model = Model::fit(&others, observations.platform.allocator, seed)?;
            Ok(own.iter().flat_map(|(_, part)| model.iter().flat_map(|model| model.left_open(part))).collect())
        };
        leave_out(&known, |(variant, _)| Some(group(variant)), residuals).into_iter().collect()
    }
}

/// From the residuals of every network, predicted from all others, and of levels, predicted from the others of their network.
fn spread(known: &[Known], allocator: Allocator, seed: u64) -> Result<Option<Spread>> {
    let Some(spread) = networks_left_out(known, allocator) else { return Ok(None) };
    Ok(Some(spread.with_levels(levels_left_out(known, allocator, seed)?)))
}

fn networks_left_out(known: &[Known], allocator: Allocator) -> Option<Spread> {
    let residuals = |own: &[&Known], others: &[&Known]| -> Residuals {
        let model = digest::curve(others, allocator).map(Model::unfitted);
        own.iter().flat_map(|part| model.iter().flat_map(|model| model.left_open(part))).collect()
    };
    Spread::new(&leave_out(known, |part| Some(&part.network), residuals))
}

/// Residuals of levels, predicted from the other levels of their network and all other networks, by architecture.
fn levels_left_out(known: &[Known], allocator: Allocator, seed: u64) -> Result<BTreeMap<String, Residuals>> {
    let folds = Folds::new(known.iter().map(|part| (part.network.as_str(), part.level)));
    let residuals = |own: &[&Known], others: &[&Known]| -> Result<Vec<(String, Residuals)>> {
        let model = Model::fit(others, allocator, seed)?;
        let left_open = |part: &Known| Some((part.architecture.clone(), model.as_ref()?.left_open(part)));
        Ok(own.iter().filter_map(|part| left_open(part)).collect())
    };
    let mut levels: BTreeMap<String, Residuals> = BTreeMap::new();
    for of_fold in leave_out(known, |part| folds.fold(&part.network, part.level), residuals) {
        for (architecture, residuals) in of_fold? {
            levels.entry(architecture).or_default().extend(residuals);
        }
    }
    Ok(levels)
}

/// Prior of the MiB besides the tensors; tested on only one device of each kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessMemory {
    /// The median: too high as likely as too low.
    pub typical: f64,
    /// The scale of its uncertainty.
    pub deviation: f64,
}

impl ProcessMemory {
    /// For processes whose tensors are in such memory.
    pub fn new(memory: Memory) -> Self {
        match memory {
            // 22 to 41 MiB in the committed profile of a processor (`docs/accuracy/memory.md`): code and kernels,
            // after start-up.
            Memory::Host => ProcessMemory { typical: 30.0, deviation: 10.0 },
            // A CUDA context with its libraries: 845 to 1550 MiB on the published TX2. No other device was measured
            // here; later versions of CUDA load kernels lazily, so the interval begins far below.
            Memory::Dedicated | Memory::Unified => ProcessMemory { typical: 1000.0, deviation: 350.0 },
        }
    }
}
