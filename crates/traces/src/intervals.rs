//! Unions of half-open intervals of nanoseconds, and the division of a window by the unions that cover it.

use std::collections::BTreeMap;

/// The first nanosecond and the one after the last.
pub type Interval = (i64, i64);

/// The union as ordered intervals that neither overlap nor touch; empty and reversed intervals are ignored.
pub fn union(intervals: impl IntoIterator<Item = Interval>) -> Vec<Interval> {
    let mut sorted: Vec<Interval> = intervals.into_iter().filter(|(start, end)| start < end).collect();
    sorted.sort_unstable();
    let mut union: Vec<Interval> = Vec::with_capacity(sorted.len());
    for (start, end) in sorted {
        match union.last_mut() {
            Some((_, last)) if start <= *last => *last = end.max(*last),
            _ => union.push((start, end)),
        }
    }
    union
}

/// The total length of a union in nanoseconds.
pub fn length(union: &[Interval]) -> i64 {
    union.iter().map(|(start, end)| end - start).sum()
}

pub trait Timed {
    fn interval(&self) -> Interval;
}

impl Timed for Interval {
    fn interval(&self) -> Interval {
        *self
    }
}

impl<T> Timed for (Interval, T) {
    fn interval(&self) -> Interval {
        self.0
    }
}

/// The items that overlap a window. In all functions of windows, items are ordered and do not overlap each other.
pub fn overlapping<T: Timed>(items: &[T], (begin, end): Interval) -> &[T] {
    let first = items.partition_point(|item| item.interval().1 <= begin);
    let behind = first + items[first..].partition_point(|item| item.interval().0 < end);
    &items[first..behind]
}

/// The parts of items inside a window.
pub fn clipped<T: Timed>(items: &[T], window: Interval) -> impl Iterator<Item = (Interval, &T)> {
    let clip = move |(start, stop): Interval| (start.max(window.0), stop.min(window.1));
    overlapping(items, window).iter().map(move |item| (clip(item.interval()), item))
}

/// The parts of items inside a window, and the gaps between them, which have no item. They add up to the window.
pub fn pieces<T: Timed>(items: &[T], window: Interval) -> impl Iterator<Item = (Interval, Option<&T>)> {
    let end = (window.1, window.1);
    let mut at = window.0;
    let parts = clipped(items, window).map(|(time, item)| (time, Some(item))).chain([(end, None)]);
    let with_gap = move |(time, item): (Interval, Option<_>)| {
        let gap = (at, time.0);
        at = time.1;
        [(gap, None), (time, item)]
    };
    parts.flat_map(with_gap).filter(|((start, end), _)| start < end)
}

/// The moments at which a union begins and ends inside a window, alternating and in order because its intervals neither
/// overlap nor touch.
fn edges(union: &[Interval], (begin, end): Interval) -> impl Iterator<Item = i64> {
    union.iter().flat_map(move |&(start, stop)| [start.clamp(begin, end), stop.clamp(begin, end)])
}

/// The nanoseconds of a window by the set of unions that cover them: bit `n` is the `n`th of at most 32 unions. They
/// add up to the window.
pub fn partition(window: Interval, sets: &[impl AsRef<[Interval]>]) -> BTreeMap<u32, i64> {
    let (begin, end) = window;
    let mut edges: Vec<_> = sets.iter().map(|set| edges(set.as_ref(), window).peekable()).collect();
    let (mut held, mut at, mut parts) = (0u32, begin, BTreeMap::new());
    loop {
        let next = edges.iter_mut().filter_map(|edges| edges.peek().copied()).min();
        let moment = next.unwrap_or(end);
        if moment > at {
            *parts.entry(held).or_insert(0) += moment - at;
            at = moment;
        }
        if next.is_none() {
            return parts;
        }
        for (set, edges) in edges.iter_mut().enumerate() {
            while edges.next_if_eq(&moment).is_some() {
                held ^= 1 << set;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calculated by hand: A = [3,7] [8,10], B = [1,4] [6,9], C = [2,5] [7,8] [11,12]; 1-2 is B, 2-3 B and C, 3-4 all,
    /// 4-5 A and C, 5-6 A, 6-7 A and B, 7-8 B and C, 8-9 A and B, 9-10 A, 10-11 nothing, 11-12 C.
    #[test]
    fn a_window_is_divided_by_which_sets_hold() {
        let sets = [vec![(3, 7), (8, 10)], vec![(1, 4), (6, 9)], vec![(2, 5), (7, 8), (11, 12)]];
        let parts = partition((1, 12), &sets);
        let [a, b, c] = [1, 2, 4];
        let expected = [(0, 1), (a, 2), (b, 1), (a | b, 2), (c, 1), (a | c, 1), (b | c, 2), (a | b | c, 1)];
        assert_eq!(parts, BTreeMap::from(expected));
        assert_eq!(parts.values().sum::<i64>(), 11);
        assert_eq!(partition((4, 6), &sets).values().sum::<i64>(), 2);
    }

    /// [1,3] [5,6] [8,9] in the window [2,8]: 2-3 and 5-6 are items, 3-5 and 6-8 gaps.
    #[test]
    fn pieces_are_parts_and_gaps_and_add_up() {
        let items = [((1, 3), 'a'), ((5, 6), 'b'), ((8, 9), 'c')];
        let found: Vec<_> = pieces(&items, (2, 8)).map(|(time, item)| (time, item.map(|item| item.1))).collect();
        assert_eq!(found, [((2, 3), Some('a')), ((3, 5), None), ((5, 6), Some('b')), ((6, 8), None)]);
        assert_eq!(pieces::<Interval>(&[], (2, 8)).collect::<Vec<_>>(), [((2, 8), None)]);
        assert_eq!(pieces(&items, (2, 2)).count(), 0);
    }

    #[test]
    fn a_union_counts_what_overlaps_once() {
        // The published toolkit gave 11 for these three.
        assert_eq!(length(&union([(0, 10), (1, 2), (3, 4)])), 10);
        assert_eq!(union([(5, 5), (7, 6), (1, 2), (2, 3)]), [(1, 3)]);
    }
}
