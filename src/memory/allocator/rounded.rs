//! What a caching allocator takes at least: every request rounded up, and nothing between them.

use super::{Allocate, Block, Counters};

/// Requests in multiples of so many bytes.
#[derive(Debug)]
pub(in crate::memory) struct Rounded {
    round: u64,
    counters: Counters,
}

impl Rounded {
    /// As an allocator that rounds so.
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

    fn counters(&mut self) -> &mut Counters {
        &mut self.counters
    }
}
