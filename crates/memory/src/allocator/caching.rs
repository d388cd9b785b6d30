//! PyTorch's caching allocator for accelerators: segments cut into blocks, best fit, neighbours merge
//! (c10/cuda/CUDACachingAllocator.cpp, default settings).

use super::bins::FreePieces;
use super::{Allocate, AllocatorCounters, BlockId};
use perf4sight_platform::CachingSizes;

/// No block: the end of a segment, or a request for nothing.
const NONE: BlockId = BlockId::MAX;

/// The two pools: a block never leaves the one its segment was taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pool {
    Small,
    Large,
}

/// A stretch of a segment, in use or free.
#[derive(Debug, Clone, Copy)]
struct SegmentPiece {
    start: u64,
    size: u64,
    before: BlockId,
    after: BlockId,
    pool: Pool,
    free: bool,
}

/// The model: pieces by number, and per pool the free ones.
#[derive(Debug)]
pub(crate) struct CachingAllocator {
    sizes: CachingSizes,
    pieces: Vec<SegmentPiece>,
    /// Numbers of pieces that are no more.
    unused: Vec<BlockId>,
    free: [FreePieces; 2],
    /// The start of the next segment. Addresses only break ties between equal sizes; they grow as those of cudaMalloc
    /// do.
    next_segment: u64,
    counters: AllocatorCounters,
}

impl CachingAllocator {
    /// The allocator with the sizes of a device.
    pub fn new(sizes: CachingSizes) -> Self {
        CachingAllocator {
            sizes,
            pieces: Vec::with_capacity(1024),
            unused: Vec::new(),
            free: [FreePieces::new(), FreePieces::new()],
            next_segment: 0,
            counters: AllocatorCounters::default(),
        }
    }

    /// The smallest free piece that is large enough, the lowest of equal ones.
    fn best_fit(&mut self, size: u64, pool: Pool) -> Option<BlockId> {
        self.free[pool as usize].best_fit(size)
    }

    /// A fresh segment as one piece (`get_allocation_size`).
    fn segment(&mut self, size: u64, pool: Pool) -> BlockId {
        let CachingSizes { small_segment, large, medium_segment, large_round, .. } = self.sizes;
        let size = match pool {
            Pool::Small => small_segment,
            Pool::Large if size < large => medium_segment,
            Pool::Large => size.next_multiple_of(large_round),
        };
        self.counters.reserve(size);
        let start = self.next_segment;
        self.next_segment += size;
        self.number(SegmentPiece { start, size, before: NONE, after: NONE, pool, free: false })
    }

    /// Splits off the unused rest of a piece, if that is large enough for a piece of its own (`should_split`).
    fn split(&mut self, block: BlockId, size: u64) {
        let piece = self.pieces[block as usize];
        let rest = piece.size - size;
        let worth = match piece.pool {
            Pool::Small => rest >= self.sizes.round,
            Pool::Large => rest > self.sizes.small,
        };
        if worth {
            let start = piece.start + size;
            let other =
                SegmentPiece { start, size: rest, before: block, after: piece.after, pool: piece.pool, free: true };
            let other = self.number(other);
            if piece.after != NONE {
                self.pieces[piece.after as usize].before = other;
            }
            let piece = &mut self.pieces[block as usize];
            (piece.size, piece.after) = (size, other);
            self.offer(other);
        }
    }

    /// Merges the piece after `block` into it.
    fn merge(&mut self, block: BlockId, behind: BlockId) {
        let SegmentPiece { size, after, .. } = self.pieces[behind as usize];
        let piece = &mut self.pieces[block as usize];
        piece.size += size;
        piece.after = after;
        if after != NONE {
            self.pieces[after as usize].before = block;
        }
        self.unused.push(behind);
    }

    fn number(&mut self, piece: SegmentPiece) -> BlockId {
        if let Some(block) = self.unused.pop() {
            self.pieces[block as usize] = piece;
            return block;
        }
        self.pieces.push(piece);
        self.pieces.len() as BlockId - 1
    }

    /// Puts a free piece where best fit finds it.
    fn offer(&mut self, block: BlockId) {
        let piece = &mut self.pieces[block as usize];
        piece.free = true;
        let fit = (piece.size, piece.start, block);
        self.free[piece.pool as usize].insert(fit);
    }

    /// Takes a free piece out of the running; false for one that is in use or none.
    fn withdraw(&mut self, block: BlockId) -> bool {
        let Some(piece) = self.pieces.get(block as usize).filter(|piece| piece.free) else { return false };
        let fit = (piece.size, piece.start, block);
        self.free[piece.pool as usize].remove(fit);
        true
    }
}

