//! The residual of the curve, for networks of a profiled architecture: trees on the simulated numbers where many
//! levels were measured, else offsets from a few rows.
//!
//! For unprofiled architectures the residuals of others make predictions worse, so they are not used there
//! (`docs/accuracy/memory.md`).

use super::curve::UsageCurve;
use super::digest::ProfiledVariant;
use super::query::MemoryQuery;
use crate::trees::{ExtraTrees, Forest};
use linfa::dataset::Dataset;
use linfa::traits::Fit;
use ndarray::{Array1, Array2};
use perf4sight_base::error::Result;
use perf4sight_platform::Allocator;
use std::collections::{BTreeMap, BTreeSet};

/// Trees of each forest: more change no measured error.
const TREES: usize = 50;

/// With fewer levels, trees return the values of the nearest level, however small the network is.
const FEWEST_LEVELS: usize = 4;

/// Architectures with fewer rows get no trees.
const FEWEST_ROWS: usize = 10;

/// The correction of the curve for one architecture.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ArchitectureResidual {
    Trees(Box<ResidualTrees>),
    Offset(ResidualOffset),
}

/// Two forests for one architecture with different errors: their mean is better than either.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ResidualTrees {
    /// The logarithm of used memory, without the curve.
    whole: Forest,
    /// The logarithm of used memory relative to the curve.
    rest: Forest,
    /// Logarithms of the smallest and the largest value of the curve over the rows fitted on.
    range: [f64; 2],
}

impl ArchitectureResidual {
    /// MiB used.
    pub fn used_memory(&self, query: &MemoryQuery, curve: f64) -> f64 {
        match self {
            ArchitectureResidual::Trees(trees) => trees.used_memory(query, curve),
            ArchitectureResidual::Offset(offset) => offset.used_memory(query, curve),
        }
    }
}

impl ResidualTrees {
    /// MiB used. Beyond the profiled range it grows as the curve does.
    fn used_memory(&self, query: &MemoryQuery, curve: f64) -> f64 {
        let curve = curve.ln();
        let [low, high] = self.range;
        let whole = self.whole.predict_row(&query.all_features()) + curve - curve.clamp(low, high);
        let rest = self.rest.predict_row(&query.short_features()) + curve;
        (0.5 * (whole + rest)).exp()
    }

    fn fit(rows: &[(MemoryQuery, f64)], curve: &UsageCurve, seed: u64) -> Result<Self> {
        let curve = || rows.iter().map(|(query, _)| query.curve(curve).ln());
        let whole = rows.iter().map(|(query, used)| (query.all_features(), used.ln()));
        let rest = rows.iter().zip(curve()).map(|((query, used), curve)| (query.short_features(), used.ln() - curve));
        Ok(ResidualTrees {
            whole: forest(whole, seed)?,
            rest: forest(rest, seed)?,
            range: [curve().fold(f64::INFINITY, f64::min), curve().fold(f64::NEG_INFINITY, f64::max)],
        })
    }
}

fn forest(rows: impl Iterator<Item = (Vec<f64>, f64)>, seed: u64) -> Result<Forest> {
    let (features, targets): (Vec<Vec<f64>>, Vec<f64>) = rows.unzip();
    let shape = (features.len(), features.first().map_or(0, Vec::len));
    let features = Array2::from_shape_vec(shape, features.concat()).expect("all rows are as long as the first");
    Ok(ExtraTrees::params(seed).trees(TREES).fit(&Dataset::new(features, Array1::from(targets)))?)
}

#[derive(Default)]
struct ArchitectureRows {
    levels: BTreeSet<u8>,
    rows: Vec<(MemoryQuery, f64)>,
}

impl ArchitectureRows {
    /// A processor's allocator takes exactly the requested size, so only offsets can be learned.
    fn residual(&self, curve: &UsageCurve, allocator: Allocator, seed: u64) -> Result<ArchitectureResidual> {
        let many = self.rows.len() >= FEWEST_ROWS && self.levels.len() >= FEWEST_LEVELS;
        match many && allocator != Allocator::Direct {
            true => Ok(ArchitectureResidual::Trees(Box::new(ResidualTrees::fit(&self.rows, curve, seed)?))),
            false => Ok(ArchitectureResidual::Offset(ResidualOffset::fit(&self.rows, curve))),
        }
    }
}

pub(super) fn residuals(
    known: &[&ProfiledVariant],
    curve: &UsageCurve,
    allocator: Allocator,
    seed: u64,
) -> Result<BTreeMap<String, ArchitectureResidual>> {
    let mut architectures: BTreeMap<&String, ArchitectureRows> = BTreeMap::new();
    for part in known {
        let fitted = part.steps.iter().filter_map(|step| Some((part.query(step), step.used?)));
        let rows = architectures.entry(&part.architecture).or_default();
        rows.rows.extend(fitted);
        rows.levels.insert(part.level);
    }
    let fitted = architectures.into_iter().filter(|(_, rows)| !rows.rows.is_empty());
    let residual =
        |(name, rows): (&String, ArchitectureRows)| Ok((name.clone(), rows.residual(curve, allocator, seed)?));
    fitted.map(residual).collect()
}

/// Distance in doublings of the batch size over which rows inform each other.
const DOUBLINGS: f64 = 0.7;

/// The same distance as a difference of the ragged shares.
const RAGGED: f64 = 0.3;

/// Weight of zero, in rows of exactly this batch size: with no rows near, the correction goes to zero.
const CHANCE: f64 = 0.1;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ResidualOffset {
    rows: Vec<RowResidual>,
    /// Doublings of the least and the largest batch size among them.
    range: [f64; 2],
}

/// The MiB that one row used beyond the curve, with its coordinates.
#[derive(Debug, Clone, Copy, PartialEq)]
struct RowResidual {
    doublings: f64,
    ragged: f64,
    rest: f64,
}

impl ResidualOffset {
    pub fn fit(rows: &[(MemoryQuery, f64)], curve: &UsageCurve) -> Self {
        let left = |(query, used): &(MemoryQuery, f64)| RowResidual {
            doublings: doublings(query),
            ragged: query.kernels.ragged,
            rest: used - query.curve(curve),
        };
        let rows: Vec<RowResidual> = rows.iter().map(left).collect();
        let each = || rows.iter().map(|row| row.doublings);
        ResidualOffset { range: [each().fold(f64::INFINITY, f64::min), each().fold(f64::NEG_INFINITY, f64::max)], rows }
    }

    /// MiB used. Beyond the measured batch sizes the correction stays that of the last of them.
    pub fn used_memory(&self, query: &MemoryQuery, curve: f64) -> f64 {
        let [low, high] = self.range;
        let asked = doublings(query).clamp(low, high);
        let weight = |row: &RowResidual| {
            let away = [(row.doublings - asked) / DOUBLINGS, (row.ragged - query.kernels.ragged) / RAGGED];
            (-0.5 * away.iter().map(|part| part * part).sum::<f64>()).exp()
        };
        let [sum, rest] = self.rows.iter().fold([0.0; 2], |[sum, rest], row| {
            let weight = weight(row);
            [sum + weight, rest + weight * row.rest]
        });
        curve + rest / (sum + CHANCE)
    }
}

fn doublings(query: &MemoryQuery) -> f64 {
    (query.batch.max(1) as f64).log2()
}
