//! Extremely randomised regression trees: fit, predict, importance, save; independent of networks.
//!
//! P. Geurts, D. Ernst, L. Wehenkel, "Extremely randomized trees", Machine Learning 63, 2006, in the form of
//! scikit-learn's `ExtraTreesRegressor` with `bootstrap=False` and `max_features=1.0`: every tree sees all rows; every
//! node draws one threshold per feature, uniform between the node's smallest and largest value, and takes the one
//! that reduces the variance of the target most; leaves may hold one row, depth is unlimited. Features are compared in
//! single precision (as scikit-learn does), targets are summed in double precision.
//!
//! ```
//! use linfa::prelude::*;
//! use ndarray::{Array1, Array2};
//! use perf4sight_cost::trees::ExtraTrees;
//! let batch = Array2::from_shape_fn((20, 1), |(row, _)| row as f64);
//! let latency = Array1::from_shape_fn(20, |row| 5.0 + 3.0 * row as f64);
//! let forest = ExtraTrees::params(7).trees(50).fit(&Dataset::new(batch.clone(), latency.clone()))?;
//! // Single-row leaves reproduce the rows they were fitted on.
//! assert_eq!(forest.predict(&batch), latency);
//! # Ok::<(), perf4sight_base::error::Error>(())
//! ```

mod forest;
mod grow;
mod packed;
mod params;

pub use forest::Forest;
pub use params::{ExtraTrees, ExtraTreesParams, PUBLISHED_TREES, Unfitted};

/// The rule of a split, the same for fitting and predicting.
#[inline(always)]
fn goes_left(value: f32, threshold: f32) -> bool {
    value <= threshold
}
