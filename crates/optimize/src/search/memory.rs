//! The memory that searches take, known before they begin.

use super::units::BYTES_OF_OPERATION;
use super::{FusionMove, FusionState, SearchSettings};

/// Graphs at a time: the one that is searched, and that of another rank on which the same is made.
const GRAPHS: u64 = 2;
/// States of a search: the first one, the one that it goes on from, the best.
const OF_SEARCH: u64 = 3;
/// States of a search that runs: the one that is tried, the one before it, and a better one that takes the place of the best.
const TRIED: u64 = 3;

impl SearchSettings {
    /// Bytes that searching so many operations takes at most; compared with what was measured by
    /// `cargo run --release -p perf4sight-optimize --example search_memory`.
    pub fn bytes(&self, operations: u64) -> u64 {
        let at_once = self.count.min(rayon::current_num_threads() as u64);
        let states = OF_SEARCH.saturating_mul(self.count).saturating_add(1 + TRIED * at_once);
        let pairs = (size_of::<FusionMove>() as u64).saturating_mul(self.count);
        let of_operation = (GRAPHS * BYTES_OF_OPERATION)
            .saturating_add(pairs)
            .saturating_add(states.saturating_mul(FusionState::BYTES_OF_UNIT));
        of_operation.saturating_mul(operations)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SearchMethod, SearchOptions};
    use super::*;

    /// Measured with the example, in MB, with two threads: what is said is never less, and less than twice as much.
    #[test]
    fn what_is_said_holds_what_was_measured() {
        let measured = [
            (300_000, 1, 267),
            (1_000_000, 1, 890),
            (3_000_000, 1, 2669),
            (10_000_000, 1, 8897),
            (1_000_000, 4, 1493),
            (1_000_000, 16, 3008),
        ];
        for (operations, count, megabytes) in measured {
            let first = SearchOptions { optimizer: SearchMethod::Mcmc, seed: 0, moves: 20 };
            let said = SearchSettings { first, count, folder: std::path::PathBuf::new() }.bytes(operations) / 1_000_000;
            assert!((megabytes..2 * megabytes).contains(&said), "{operations} {count}: {said} MB");
        }
    }
}
