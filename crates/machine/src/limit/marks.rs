//! What processes held for a moment that nobody looked: the kernel keeps the most that each ever held.

use super::process_table::Entry;
use perf4sight_conventions::units::Bytes;
use std::collections::BTreeMap;

/// The most memory that each process had held when it was looked at last.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks(BTreeMap<i32, Bytes>);

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
    /// How much more than now a process held since the look before, of the one that held the most more. What one held before that was seen then,
    /// beside what the others held at that time.
    pub fn beyond(&mut self, marks: &[Mark]) -> u64 {
        let grown = marks.iter().filter(|mark| self.0.get(&mark.process).is_none_or(|before| *before < mark.most));
        let beyond = grown.map(|mark| mark.most.0.saturating_sub(mark.now.0)).max();
        self.0 = marks.iter().map(|mark| (mark.process, mark.most)).collect();
        beyond.unwrap_or(0)
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
        assert_eq!(marks.beyond(&[mark(1, 1, 5)]), 4);
        assert_eq!(marks.beyond(&[mark(1, 1, 5), mark(2, 10, 10)]), 0);
        assert_eq!(marks.beyond(&[mark(1, 1, 5), mark(2, 10, 13)]), 3);
        assert_eq!(marks.beyond(&[mark(1, 1, 5), mark(2, 10, 13)]), 0);
    }
}
