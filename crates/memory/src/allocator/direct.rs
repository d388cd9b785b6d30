//! Every request goes to the system and back at once: what is reserved is what is allocated.

use super::{Allocate, Block, Counters};

/// The CPU's allocator.
#[derive(Debug, Default)]
pub(crate) struct Direct {
    counters: Counters,
}

impl Allocate for Direct {
    fn allocate(&mut self, bytes: u64) -> Block {
        self.counters.allocate(bytes);
        self.counters.reserve(bytes);
        0
    }

    fn free(&mut self, _: Block, bytes: u64) {
        self.counters.allocated -= bytes;
        self.counters.reserved -= bytes;
    }

    fn counters(&mut self) -> &mut Counters {
        &mut self.counters
    }
}
