//! Exchanges on the common timeline: until when ranks wait, and how long the transfer takes.

use crate::clocks::Clocks;
use crate::collectives::Exchanges;
use perf4sight_traces::intervals::Interval;

/// An exchange on the common timeline; in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timed {
    /// Its index in [`Exchanges::all`].
    pub exchange: usize,
    /// The index of the rank that comes last, for which the others wait.
    pub last: usize,
    /// When that rank comes; the transfer cannot begin before.
    pub begun: i64,
    /// When the first rank is done.
    pub ended: i64,
    /// From when to when each rank takes part, by index of the rank.
    pub parts: Vec<(usize, Interval)>,
}

impl Timed {
    /// Nanoseconds of the transfer: from the last start to the first end. Zero if clocks are too uncertain to order
    /// both.
    pub fn transfer(&self) -> i64 {
        (self.ended - self.begun).max(0)
    }

    /// Nanoseconds that a rank waits until all are there; none for a rank without a part.
    pub fn waiting(&self, rank: usize) -> Option<i64> {
        Some(self.waits_until(rank)? - self.part(rank)?.0)
    }

    /// Until when a rank waits: until all are there, or until it is done, for who sends a short message need not wait.
    pub fn waits_until(&self, rank: usize) -> Option<i64> {
        self.part(rank).map(|(start, end)| self.begun.min(end).max(start))
    }

    /// From when to when a rank takes part.
    pub fn part(&self, rank: usize) -> Option<Interval> {
        self.parts.iter().find(|(own, _)| *own == rank).map(|(_, time)| *time)
    }
}

/// The exchanges of which all parts are known, ordered by the begin of their transfer.
pub(super) fn of(exchanges: &Exchanges, clocks: &Clocks) -> Vec<Timed> {
    let whole = exchanges.all.iter().enumerate().filter(|(_, exchange)| exchange.whole);
    let timed = whole.filter_map(|(index, exchange)| {
        let part = |part: &crate::collectives::Part| {
            let (start, end) = exchanges.call(*part).time;
            (part.rank, (clocks.common(part.rank, start), clocks.common(part.rank, end)))
        };
        let parts: Vec<(usize, Interval)> = exchange.parts.iter().map(part).collect();
        let (last, begun) = parts.iter().map(|(rank, (start, _))| (*rank, *start)).max_by_key(|(_, start)| *start)?;
        let ended = parts.iter().map(|(_, (_, end))| *end).min()?;
        Some(Timed { exchange: index, last, begun, ended, parts })
    });
    let mut timed: Vec<Timed> = timed.collect();
    timed.sort_by_key(|timed| (timed.begun, timed.exchange));
    timed
}
