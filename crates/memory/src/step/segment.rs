//! A run of allocations and frees: recorded once, and placed wherever the same happens again.

use crate::tensor::{OperationMark, ScheduleEvent, ScheduledTensor, StepPhase, TensorId};
use perf4sight_base::cache::Cache;
use std::sync::Arc;

/// New tensors, the events of these and of others, and the operation that runs at each event.
#[derive(Debug, Default)]
pub(crate) struct CachedSegment {
    /// How many tensors there were before; its own are counted on from there.
    pub before: usize,
    pub tensors: Vec<ScheduledTensor>,
    pub events: Vec<ScheduleEvent>,
    pub marks: Vec<OperationMark>,
    /// By whether gradients exist before, the rounding of requests, and the batch.
    summaries: Cache<(bool, u64, u64), Option<SegmentSummary>>,
}

/// A segment within steps, where more tensors may precede its own than at its recording.
#[derive(Debug, Clone)]
pub(crate) struct PlacedSegment {
    pub segment: Arc<CachedSegment>,
    /// How many tensors there are before.
    pub begin: usize,
    /// Whether there are gradients of weights before.
    pub has_gradients: bool,
}

/// Bytes that a segment adds to the allocated bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SegmentSummary {
    /// At most.
    pub peak: u64,
    /// In the end.
    pub left: u64,
}

impl CachedSegment {
    /// An empty segment after that many tensors.
    pub fn empty_after(before: usize) -> Self {
        CachedSegment { before, ..CachedSegment::default() }
    }

    /// Events of that many earlier tensors, without tensors of its own.
    pub fn of_events(before: usize, events: Vec<ScheduleEvent>) -> Self {
        CachedSegment { events, ..CachedSegment::empty_after(before) }
    }
}

impl PlacedSegment {
    /// Whether it is a forward, with its backward in training.
    pub fn is_pass(&self) -> bool {
        self.segment.marks.first().is_some_and(|mark| mark.phase == StepPhase::Forward)
    }

    /// A tensor of the segment, as it is counted in the steps.
    pub fn tensor(&self, id: TensorId) -> TensorId {
        match (id as usize).checked_sub(self.segment.before) {
            Some(own) => (self.begin + own) as TensorId,
            None => id,
        }
    }

    /// A tensor created here, by its index in the steps.
    pub fn own_tensor(&self, id: TensorId) -> Option<&ScheduledTensor> {
        self.segment.tensors.get((id as usize).checked_sub(self.begin)?)
    }

    pub fn events(&self) -> impl Iterator<Item = ScheduleEvent> {
        self.segment.events.iter().map(|event| match *event {
            ScheduleEvent::Allocate(id) => ScheduleEvent::Allocate(self.tensor(id)),
            ScheduleEvent::Free(id) => ScheduleEvent::Free(self.tensor(id)),
            ScheduleEvent::Settle(id) if self.has_gradients => ScheduleEvent::Free(self.tensor(id)),
            ScheduleEvent::Settle(id) => ScheduleEvent::Settle(self.tensor(id)),
            ScheduleEvent::BackwardDone => ScheduleEvent::BackwardDone,
        })
    }

    /// Its effect where requests are rounded up to a multiple of `round`; none where it frees earlier tensors, or the
    /// profiler reads its counters within it.
    pub fn summary(&self, round: u64, batch: u64) -> Option<SegmentSummary> {
        *self.segment.summaries.get_or_compute((self.has_gradients, round, batch), || self.summarise(round, batch))
    }

    fn summarise(&self, round: u64, batch: u64) -> Option<SegmentSummary> {
        let CachedSegment { before, tensors, events, .. } = &*self.segment;
        let bytes = |id: TensorId| {
            let own = (id as usize).checked_sub(*before)?;
            Some(tensors[own].amount.bytes(batch).next_multiple_of(round))
        };
        events.iter().try_fold(SegmentSummary::default(), |SegmentSummary { peak, left }, event| match *event {
            ScheduleEvent::Allocate(id) => {
                bytes(id).map(|taken| SegmentSummary { peak: peak.max(left + taken), left: left + taken })
            }
            ScheduleEvent::Settle(_) if !self.has_gradients => Some(SegmentSummary { peak, left }),
            ScheduleEvent::Settle(id) | ScheduleEvent::Free(id) => {
                bytes(id).map(|taken| SegmentSummary { peak, left: left - taken })
            }
            ScheduleEvent::BackwardDone => None,
        })
    }
}
