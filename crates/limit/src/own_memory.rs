//! The peak of a job's own memory, including peaks between two polls: from its control groups' current memory, their
//! peak counted by the kernel, and the peaks of the processes.

use super::backend::JobMemory;
use super::peaks::{ProcessPeak, ProcessPeaks};
use perf4sight_base::units::Bytes;

#[derive(Debug, Clone, Default)]
pub(super) struct OwnMemoryPeak {
    before: Option<JobMemory>,
    peaks: ProcessPeaks,
    most: Option<Bytes>,
}

impl OwnMemoryPeak {
    /// Adds a measurement of the groups. If the total peak has grown since the previous poll, it was reached between
    /// the two, with no more pages of files than at one of them. At a limit it does not grow, because pages of files
    /// are reclaimed: there the peaks of the processes count.
    pub fn add(&mut self, now: JobMemory, processes: &[ProcessPeak]) {
        let files = self.before.map_or(now.files, |before| before.files.max(now.files));
        let has_grown = |most: &Bytes| self.before.is_none_or(|before| before.most < Some(*most));
        let between = now.most.filter(has_grown).map(|most| Bytes(most.0.saturating_sub(files.0)));
        let held = self.peaks.add_poll(now.own, processes);
        let held = now.most.map_or(held, |most| held.min(most));
        self.most = self.most.max(Some(now.own)).max(between).max(Some(held));
        self.before = Some(now);
    }

    /// The peak; none without measurements.
    pub fn peak(&self) -> Option<Bytes> {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::super::peaks::tests::mark;
    use super::*;

    fn memory(own: u64, files: u64, most: u64) -> JobMemory {
        JobMemory { own: Bytes(own), files: Bytes(files), most: Some(Bytes(most)) }
    }

    /// A job holds 20 and 60 of files, then 80 more for a moment between polls, then reads 30 more of files.
    #[test]
    fn what_was_held_between_two_looks_counts() {
        let mut seen = OwnMemoryPeak::default();
        assert_eq!(seen.peak(), None);
        seen.add(memory(20, 60, 80), &[]);
        assert_eq!(seen.peak(), Some(Bytes(20)));
        seen.add(memory(20, 60, 160), &[]);
        assert_eq!(seen.peak(), Some(Bytes(100)));
        seen.add(memory(20, 90, 160), &[]);
        seen.add(memory(20, 130, 150), &[]);
        assert_eq!(seen.peak(), Some(Bytes(100)), "files fill what was held before");
        let unknown = JobMemory { most: None, ..memory(120, 0, 0) };
        seen.add(unknown, &[]);
        assert_eq!(seen.peak(), Some(Bytes(120)));
    }

    /// Under a limit of 100 that pages of files fill, two processes hold 20. One holds 50 more for a moment, in which
    /// pages of files are reclaimed.
    #[test]
    fn at_a_limit_what_a_process_held_between_two_looks_counts() {
        let mut seen = OwnMemoryPeak::default();
        seen.add(memory(20, 80, 100), &[mark(1, 15, 15), mark(2, 6, 6)]);
        seen.add(memory(20, 70, 100), &[mark(1, 15, 65), mark(2, 6, 6)]);
        assert_eq!(seen.peak(), Some(Bytes(70)));
        seen.add(memory(20, 70, 100), &[mark(1, 15, 165), mark(2, 6, 6)]);
        assert_eq!(
            seen.peak(),
            Some(Bytes(100)),
            "pages of files that it mapped are no reason to hold more than there was"
        );
    }
}
