//! A fitted model before one network: asked about any step and batch size, it says what it knows.

use super::verdict::{MaxBatch, MemoryLimit, Verdict};
use super::{Band, Shares, TimedOperation};
use crate::fingerprint::distribution::Extrapolation;
use crate::fingerprint::rows::Row;
use perf4sight_memory::{Alive, Timeline};
use perf4sight_step::workload::Step;

/// A fitted model before one network: what it says of any of its steps, of which nobody has profiled so much.
pub(in crate::fingerprint) type Steps<'a> =
    Box<dyn Fn(Step, &Extrapolation) -> Box<dyn Predictor + 'a> + Send + Sync + 'a>;

/// What a step needs at least.
pub(in crate::fingerprint) struct Least {
    /// MiB of what counts, as [`Predictor::need`].
    pub need: f64,
    /// Whether a step fits that needs no more.
    pub verdict: Option<Verdict>,
}

/// What a fitted model says of one step of a network. Batch sizes are at least 1; of what a model knows nothing it says nothing.
pub(in crate::fingerprint) trait Predictor {
    /// Milliseconds or MiB of a step of `batch` samples.
    fn at(&self, batch: u64) -> f64;

    /// How far measurements may lie from [`Predictor::at`].
    fn band(&self, _batch: u64) -> Option<Band> {
        None
    }

    /// What a step must fit into.
    fn limit(&self) -> Option<MemoryLimit> {
        None
    }

    /// MiB of what counts against [`Predictor::limit`], and of all memory where it counts nothing.
    fn need(&self, _batch: u64) -> Option<f64> {
        None
    }

    /// What a step needs at least, where that is found faster than what it needs.
    fn at_least(&self, _batch: u64) -> Option<Least> {
        None
    }

    /// MiB that the allocator takes for tensors alone.
    fn tensors(&self, _batch: u64) -> Option<f64> {
        None
    }

    /// Whether a step fits.
    fn verdict(&self, _batch: u64) -> Option<Verdict> {
        None
    }

    /// The largest batch sizes that fit.
    fn max_batch(&self) -> Option<MaxBatch> {
        None
    }

    /// What is alive when a step needs the most memory.
    fn alive(&self, _batch: u64) -> Option<Alive> {
        None
    }

    /// What lies in memory while a step runs.
    fn timeline(&self, _batch: u64) -> Option<Timeline> {
        None
    }

    /// Where the time of a step goes.
    fn shares(&self, _batch: u64) -> Option<Shares> {
        None
    }

    /// The operations of a row that were timed one by one, measured and predicted.
    fn operations(&self, _row: &Row) -> Vec<TimedOperation> {
        Vec::new()
    }
}
