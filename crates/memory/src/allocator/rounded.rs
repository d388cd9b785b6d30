//! Every request rounded up, without gaps: a lower bound for a caching allocator, and exact for one that caches
//! nothing.

use super::{Allocate, AllocatorCounters, BlockId};
use crate::step::{PlacedSegment, SegmentSummary};

/// Requests in multiples of so many bytes.
#[derive(Debug)]
pub(crate) struct RoundingAllocator {
    round: u64,
    counters: AllocatorCounters,
}

impl RoundingAllocator {
    pub fn new(round: u64) -> Self {
        RoundingAllocator { round, counters: AllocatorCounters::default() }
    }
}

impl Allocate for RoundingAllocator {
    fn allocate(&mut self, bytes: u64) -> BlockId {
        let taken = bytes.next_multiple_of(self.round);
        self.counters.allocate(taken);
        self.counters.reserve(taken);
        0
    }

    fn free(&mut self, _: BlockId, bytes: u64) {
        let taken = bytes.next_multiple_of(self.round);
        self.counters.allocated -= taken;
        self.counters.reserved -= taken;
    }

    fn apply_summary(&mut self, segment: &PlacedSegment, batch: u64) -> bool {
        let Some(SegmentSummary { peak, left }) = segment.summary(self.round, batch) else { return false };
        let AllocatorCounters { allocated, reserved, .. } = self.counters;
        self.counters.allocate(peak);
        self.counters.reserve(peak);
        (self.counters.allocated, self.counters.reserved) = (allocated + left, reserved + left);
        true
    }

    fn counters(&mut self) -> &mut AllocatorCounters {
        &mut self.counters
    }
}
