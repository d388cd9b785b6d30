//! A fitted model with one network, ready for predictions of any step and batch size.

use super::verdict::{FitVerdict, MaxBatch, MemoryLimit};
use super::{IntervalBand, LatencyShares, TimedOperation};
use crate::fingerprint::distribution::Extrapolation;
use crate::fingerprint::rows::MeasuredRow;
use perf4sight_memory::{MemoryTimeline, TensorsAtPeak};
use perf4sight_step::workload::Step;

/// A fitted model with one network: returns the predictor of a step, given how the network differs from the profiled
/// ones.
pub(in crate::fingerprint) type StepPredictors<'a> =
    Box<dyn Fn(Step, &Extrapolation) -> Box<dyn Predictor + 'a> + Send + Sync + 'a>;

/// A lower bound of the need of a step.
pub(in crate::fingerprint) struct LowerBound {
    /// MiB of the counted memory, as [`Predictor::counted_need`].
    pub need: f64,
    /// The verdict for a step that needs no more.
    pub verdict: Option<FitVerdict>,
}

/// The predictions of a fitted model for one step of a network. Batch sizes are at least 1; the defaults mean
/// unknown.
pub(in crate::fingerprint) trait Predictor {
    /// Milliseconds or MiB of a step of `batch` samples.
    fn predict(&self, batch: u64) -> f64;

    /// The range of measurements around [`Predictor::predict`].
    fn band(&self, _batch: u64) -> Option<IntervalBand> {
        None
    }

    fn limit(&self) -> Option<MemoryLimit> {
        None
    }

    /// MiB of the memory that [`Predictor::limit`] counts; all memory without a limit.
    fn counted_need(&self, _batch: u64) -> Option<f64> {
        None
    }

    /// A lower bound of the need of a step, where it is faster to find than the need itself.
    fn at_least(&self, _batch: u64) -> Option<LowerBound> {
        None
    }

    /// MiB that the allocator takes for tensors alone.
    fn tensors(&self, _batch: u64) -> Option<f64> {
        None
    }

    /// The least and the most that these may be, where the network's file can be read in several ways.
    fn tensors_between(&self, _batch: u64) -> Option<[f64; 2]> {
        None
    }

    fn verdict(&self, _batch: u64) -> Option<FitVerdict> {
        None
    }

    /// The largest batch sizes that fit.
    fn max_batch(&self) -> Option<MaxBatch> {
        None
    }

    /// The tensors that are alive when a step needs the most memory.
    fn alive(&self, _batch: u64) -> Option<TensorsAtPeak> {
        None
    }

    fn timeline(&self, _batch: u64) -> Option<MemoryTimeline> {
        None
    }

    fn shares(&self, _batch: u64) -> Option<LatencyShares> {
        None
    }

    fn operations(&self, _row: &MeasuredRow) -> Vec<TimedOperation> {
        Vec::new()
    }
}
