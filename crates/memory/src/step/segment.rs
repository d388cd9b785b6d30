//! A run of allocations and frees: recorded once, and placed wherever the same happens again.

use crate::tensor::{Event, Mark, Phase, Tensor, TensorId};
use perf4sight_base::cache::Cache;
use std::sync::Arc;

/// New tensors, the events of these and of others, and the operation that runs at each event.
#[derive(Debug, Default)]
pub(crate) struct CachedSegment {
    /// How many tensors there were before; its own are counted on from there.
    pub before: usize,
    pub tensors: Vec<Tensor>,
    pub events: Vec<Event>,
    pub marks: Vec<Mark>,
    /// By whether gradients exist before, the rounding of requests, and the batch.
    summaries: Cache<(bool, u64, u64), Option<Summary>>,
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
pub(crate) struct Summary {
    /// At most.
    pub peak: u64,
    /// In the end.
    pub left: u64,
}

impl CachedSegment {
    /// An empty segment after that many tensors.
    pub fn behind(before: usize) -> Self {
        CachedSegment { before, ..CachedSegment::default() }
    }

    /// Events of that many earlier tensors, without tensors of its own.
    pub fn of_events(before: usize, events: Vec<Event>) -> Self {
        CachedSegment { events, ..CachedSegment::behind(before) }
    }
}

impl PlacedSegment {
    /// Whether it is a forward, with its backward in training.
    pub fn is_pass(&self) -> bool {
        self.segment.marks.first().is_some_and(|mark| mark.phase == Phase::Forward)
    }

    /// A tensor of the segment, as it is counted in the steps.
    pub fn tensor(&self, id: TensorId) -> TensorId {
        match (id as usize).checked_sub(self.segment.before) {
            Some(own) => (self.begin + own) as TensorId,
            None => id,
        }
    }

    /// A tensor created here, by its index in the steps.
    pub fn own(&self, id: TensorId) -> Option<&Tensor> {
        self.segment.tensors.get((id as usize).checked_sub(self.begin)?)
    }

    pub fn events(&self) -> impl Iterator<Item = Event> {
        self.segment.events.iter().map(|event| match *event {
            Event::Allocate(id) => Event::Allocate(self.tensor(id)),
            Event::Free(id) => Event::Free(self.tensor(id)),
            Event::Settle(id) if self.has_gradients => Event::Free(self.tensor(id)),
            Event::Settle(id) => Event::Settle(self.tensor(id)),
            Event::BackwardDone => Event::BackwardDone,
        })
    }

    /// Its effect where requests are rounded up to a multiple of `round`; none where it frees earlier tensors, or the
    /// profiler reads its counters within it.
    pub fn summary(&self, round: u64, batch: u64) -> Option<Summary> {
        *self.segment.summaries.of((self.has_gradients, round, batch), || self.summarise(round, batch))
    }

    fn summarise(&self, round: u64, batch: u64) -> Option<Summary> {
        let CachedSegment { before, tensors, events, .. } = &*self.segment;
        let bytes = |id: TensorId| {
            let own = (id as usize).checked_sub(*before)?;
            Some(tensors[own].amount.bytes(batch).next_multiple_of(round))
        };
        events.iter().try_fold(Summary::default(), |Summary { peak, left }, event| match *event {
            Event::Allocate(id) => bytes(id).map(|taken| Summary { peak: peak.max(left + taken), left: left + taken }),
            Event::Settle(_) if !self.has_gradients => Some(Summary { peak, left }),
            Event::Settle(id) | Event::Free(id) => bytes(id).map(|taken| Summary { peak, left: left - taken }),
            Event::BackwardDone => None,
        })
    }
}
