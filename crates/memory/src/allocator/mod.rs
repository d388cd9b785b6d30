//! Models of the allocators that serve a step, byte for byte and without the bytes.

mod bins;
mod caching;
mod rounded;

pub(super) use caching::CachingAllocator;
pub(super) use rounded::RoundingAllocator;

use super::step::PlacedSegment;

/// A block handed out, until it is freed.
pub(super) type BlockId = u32;

/// A model of an allocator.
pub(super) trait Allocate {
    fn allocate(&mut self, bytes: u64) -> BlockId;

    /// Frees a block that was allocated with that many bytes.
    fn free(&mut self, block: BlockId, bytes: u64);

    /// Applies a whole segment at once by its summary; false where that is not known to give the same result as its
    /// single requests.
    fn apply_summary(&mut self, _: &PlacedSegment, _batch: u64) -> bool {
        false
    }

    /// Returns cached memory to the system.
    fn empty_cache(&mut self) {}

    /// The counters so far.
    fn counters(&mut self) -> &mut AllocatorCounters;
}

/// Bytes in use and bytes taken from the system, now and at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct AllocatorCounters {
    pub allocated: u64,
    pub reserved: u64,
    pub peak_allocated: u64,
    pub peak_reserved: u64,
}

impl AllocatorCounters {
    /// Resets the peaks to the memory in use.
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
