//! Every request rounded up, without gaps: a lower bound for a caching allocator, and exact for one that caches
//! nothing.

use super::{Allocate, Block, Counters};
use crate::step::{PlacedSegment, Summary};

/// Requests in multiples of so many bytes.
#[derive(Debug)]
pub(crate) struct Rounded {
    round: u64,
    counters: Counters,
}

impl Rounded {
    pub fn new(round: u64) -> Self {
        Rounded { round, counters: Counters::default() }
    }
}

impl Allocate for Rounded {
    fn allocate(&mut self, bytes: u64) -> Block {
        let taken = bytes.next_multiple_of(self.round);
        self.counters.allocate(taken);
        self.counters.reserve(taken);
        0
    }

    fn free(&mut self, _: Block, bytes: u64) {
        let taken = bytes.next_multiple_of(self.round);
        self.counters.allocated -= taken;
        self.counters.reserved -= taken;
    }

    fn apply_summary(&mut self, segment: &PlacedSegment, batch: u64) -> bool {
        let Some(Summary { peak, left }) = segment.summary(self.round, batch) else { return false };
        let Counters { allocated, reserved, .. } = self.counters;
        self.counters.allocate(peak);
        self.counters.reserve(peak);
        (self.counters.allocated, self.counters.reserved) = (allocated + left, reserved + left);
        true
    }

    fn counters(&mut self) -> &mut Counters {
        &mut self.counters
    }
}
