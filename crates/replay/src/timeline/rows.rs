//! Rows of a rank in a timeline. Viewers draw a slice in the one that it lies within, and drop or cut slices of one row that
//! overlap in part.

use perf4sight_traces::intervals::Interval;
use std::collections::BTreeMap;

/// The rows of a rank: one for each of its tracks, and more for slices that overlap in part.
pub(super) struct TimelineRows {
    of: BTreeMap<usize, Vec<TimelineRow>>,
    next: usize,
}

struct TimelineRow {
    number: usize,
    /// Ends of slices within each other, the innermost last.
    open: Vec<i64>,
}

/// Where a slice is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowPlace {
    /// The number of the row: that of the track, or one after those of all tracks.
    pub row: usize,
    /// How many rows the track has, if this one is new and not its first.
    pub new: Option<usize>,
}

impl TimelineRows {
    /// Of a rank with so many tracks.
    pub fn new(tracks: usize) -> Self {
        TimelineRows { of: BTreeMap::new(), next: tracks }
    }

    /// Whether anything is drawn in a row of a track.
    pub fn has(&self, track: usize) -> bool {
        self.of.contains_key(&track)
    }

    /// The first row of a track that a slice fits into, within the others. Slices come in the order in which they begin, the
    /// longer of two that begin together first.
    pub fn nested_row(&mut self, track: usize, slice: Interval) -> RowPlace {
        self.place_slice(track, slice, |open, end| open.last().is_none_or(|last| end <= *last))
    }

    /// The first row of a track that is free then.
    pub fn free_row(&mut self, track: usize, slice: Interval) -> RowPlace {
        self.place_slice(track, slice, |open, _| open.is_empty())
    }

    fn place_slice(&mut self, track: usize, (begin, end): Interval, fits: impl Fn(&[i64], i64) -> bool) -> RowPlace {
        let rows = self.of.entry(track).or_default();
        for row in rows.iter_mut() {
            while row.open.pop_if(|end| *end <= begin).is_some() {}
            if fits(&row.open, end) {
                row.open.push(end);
                return RowPlace { row: row.number, new: None };
            }
        }
        let number = if rows.is_empty() { track } else { self.next };
        self.next += usize::from(!rows.is_empty());
        rows.push(TimelineRow { number, open: vec![end] });
        RowPlace { row: number, new: Some(rows.len()).filter(|count| *count > 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_a_row_lie_within_each_other_or_follow_one_another() {
        let mut rows = TimelineRows::new(2);
        let slices = [(0, 10), (0, 4), (4, 10), (5, 12), (6, 7), (10, 11), (12, 13)];
        let places = slices.map(|slice| rows.nested_row(1, slice).row);
        assert_eq!(places, [1, 1, 1, 2, 1, 1, 1]);
        assert_eq!(rows.nested_row(0, (0, 1)), RowPlace { row: 0, new: None });
        let apart = [(0, 10), (2, 3), (2, 12), (11, 12)].map(|slice| rows.free_row(0, slice));
        assert_eq!(apart.map(|place| place.row), [3, 0, 4, 0]);
        assert_eq!(apart[2].new, Some(3));
    }
}
