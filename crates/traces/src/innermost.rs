//! Finds the innermost of nested items at each moment.

use crate::intervals::Interval;

/// The open items, the innermost last, and the innermost ones of the past.
#[derive(Debug)]
pub struct Innermost<T> {
    open: Vec<(i64, T)>,
    /// The moment up to which the innermost is known.
    at: i64,
    pieces: Vec<(Interval, T)>,
    clipped: u64,
}

impl<T> Default for Innermost<T> {
    fn default() -> Self {
        Innermost { open: Vec::new(), at: i64::MIN, pieces: Vec::new(), clipped: 0 }
    }
}

impl<T: Copy> Innermost<T> {
    /// Begins an item; calls must be ordered by beginning, the longer item first. An item that ends after the one
    /// around it is cut at that end.
    pub fn begin(&mut self, (start, mut end): Interval, thing: T) {
        self.go_on(start);
        if let Some((parent, _)) = self.open.last()
            && *parent < end
        {
            end = *parent;
            self.clipped += 1;
        }
        self.open.push((end, thing));
    }

    /// Moves to a moment and closes the items that end until then.
    fn go_on(&mut self, moment: i64) {
        while let Some(&(end, thing)) = self.open.last() {
            let until = end.min(moment);
            if self.at < until {
                self.pieces.push(((self.at, until), thing));
                self.at = until;
            }
            if end > moment {
                break;
            }
            self.open.pop();
        }
        self.at = self.at.max(moment);
    }

    /// The intervals in which each item was the innermost, in order, and the number of cut items.
    pub fn finish(mut self) -> (Vec<(Interval, T)>, u64) {
        self.go_on(i64::MAX);
        (self.pieces, self.clipped)
    }
}