impl Allocate for CachingAllocator {
    fn allocate(&mut self, bytes: u64) -> BlockId {
        if bytes == 0 {
            return NONE;
        }
        let size = bytes.next_multiple_of(self.sizes.round);
        let pool = if size <= self.sizes.small { Pool::Small } else { Pool::Large };
        let block = self.best_fit(size, pool).unwrap_or_else(|| self.segment(size, pool));
        self.split(block, size);
        let piece = &mut self.pieces[block as usize];
        piece.free = false;
        let taken = piece.size;
        self.counters.allocate(taken);
        block
    }

    fn free(&mut self, block: BlockId, _: u64) {
        if block == NONE {
            return;
        }
        let SegmentPiece { size, before, after, .. } = self.pieces[block as usize];
        self.counters.allocated -= size;
        if self.withdraw(after) {
            self.merge(block, after);
        }
        let whole = if self.withdraw(before) {
            self.merge(before, block);
            before
        } else {
            block
        };
        self.offer(whole);
    }

    fn empty_cache(&mut self) {
        let CachingAllocator { pieces, unused, free, counters, .. } = self;
        for fits in free {
            fits.retain(|&(size, _, block)| {
                let piece = pieces[block as usize];
                let whole_segment = (piece.before, piece.after) == (NONE, NONE);
                if whole_segment {
                    counters.reserved -= size;
                    pieces[block as usize].free = false;
                    unused.push(block);
                }
                !whole_segment
            });
        }
    }

    fn counters(&mut self) -> &mut AllocatorCounters {
        &mut self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_platform::{Allocator, Platform};

    const MIB: u64 = 1 << 20;

    fn caching() -> CachingAllocator {
        match Platform::for_name("tx2").unwrap().allocator {
            Allocator::Caching(sizes) => CachingAllocator::new(sizes),
            Allocator::Direct => panic!("PyTorch caches on a TX2"),
        }
    }

    #[test]
    fn segments_are_as_large_as_pytorch_takes_them() {
        // kSmallBuffer for up to 1 MiB, kLargeBuffer for under 10 MiB, above that multiples of kRoundLarge.
        for (bytes, allocated, reserved) in
            [(1, 512, 2 * MIB), (MIB, MIB, 2 * MIB), (MIB + 1, MIB + 512, 20 * MIB), (10 * MIB, 10 * MIB, 10 * MIB)]
        {
            let mut caching = caching();
            caching.allocate(bytes);
            assert_eq!(
                *caching.counters(),
                AllocatorCounters { allocated, reserved, peak_allocated: allocated, peak_reserved: reserved }
            );
        }
    }

    #[test]
    fn a_remainder_of_up_to_one_mib_of_a_large_segment_stays_with_its_block() {
        let mut caching = caching();
        caching.allocate(11 * MIB); // a segment of 12 MiB
        assert_eq!(caching.counters().allocated, 12 * MIB);
        caching.allocate(18 * MIB + MIB / 2); // a segment of 20 MiB: 1.5 MiB are cut off
        assert_eq!(caching.counters().allocated, 30 * MIB + MIB / 2);
    }

    #[test]
    fn the_smallest_free_piece_that_fits_serves() {
        let mut caching = caching();
        let blocks = [30, 12].map(|size| (caching.allocate(size * MIB), size * MIB));
        blocks.into_iter().for_each(|(block, bytes)| caching.free(block, bytes));
        caching.allocate(11 * MIB); // the segment of 12 MiB, whose last MiB stays with the block
        assert_eq!((caching.counters().allocated, caching.counters().reserved), (12 * MIB, 42 * MIB));
    }

    #[test]
    fn free_neighbours_merge() {
        let mut caching = caching();
        let [a, b, c] = [4, 6, 10].map(|size| caching.allocate(size * MIB)); // one segment of 20 MiB
        [(a, 4), (c, 10), (b, 6)].into_iter().for_each(|(block, size)| caching.free(block, size * MIB));
        caching.allocate(20 * MIB);
        assert_eq!((caching.counters().allocated, caching.counters().reserved), (20 * MIB, 20 * MIB));
    }

    #[test]
    fn emptying_the_cache_gives_back_whole_segments_only() {
        let mut caching = caching();
        let [first, second] = [12, 2].map(|size| caching.allocate(size * MIB));
        caching.allocate(2 * MIB); // in the segment of the second
        caching.free(first, 12 * MIB);
        caching.free(second, 2 * MIB);
        caching.empty_cache();
        assert_eq!(caching.counters().reserved, 20 * MIB);
        let again = caching.allocate(512); // the numbers of pieces that are gone serve again
        caching.free(again, 512);
        assert_eq!(caching.counters().allocated, 2 * MIB);
    }
}
