//! For whom a rank waits in the end: who waits itself only passes on that another one is late.

use perf4sight_traces::intervals::Interval;

/// A time that a rank waits, on the common timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait {
    /// From when to when.
    pub time: Interval,
    /// The rank that has not come yet.
    pub awaited: usize,
    /// The step that it counts in.
    pub step: Option<usize>,
}

/// The parts of a time in which `rank` waits for `awaited`, each with the rank that nothing keeps waiting then; of all ranks the waits
/// in order, which do not overlap.
pub(super) fn origins(waits: &[Vec<Wait>], rank: usize, awaited: usize, time: Interval) -> Vec<(usize, i64)> {
    let mut found = Vec::new();
    follow(waits, &mut vec![rank], awaited, time, &mut found);
    found
}

/// `path` holds the ranks that wait for each other up to `awaited`: one of them once more would be a circle, which uncertain clocks make.
fn follow(
    waits: &[Vec<Wait>],
    path: &mut Vec<usize>,
    awaited: usize,
    (from, until): Interval,
    found: &mut Vec<(usize, i64)>,
) {
    let own = &waits[awaited];
    let first = own.partition_point(|wait| wait.time.1 <= from);
    let mut at = from;
    path.push(awaited);
    for wait in own[first..].iter().take_while(|wait| wait.time.0 < until) {
        let (begin, end) = (wait.time.0.max(at), wait.time.1.min(until));
        if begin >= end || path.contains(&wait.awaited) {
            continue;
        }
        found.push((awaited, begin - at));
        follow(waits, path, wait.awaited, (begin, end), found);
        at = end;
    }
    path.pop();
    found.push((awaited, until - at));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rank 0 comes at 100; rank 1 waits for it from 10 on and takes 5 more, for which rank 2 waits from 20 on, and rank 3 for that from 30 on.
    #[test]
    fn who_passes_a_delay_on_is_not_waited_for() {
        let wait = |time, awaited| vec![Wait { time, awaited, step: None }];
        let waits = [Vec::new(), wait((10, 100), 0), wait((20, 105), 1), wait((30, 106), 2)];
        assert_eq!(origins(&waits, 2, 1, (20, 105)), [(1, 0), (0, 80), (1, 5)]);
        assert_eq!(origins(&waits, 3, 2, (30, 106)), [(2, 0), (1, 0), (0, 70), (1, 5), (2, 1)]);
        // By uncertain clocks two ranks may wait for each other.
        let circle = [wait((0, 10), 1), wait((5, 12), 0)];
        assert_eq!(origins(&circle, 0, 1, (0, 10)), [(1, 10)]);
    }
}
