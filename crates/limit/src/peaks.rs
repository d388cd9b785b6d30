//! Memory peaks between two polls: the kernel keeps the peak of each process.

use super::processes::ProcessEntry;
use perf4sight_base::units::Bytes;
use std::collections::BTreeMap;

/// The state of each process at the last poll.
#[derive(Debug, Clone, Default)]
pub(super) struct ProcessPeaks(BTreeMap<i32, PeakUsage>);

#[derive(Debug, Clone, Copy)]
struct PeakUsage {
    most: Bytes,
    /// Memory of all others; below zero where this process holds pages of files, which the total does not count.
    others: i64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessPeak {
    pub process: i32,
    pub now: Bytes,
    pub most: Bytes,
}

impl ProcessPeak {
    pub fn from_entry(entry: &ProcessEntry) -> Self {
        ProcessPeak { process: entry.process, now: entry.resident, most: entry.most_resident() }
    }
}

impl ProcessPeaks {
    /// The peak of all together since the previous poll; they hold `own` now. For each process whose peak grew, it adds
    /// that peak and the memory of the others. The others count with the smaller value of the two polls: when a process
    /// frees memory, the kernel stops counting pages as its own while the group still holds up to 10,000 of them
    /// (`MAX_GATHER_BATCH_COUNT` in mm/mmu_gather.c), which would count twice.
    pub fn add_poll(&mut self, own: Bytes, processes: &[ProcessPeak]) -> Bytes {
        let others = |process: &ProcessPeak| own.0 as i64 - process.now.0 as i64;
        let mut most = own;
        for process in processes {
            let before = self.0.get(&process.process);
            if before.is_none_or(|before| before.most < process.most) {
                let others = before.map_or(others(process), |before| before.others.min(others(process)));
                most = most.max(Bytes(process.most.0.saturating_add_signed(others)));
            }
        }
        self.0 = processes
            .iter()
            .map(|process| (process.process, PeakUsage { most: process.most, others: others(process) }))
            .collect();
        most
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A process with so much current memory and such a peak.
    pub fn mark(process: i32, now: u64, most: u64) -> ProcessPeak {
        ProcessPeak { process, now: Bytes(now), most: Bytes(most) }
    }

    /// One process allocates 5 and frees 4 of them; then others hold 10 in addition to the 1 that is left: 11 in all,
    /// and not 15. For a moment they hold 3 more.
    #[test]
    fn what_was_held_before_others_came_is_not_held_beside_them() {
        let mut peaks = ProcessPeaks::default();
        assert_eq!(peaks.add_poll(Bytes(1), &[mark(1, 1, 5)]), Bytes(5));
        assert_eq!(peaks.add_poll(Bytes(11), &[mark(1, 1, 5), mark(2, 10, 10)]), Bytes(11));
        assert_eq!(peaks.add_poll(Bytes(11), &[mark(1, 1, 5), mark(2, 10, 13)]), Bytes(14));
        assert_eq!(peaks.add_poll(Bytes(11), &[mark(1, 1, 5), mark(2, 10, 13)]), Bytes(11));
    }

    /// Others hold 10. A process with 50 allocates 30 more and frees 40 of them: the group still holds 25 of these 40.
    /// The peak is 90 at most, and not 115.
    #[test]
    fn what_is_being_freed_does_not_count_twice() {
        let mut peaks = ProcessPeaks::default();
        assert_eq!(peaks.add_poll(Bytes(60), &[mark(1, 50, 50)]), Bytes(60));
        assert_eq!(peaks.add_poll(Bytes(75), &[mark(1, 40, 80)]), Bytes(90));
    }
}
