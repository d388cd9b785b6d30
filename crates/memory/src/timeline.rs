//! The memory of a step from one operation to the next, and the tensors that are alive at its peak.

use crate::Simulation;
use crate::each_operation::{each_operation, sum};
use crate::peak::TensorsAtPeak;
use crate::step::{AllocationSchedule, StepPeriod};
use crate::tensor::{OperationMark, StepPhase, TensorRole};
use perf4sight_base::units::Bytes;

/// The memory of one step over its operations: of the step that holds the peak of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryTimeline {
    /// Whether it is the very first step, which makes the optimizer's state, or any later one.
    pub is_first: bool,
    /// In the order of time; there is at least one.
    pub entries: Vec<TimelineEntry>,
    /// The index of the entry that holds the peak.
    pub peak: usize,
    /// The tensors alive at the peak.
    pub alive: TensorsAtPeak,
}

/// Memory while one operation runs, is differentiated, or has its weights changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineEntry {
    /// The phase of the step.
    pub phase: StepPhase,
    /// The name of the operation's node.
    pub layer: String,
    /// Bytes of tensors by [`TensorRole::ALL`], at the moment of the entry when they are most.
    pub bytes: [u64; TensorRole::ALL.len()],
}

impl TimelineEntry {
    /// All tensors together.
    pub fn total(&self) -> Bytes {
        Bytes(sum(&self.bytes))
    }
}

impl Simulation<'_> {
    /// The memory of the step that holds the peak, operation by operation.
    pub fn timeline(&self, batch: u64) -> MemoryTimeline {
        let (schedule, samples) = self.schedule(batch);
        let outcome = self.outcome((&schedule, samples));
        // The setup holds the peak where a step allocates nothing; the first step is shown then.
        let period = outcome.moment.period.max(StepPeriod::First);
        let entries = self.entries(&schedule, samples, period);
        let highest = entries.iter().map(TimelineEntry::total).max();
        let peak = entries.iter().position(|entry| Some(entry.total()) == highest).unwrap_or_default();
        MemoryTimeline { is_first: period == StepPeriod::First, entries, peak, alive: self.alive(batch) }
    }

    fn entries(&self, schedule: &AllocationSchedule, batch: u64, period: StepPeriod) -> Vec<TimelineEntry> {
        let entry = |(mark, bytes): (OperationMark, _)| {
            let layer = self.memo.network.node(mark.node).name.clone();
            TimelineEntry { phase: mark.phase, layer, bytes }
        };
        each_operation(schedule, batch, period).into_iter().map(entry).collect()
    }
}
