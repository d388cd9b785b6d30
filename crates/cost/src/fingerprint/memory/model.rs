//! The model fitted to rows: the curve, and its residuals for architectures that were profiled.

use super::curve::Curve;
use super::digest::{Digested, Known, curve};
use super::query::Query;
use super::residual::{Residual, residuals};
use crate::fingerprint::cross_validation::Residuals;
use perf4sight_base::error::Result;
use perf4sight_platform::Allocator;
use std::collections::BTreeMap;

/// Converts the simulation of a step to the memory used.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Model {
    pub curve: Curve,
    /// By architecture; grown from the rows, not stored.
    residuals: BTreeMap<String, Residual>,
}

impl Model {
    /// None where no step fitted.
    pub fn fit(known: &[&Known], allocator: Allocator, seed: u64) -> Result<Option<Self>> {
        curve(known, allocator).map(|curve| Model::grown(curve, known, allocator, seed)).transpose()
    }

    /// Fits residuals to a given curve.
    pub fn grown(curve: Curve, known: &[&Known], allocator: Allocator, seed: u64) -> Result<Self> {
        Ok(Model { residuals: residuals(known, &curve, allocator, seed)?, curve })
    }

    pub fn unfitted(curve: Curve) -> Self {
        Model { curve, residuals: BTreeMap::new() }
    }

    /// MiB used; at least the simulated memory of live tensors.
    pub fn used(&self, architecture: &str, query: &Query) -> f64 {
        self.used_by(&self.curve, architecture, query)
    }

    /// The same around another curve.
    pub fn used_by(&self, curve: &Curve, architecture: &str, query: &Query) -> f64 {
        let curve = query.curve(curve);
        let used = self.residuals.get(architecture).map_or(curve, |residual| residual.at(query, curve));
        used.max(query.simulated.allocated)
    }

    /// Whether the prediction always grows with the simulation: with trees it may not.
    pub fn grows_with(&self, architecture: &str) -> bool {
        !self.residuals.contains_key(architecture)
    }

    /// The residuals for the rows of a variant: logarithms of measured over predicted.
    pub fn left_open(&self, part: &Known) -> Residuals {
        let residual = |step: &Digested| Some((step.used? / self.used(&part.architecture, &part.query(step))).ln());
        part.steps.iter().filter_map(residual).collect()
    }
}
