//! What processes held for a moment that nobody looked: the kernel keeps the most that each ever held.

use super::process_table::Entry;
use perf4sight_base::units::Bytes;
use std::collections::BTreeMap;

/// What was seen of each process when it was looked at last.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks(BTreeMap<i32, Seen>);

/// What was seen of a process.
#[derive(Debug, Clone, Copy)]
struct Seen {
    most: Bytes,
    /// What all held beyond what this one did; below zero where it holds pages of files, which are not counted among that of all.
    beside: i64,
}

/// What a process holds, and the most that it ever held.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    process: i32,
    now: Bytes,
    most: Bytes,
}

impl Mark {
    /// Of a process.
    pub fn of(entry: &Entry) -> Self {
        Mark { process: entry.process, now: entry.resident, most: entry.most_resident() }
    }
}

impl Marks {
    /// The most that all held at a time since the look before, who hold `own` now: for all that one process tells, what it held then and what the
    /// others do beside it. What it held before that was seen then, beside what the others held at that time. The others are given the less of what they held at
    /// the two looks: of a process that frees, the kernel counts pages as its own no longer when the group still holds up to 10,000 of them
    /// (`MAX_GATHER_BATCH_COUNT` in mm/mmu_gather.c), which would count twice.
    pub fn most(&mut self, own: Bytes, marks: &[Mark]) -> Bytes {
        let beside = |mark: &Mark| own.0 as i64 - mark.now.0 as i64;
        let mut most = own;
        for mark in marks {
            let before = self.0.get(&mark.process);
            if before.is_none_or(|before| before.most < mark.most) {
                let beside = before.map_or(beside(mark), |before| before.beside.min(beside(mark)));
                most = most.max(Bytes(mark.most.0.saturating_add_signed(beside)));
            }
        }
        self.0 = marks.iter().map(|mark| (mark.process, Seen { most: mark.most, beside: beside(mark) })).collect();
        most
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A process that holds so much, and held so much at most.
    pub fn mark(process: i32, now: u64, most: u64) -> Mark {
        Mark { process, now: Bytes(now), most: Bytes(most) }
    }

    /// One reads 5 and frees 4 of them; then others hold 10 beside the 1 that is left: 11, and not 15. For a moment it holds 3 more beside them.
    #[test]
    fn what_was_held_before_others_came_is_not_held_beside_them() {
        let mut marks = Marks::default();
        assert_eq!(marks.most(Bytes(1), &[mark(1, 1, 5)]), Bytes(5));
        assert_eq!(marks.most(Bytes(11), &[mark(1, 1, 5), mark(2, 10, 10)]), Bytes(11));
        assert_eq!(marks.most(Bytes(11), &[mark(1, 1, 5), mark(2, 10, 13)]), Bytes(14));
        assert_eq!(marks.most(Bytes(11), &[mark(1, 1, 5), mark(2, 10, 13)]), Bytes(11));
    }

    /// Beside 10 of others, one that holds 50 takes 30 more and is seen freeing them all: of 40 that are its own no longer the group still
    /// holds 25. 90 at most, and not 115.
    #[test]
    fn what_is_being_freed_does_not_count_twice() {
        let mut marks = Marks::default();
        assert_eq!(marks.most(Bytes(60), &[mark(1, 50, 50)]), Bytes(60));
        assert_eq!(marks.most(Bytes(75), &[mark(1, 40, 80)]), Bytes(90));
    }
}
