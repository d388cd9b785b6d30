//! The model fitted to rows: the curve, and its residuals for architectures that were profiled.

use super::curve::UsageCurve;
use super::digest::{ProfiledStep, ProfiledVariant, curve};
use super::query::MemoryQuery;
use super::residual::{ArchitectureResidual, residuals};
use crate::fingerprint::cross_validation::Residuals;
use perf4sight_base::error::Result;
use perf4sight_platform::Allocator;
use std::collections::BTreeMap;

/// Converts the simulation of a step to the memory used.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct UsageModel {
    pub curve: UsageCurve,
    /// By architecture; grown from the rows, not stored.
    residuals: BTreeMap<String, ArchitectureResidual>,
}

impl UsageModel {
    /// None where no step fitted.
    pub fn fit(known: &[&ProfiledVariant], allocator: Allocator, seed: u64) -> Result<Option<Self>> {
        curve(known, allocator).map(|curve| UsageModel::fit_residuals(curve, known, allocator, seed)).transpose()
    }

    /// Fits residuals to a given curve.
    pub fn fit_residuals(
        curve: UsageCurve,
        known: &[&ProfiledVariant],
        allocator: Allocator,
        seed: u64,
    ) -> Result<Self> {
        Ok(UsageModel { residuals: residuals(known, &curve, allocator, seed)?, curve })
    }

    pub fn unfitted(curve: UsageCurve) -> Self {
        UsageModel { curve, residuals: BTreeMap::new() }
    }

    /// MiB used; at least the simulated memory of live tensors.
    pub fn used_memory(&self, architecture: &str, query: &MemoryQuery) -> f64 {
        self.used_by(&self.curve, architecture, query)
    }

    /// The same around another curve.
    pub fn used_by(&self, curve: &UsageCurve, architecture: &str, query: &MemoryQuery) -> f64 {
        let curve = query.curve(curve);
        let used = self.residuals.get(architecture).map_or(curve, |residual| residual.used_memory(query, curve));
        used.max(query.simulated.allocated)
    }

    /// Whether the prediction always grows with the simulation: with trees it may not.
    pub fn grows_with(&self, architecture: &str) -> bool {
        !self.residuals.contains_key(architecture)
    }

    /// The residuals for the rows of a variant: logarithms of measured over predicted.
    pub fn left_open(&self, part: &ProfiledVariant) -> Residuals {
        let residual =
            |step: &ProfiledStep| Some((step.used? / self.used_memory(&part.architecture, &part.query(step))).ln());
        part.steps.iter().filter_map(residual).collect()
    }
}
