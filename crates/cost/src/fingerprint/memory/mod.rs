//! Memory by simulation: a step's allocations are simulated, a curve converts them to memory used, and a limit gives
//! the verdict. The accuracy, and the alternatives that were tried, are in `docs/accuracy/memory.md`.

mod boundary;
mod curve;
mod digest;
mod edge;
mod error_distribution;
mod kernels;
mod largest_batch;
mod likelier_platform;
mod model;
mod prepared;
mod query;
mod residual;
mod search;
mod stored;

pub use boundary::{MemoryBoundary, TriedStep};
pub use likelier_platform::{LikelierPlatform, likelier_platform};

use super::cross_validation::{ErrorSpread, Folds, Residuals, leave_out};
use super::rows::{FailedAttempt, MeasuredRow, Observations};
use crate::records::Variant;
use curve::UsageCurve;
use digest::{ProfiledVariant, capacity, digest, digest_variants};
use edge::MemoryEdge;
use error_distribution::ErrorDistributions;
use model::UsageModel;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_network::Network;
use perf4sight_platform::{Allocator, CounterReadings, Platform, TensorMemory};
use perf4sight_step::workload::Step;
use prepared::PreparedMemory;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use stored::StoredMemoryModel;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredMemoryModel", into = "StoredMemoryModel")]
pub(super) struct MemoryModel {
    platform: Platform,
    seed: u64,
    model: UsageModel,
    /// Total memory of the device in MiB, where the rows have it.
    capacity: Option<f64>,
    /// None where nothing failed and no row has the device's capacity.
    edge: Option<MemoryEdge>,
    doubts: ErrorDistributions,
    spread: Option<ErrorSpread>,
    known: Vec<ProfiledVariant>,
}

impl MemoryModel {
    /// The device that was profiled.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    pub fn fit(step: Step, seed: u64, observations: &Observations) -> Result<Self> {
        let capacity = observations.rows.iter().filter_map(|row| capacity(&row.record)).reduce(f64::min);
        let known = digest(step, observations);
        let parts: Vec<&ProfiledVariant> = known.iter().collect();
        let platform = observations.platform.clone();
        let model = UsageModel::fit(&parts, platform.allocator, seed)?
            .ok_or_else(|| Error::input("no step fitted into the device's memory"))?;
        let doubts = ErrorDistributions::fit(&known, platform.allocator);
        Ok(MemoryModel {
            edge: MemoryEdge::find(&parts, &model.curve, &doubts, (&platform, capacity))?,
            spread: error_spread(&known, platform.allocator, seed)?,
            platform,
            seed,
            model,
            capacity,
            doubts,
            known,
        })
    }

    /// The prior of a device, before any measurement on it: of what steps need at most, however a profiler of the device would read it.
    pub fn prior(platform: &Platform) -> Self {
        let process = ProcessMemoryPrior::new(platform.memory);
        MemoryModel {
            platform: Platform { readings: CounterReadings::Highest, ..platform.clone() },
            seed: 0,
            model: UsageModel::unfitted(UsageCurve::flat(process.typical)),
            capacity: None,
            edge: None,
            doubts: ErrorDistributions::prior(platform.allocator, process.deviation),
            spread: None,
            known: Vec::new(),
        }
    }

    /// The same with more rows: the new network weighs as much as every other. Steps that did not fit help to find
    /// the limit.
    pub fn calibrate(&self, step: Step, rows: &[MeasuredRow], failed: &[FailedAttempt]) -> Result<Self> {
        let added = digest(step, &Observations { rows, taught: &[], failed, platform: &self.platform });
        let known: Vec<ProfiledVariant> = self.known.iter().cloned().chain(added).collect();
        let parts: Vec<&ProfiledVariant> = known.iter().collect();
        let allocator = self.platform.allocator;
        let model = UsageModel::fit(&parts, allocator, self.seed)?.unwrap_or_else(|| self.model.clone());
        let doubts = ErrorDistributions::fit(&known, allocator);
        let edge = MemoryEdge::find(&parts, &model.curve, &doubts, (&self.platform, self.capacity))?;
        Ok(MemoryModel {
            model,
            edge,
            doubts,
            spread: error_spread(&known, allocator, self.seed)?,
            known,
            ..self.clone()
        })
    }

    /// Whether one network's steps are all that was measured, so that the error of another one's is unknown.
    fn knows_one_network(&self) -> bool {
        let mut networks = self.known.iter().map(|known| &known.network);
        networks.next().is_some_and(|first| networks.all(|network| network == first))
    }

    pub fn prepare<'a>(&'a self, network: &'a Network) -> PreparedMemory<'a> {
        PreparedMemory::new(self, network)
    }

    /// Refuses a file that no fit can have written.
    ///
    /// # Errors
    /// Numbers that no device can have.
    pub fn check(&self) -> Result<()> {
        if !self.spread.as_ref().is_none_or(ErrorSpread::is_valid) {
            return Err(Error::input("its intervals have widths that no fit gives"));
        }
        let kernels = self.known.iter().all(|part| part.kernels().is_valid());
        let is_limited = self.capacity.is_none_or(|mib| mib.is_finite() && mib > 0.0);
        let is_sound = is_limited && self.doubts.is_valid() && self.edge.is_none_or(|edge| edge.is_valid());
        match kernels && is_sound && self.model.curve.is_valid() {
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
        let residuals = |own: &[&(&Variant, ProfiledVariant)], others: &[&(&Variant, ProfiledVariant)]| {
            let others: Vec<&ProfiledVariant> = others.iter().map(|(_, part)| part).collect();
            let model = UsageModel::fit(&others, observations.platform.allocator, seed)?;
            Ok(own.iter().flat_map(|(_, part)| model.iter().flat_map(|model| model.left_open(part))).collect())
        };
        leave_out(&known, |(variant, _)| Some(group(variant)), residuals).into_iter().collect()
    }
}

