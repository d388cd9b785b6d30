//! What the physical part leaves, to extremely randomised trees, as of fingerprints. They see sizes and how far an operation is
//! bound by what, and no GPU, so that what they learn on one holds for others.

use super::physical::TimeParts;
use crate::row::OperationRow;
use linfa::traits::Fit;
use linfa::{Dataset, ParamGuard};
use ndarray::{Array1, Array2};
use perf4sight_base::error::Result;
use perf4sight_cost::trees::{ExtraTrees, Forest, Unfitted};

/// Trees of a forest.
const TREES: usize = 100;
/// Rows of the smallest node that is split: times of single operations scatter.
const SPLIT: usize = 5;
/// The most rows: more make the file of the model large.
const MOST_ROWS: usize = 4000;
/// The fewest rows: of fewer nothing is learned.
const LEAST_ROWS: usize = 20;
/// Same seed, same model.
const SEED: u64 = 41;

/// What trees see of an operation.
pub(super) fn features(row: &OperationRow, parts: &TimeParts) -> Vec<f64> {
    let sizes: Vec<f64> = row.sizes().into_iter().filter(|size| *size > 1.0).collect();
    let extreme = |pick: fn(f64, f64) -> f64| sizes.iter().copied().reduce(pick).unwrap_or(1.0).ln();
    vec![
        row.class.index() as f64,
        f64::from(u8::from(row.element.is_half())),
        row.work.flops.max(1.0).ln(),
        row.work.bytes.max(1.0).ln(),
        (parts.compute / parts.launch).max(1e-6).ln(),
        (parts.memory / parts.launch).max(1e-6).ln(),
        extreme(f64::min),
        extreme(f64::max),
        sizes.len() as f64,
    ]
}

/// Grows trees on the logarithms by which rows take longer than the physical part says; none of few rows.
pub(super) fn fit(rows: &[(Vec<f64>, f64)]) -> Result<Option<Forest>> {
    if rows.len() < LEAST_ROWS {
        return Ok(None);
    }
    let chosen: Vec<&(Vec<f64>, f64)> = rows.iter().step_by(rows.len().div_ceil(MOST_ROWS)).collect();
    let width = chosen[0].0.len();
    let records = Array2::from_shape_fn((chosen.len(), width), |(row, place)| chosen[row].0[place]);
    let targets: Array1<f64> = chosen.iter().map(|(_, log)| *log).collect();
    let params = ExtraTrees::params(SEED).trees(TREES).split_from(SPLIT).check()?;
    let forest: std::result::Result<Forest, Unfitted> = params.fit(&Dataset::new(records, targets));
    Ok(Some(forest?))
}
