//! Models of the allocators that serve a step, byte for byte and without the bytes.

mod bins;
mod caching;
mod rounded;

pub(super) use caching::Caching;
pub(super) use rounded::Rounded;

use super::step::PlacedSegment;

/// A block handed out, until it is freed.
pub(super) type Block = u32;

/// Something that hands out and takes back memory.
pub(super) trait Allocate {
    fn allocate(&mut self, bytes: u64) -> Block;

    /// Takes back a block that was handed out for so many bytes.
    fn free(&mut self, block: Block, bytes: u64);

    /// Takes a whole segment at once by its summary; false where that is not known to end as its requests one by one.
    fn apply_summary(&mut self, _: &PlacedSegment, _batch: u64) -> bool {
        false
    }

    /// Gives what is cached back to the system.
    fn empty_cache(&mut self) {}

    /// What it counted so far.
    fn counters(&mut self) -> &mut Counters;
}

/// Bytes in use and bytes taken from the system, now and at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counters {
    pub allocated: u64,
    pub reserved: u64,
    pub peak_allocated: u64,
    pub peak_reserved: u64,
}

impl Counters {
    /// Starts the peaks anew from what is in use.
    pub fn reset_peaks(&mut self) {
        self.peak_allocated = self.allocated;
        self.peak_reserved = self.reserved;
    }

    fn allocate(&mut self, bytes: u64) {
        self.allocated += bytes;
        self.peak_allocated = self.peak_allocated.max(self.allocated);
    }

    fn reserve(&mut self, bytes: u64) {
        self.reserved += bytes;
        self.peak_reserved = self.peak_reserved.max(self.reserved);
    }
}
