//! Threads as they may be without the profiler, whose own work is in every call that it records.

use crate::graph::StepGraph;
use crate::graph::recorded::{RecordedSteps, with_threads};

/// The least share of its recorded time that a thread takes without the profiler: steps of eight jobs on an H100 that waited for threads took
/// 0.62 to 0.82 of those that PyTorch's profiler recorded with shapes (`docs/accuracy/h100.md`).
const LEAST: f64 = 0.6;

/// The typical step with threads that take the least; none where the profiler's work is no part of it.
pub(super) fn without_profiler(recorded: &RecordedSteps) -> Option<StepGraph> {
    recorded.is_slowed.then(|| with_threads(&recorded.typical, LEAST))
}