/// From the residuals of every network, predicted from all others, and of levels, predicted from the others of their network.
fn error_spread(known: &[ProfiledVariant], allocator: Allocator, seed: u64) -> Result<Option<ErrorSpread>> {
    let Some(spread) = networks_left_out(known, allocator) else { return Ok(None) };
    Ok(Some(spread.with_levels(levels_left_out(known, allocator, seed)?)))
}

fn networks_left_out(known: &[ProfiledVariant], allocator: Allocator) -> Option<ErrorSpread> {
    let residuals = |own: &[&ProfiledVariant], others: &[&ProfiledVariant]| -> Residuals {
        let model = digest::curve(others, allocator).map(UsageModel::unfitted);
        own.iter().flat_map(|part| model.iter().flat_map(|model| model.left_open(part))).collect()
    };
    ErrorSpread::new(&leave_out(known, |part| Some(&part.network), residuals))
}

/// Residuals of levels, predicted from the other levels of their network and all other networks, by architecture.
fn levels_left_out(known: &[ProfiledVariant], allocator: Allocator, seed: u64) -> Result<BTreeMap<String, Residuals>> {
    let folds = Folds::new(known.iter().map(|part| (part.network.as_str(), part.level)));
    let residuals = |own: &[&ProfiledVariant], others: &[&ProfiledVariant]| -> Result<Vec<(String, Residuals)>> {
        let model = UsageModel::fit(others, allocator, seed)?;
        let left_open = |part: &ProfiledVariant| Some((part.architecture.clone(), model.as_ref()?.left_open(part)));
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
pub(super) struct ProcessMemoryPrior {
    /// The median: too high as likely as too low.
    pub typical: f64,
    /// The scale of its uncertainty.
    pub deviation: f64,
    /// How far one network's differs from another's in the same program.
    pub between_networks: f64,
}

impl ProcessMemoryPrior {
    /// For processes whose tensors are in such memory.
    pub fn new(memory: TensorMemory) -> Self {
        match memory {
            // From 22 to 41 MiB in a profile by our worker (`docs/accuracy/memory.md`) to 372 to 575 MiB in loops of Python, whose
            // PyTorch has libraries for CUDA (`benches/process_memory.py`). Networks unlike the seven of that profile needed
            // 8 MiB more or less than these (root mean square of 13 steps of seven networks, 14 at most).
            TensorMemory::Host => ProcessMemoryPrior { typical: 270.0, deviation: 140.0, between_networks: 8.0 },
            // A CUDA context with its libraries: 845 to 1550 MiB on the published TX2. No other device was measured
            // here; later versions of CUDA load kernels lazily, so the interval begins far below.
            // An H100's networks differed by 20 to 148 MiB (docs/accuracy/h100.md).
            TensorMemory::Dedicated | TensorMemory::Unified => {
                ProcessMemoryPrior { typical: 1000.0, deviation: 350.0, between_networks: 40.0 }
            }
        }
    }
}
