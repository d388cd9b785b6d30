//! Things that begin and end inside each other: which is the innermost at each moment.

use perf4sight_traces::intervals::Interval;

/// Things that are open, the innermost last, and which was the innermost before.
pub(crate) struct Innermost<T> {
    open: Vec<(i64, T)>,
    /// Up to where the innermost is known.
    at: i64,
    pieces: Vec<(Interval, T)>,
    clipped: u64,
}

impl<T: Copy> Innermost<T> {
    pub fn new() -> Self {
        Innermost { open: Vec::new(), at: i64::MIN, pieces: Vec::new(), clipped: 0 }
    }

    /// Begins a thing; they come by their beginnings, the longer first. One that ends after the one it begins in is taken to end with it.
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

    /// Moves to a moment: ends what ends until then.
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

    /// When each was the innermost, in order, and how many were clipped.
    pub fn finish(mut self) -> (Vec<(Interval, T)>, u64) {
        self.go_on(i64::MAX);
        (self.pieces, self.clipped)
    }
}
