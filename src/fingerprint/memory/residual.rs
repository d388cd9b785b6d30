//! What the curve leaves over, for networks of an architecture that was profiled: trees on the simulated numbers.
//!
//! For architectures nobody profiled the residuals of others make predictions worse, so there they are not used (`ACCURACY.md`).

use super::curve::Curve;
use super::digest::{Known, Step};
use super::simulated::Simulated;
use crate::error::Result;
use crate::trees::{ExtraTrees, Forest};
use linfa::dataset::Dataset;
use linfa::traits::Fit;
use ndarray::{Array1, Array2};
use std::collections::BTreeMap;

/// Trees of each forest: more change nothing that is measured.
const TREES: usize = 50;

/// Fewer rows of an architecture say nothing beyond the curve.
const FEWEST_ROWS: usize = 10;

/// Two forests for one architecture, which err differently: the mean of both is better than either.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Residual {
    /// The logarithm of used memory, without the curve's help.
    whole: Forest,
    /// What is left of it when the curve's is taken away.
    rest: Forest,
    /// Logarithms of the least and the most that the curve gave for the rows fitted on.
    range: [f64; 2],
}

/// What is asked of the trees.
#[derive(Debug, Clone, Copy)]
pub(super) struct Query {
    pub batch: u64,
    pub parameters: u64,
    pub simulated: Simulated,
    /// MiB, by the curve.
    pub curve: f64,
}

impl Query {
    fn whole(&self) -> Vec<f64> {
        vec![self.simulated.reserved, self.simulated.allocated, self.parameters as f64, self.batch as f64]
    }

    fn rest(&self) -> Vec<f64> {
        vec![self.simulated.reserved, self.batch as f64]
    }
}

impl Residual {
    /// MiB used. Beyond what was profiled it grows as the curve does.
    pub fn at(&self, query: Query) -> f64 {
        let curve = query.curve.ln();
        let [low, high] = self.range;
        let whole = self.whole.predict_row(&query.whole()) + curve - curve.clamp(low, high);
        let rest = self.rest.predict_row(&query.rest()) + curve;
        (0.5 * (whole + rest)).exp()
    }

    fn fit(rows: &[(Query, f64)], seed: u64) -> Result<Self> {
        let curve = || rows.iter().map(|(query, _)| query.curve.ln());
        let whole = rows.iter().map(|(query, used)| (query.whole(), used.ln()));
        let rest = rows.iter().map(|(query, used)| (query.rest(), used.ln() - query.curve.ln()));
        Ok(Residual {
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
    ExtraTrees::params(seed).trees(TREES).fit(&Dataset::new(features, Array1::from(targets)))
}

impl Known {
    /// What is asked of the trees about one of its steps.
    pub(super) fn query(&self, step: &Step, curve: &Curve) -> Query {
        let &Step { batch, simulated, .. } = step;
        Query { batch, parameters: self.parameters, simulated, curve: curve.at(simulated.reserved, batch) }
    }
}

/// One for every architecture with rows enough.
pub(super) fn residuals(known: &[&Known], curve: &Curve, seed: u64) -> Result<BTreeMap<String, Residual>> {
    let mut rows: BTreeMap<&String, Vec<(Query, f64)>> = BTreeMap::new();
    for part in known {
        let queries = part.steps.iter().filter_map(|step| Some((part.query(step, curve), step.used?)));
        rows.entry(&part.architecture).or_default().extend(queries);
    }
    let enough = rows.into_iter().filter(|(_, rows)| rows.len() >= FEWEST_ROWS);
    enough.map(|(architecture, rows)| Ok((architecture.clone(), Residual::fit(&rows, seed)?))).collect()
}
