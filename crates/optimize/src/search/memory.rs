//! The memory that searches take, known before they begin.

use super::units::BYTES_OF_OPERATION;
use super::{Fused, Move, Searches};

/// Graphs at a time: the one that is searched, and that of another rank on which the same is made.
const GRAPHS: u64 = 2;
/// States of a search: the first one, the one that it goes on from, the best.
const OF_SEARCH: u64 = 3;
/// States of a search that runs: the one that is tried, the one before it, and a better one that takes the place of the best.
const TRIED: u64 = 3;

impl Searches {
    /// Bytes that searching so many operations takes at most; compared with what was measured by
    /// `cargo run --release -p perf4sight-optimize --example search_memory`.
    pub fn bytes(&self, operations: u64) -> u64 {
        let at_once = self.count.min(rayon::current_num_threads() as u64);
        let states = 1 + OF_SEARCH.saturating_mul(self.count).saturating_add(TRIED * at_once);
        let pairs = (size_of::<Move>() as u64).saturating_mul(self.count);
        let of_operation = (GRAPHS * BYTES_OF_OPERATION)
            .saturating_add(pairs)
            .saturating_add(states.saturating_mul(Fused::BYTES_OF_UNIT));
        of_operation.saturating_mul(operations)
    }
}
