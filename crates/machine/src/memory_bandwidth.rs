//! Measures memory bandwidth with concurrent copies on all threads (after the copy of STREAM, McCalpin 1995).

use crate::RunWatch;
use crate::description::MachineDescription;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// Total size of the arrays: several times the caches of any current processor, the largest of which have about a GiB.
const ARRAYS: u64 = 4 << 30;
/// At most the available memory divided by this is used.
const SHARE: u64 = 4;
/// The least that one thread copies, for a measurable time.
const LEAST: usize = 1 << 20;
/// Number of copies. The first one touches the pages; of the others the fastest counts, as in STREAM.
const ROUNDS: usize = 6;

/// Bytes a second that are read and written by this many threads, counted as in STREAM: a copied byte counts twice.
/// None after Ctrl-C.
pub fn memory_bandwidth(threads: usize, watch: &RunWatch<'_>) -> Option<f64> {
    if watch.cancelled() {
        return None;
    }
    let available = MachineDescription::here().available().0 / SHARE;
    let threads = threads.max(1);
    let length = (ARRAYS.min(available) as usize / 2 / threads).max(LEAST);
    let barrier = Barrier::new(threads + 1);
    let fastest = thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| copy(length, &barrier));
        }
        let rounds = (0..ROUNDS).map(|_| {
            barrier.wait();
            let start = Instant::now();
            barrier.wait();
            start.elapsed()
        });
        rounds.skip(1).min()
    });
    let moved = (2 * length * threads) as f64;
    fastest.filter(|_| !watch.cancelled()).map(|time| moved / time.as_secs_f64())
}

/// Copies an array in every round, between two barriers.
fn copy(length: usize, barrier: &Barrier) {
    let (from, mut to) = (vec![1u8; length], vec![0u8; length]);
    for _ in 0..ROUNDS {
        barrier.wait();
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
        barrier.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn memory_is_copied_at_a_rate_that_memory_has() {
        let cancelled = AtomicBool::new(false);
        let bandwidth = memory_bandwidth(2, &RunWatch::quiet(&cancelled)).unwrap();
        println!("{:.1} GB/s", bandwidth / 1e9);
        // One channel of DDR3-800 moves 6.4 GB/s, twelve of DDR5-6400 614 GB/s, and unified memory at most a few times
        // that.
        assert!((5e8..5e12).contains(&bandwidth), "{bandwidth}");
        cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(memory_bandwidth(1, &RunWatch::quiet(&cancelled)), None);
    }
}
