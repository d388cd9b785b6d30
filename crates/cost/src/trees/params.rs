//! The parameters of a forest: raw parameters, checked parameters, and linfa's `Fit` on the checked ones.

use super::forest::Forest;
use super::grow::TrainingSet;
use linfa::ParamGuard;
use linfa::dataset::{AsSingleTargets, DatasetBase};
use linfa::traits::Fit;
use ndarray::{ArrayBase, Data, Ix2};
use perf4sight_base::error::Error;

/// As published.
pub const PUBLISHED_TREES: usize = 300;

/// Checked parameters of a forest; made by [`ExtraTrees::params`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraTrees {
    pub(super) trees: usize,
    pub(super) split: usize,
    pub(super) seed: u64,
}

/// Requested parameters of a forest, not yet checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraTreesParams(ExtraTrees);

impl ExtraTrees {
    /// 300 trees (the published number); the same seed gives the same forest for any number of threads.
    pub fn params(seed: u64) -> ExtraTreesParams {
        ExtraTreesParams(ExtraTrees { trees: PUBLISHED_TREES, split: 2, seed })
    }
}

impl ExtraTreesParams {
    /// Fits this many trees instead.
    #[must_use]
    pub fn trees(mut self, trees: usize) -> Self {
        self.0.trees = trees;
        self
    }

    /// Leaves nodes of fewer rows than this unsplit; 2, the published number, splits until every leaf holds one row.
    #[must_use]
    pub fn split_from(mut self, rows: usize) -> Self {
        self.0.split = rows;
        self
    }
}

impl ParamGuard for ExtraTreesParams {
    type Checked = ExtraTrees;
    type Error = Unfitted;

    fn check_ref(&self) -> Result<&ExtraTrees, Unfitted> {
        match self.0.trees {
            1.. => Ok(&self.0),
            0 => Err(Error::input("a forest of 0 trees").expected("at least one tree").into()),
        }
    }

    fn check(self) -> Result<ExtraTrees, Unfitted> {
        self.check_ref()?;
        Ok(self.0)
    }
}

impl<D: Data<Elem = f64>, T: AsSingleTargets<Elem = f64>> Fit<ArrayBase<D, Ix2>, T, Unfitted> for ExtraTrees {
    type Object = Forest;

    fn fit(&self, dataset: &DatasetBase<ArrayBase<D, Ix2>, T>) -> Result<Forest, Unfitted> {
        let rows = TrainingSet::new(dataset.records().view(), dataset.targets().as_single_targets().to_vec())?;
        Ok(Forest::grow(&rows, self))
    }
}

/// Why no forest was fitted: an [`Error`] in a separate type, as linfa's traits require.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct Unfitted(#[from] Error);

impl From<linfa::Error> for Unfitted {
    fn from(cause: linfa::Error) -> Self {
        Unfitted(Error::input(cause.to_string()))
    }
}

impl From<Unfitted> for Error {
    fn from(Unfitted(error): Unfitted) -> Self {
        error
    }
}
