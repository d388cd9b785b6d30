//! Exchanges on the common timeline: until when ranks wait, and how long the transfer takes.

use crate::clocks::RankClocks;
use crate::collectives::{CollectiveOperation, RankExchanges};
use perf4sight_traces::intervals::Interval;

/// An exchange on the common timeline; in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedExchange {
    /// Its index in [`RankExchanges::all`].
    pub exchange: usize,
    /// Its kind.
    pub operation: CollectiveOperation,
    /// The index of the rank that comes last, for which the others wait.
    pub last: usize,
    /// When that rank comes; the transfer cannot begin before.
    pub begun: i64,
    /// When the first rank is done.
    pub ended: i64,
    /// From when to when each rank takes part, by index of the rank.
    pub parts: Vec<(usize, Interval)>,
}

impl TimedExchange {
    /// Nanoseconds of the transfer: from the last start to the first end. Zero if clocks are too uncertain to order
    /// both.
    pub fn transfer(&self) -> i64 {
        (self.ended - self.begun).max(0)
    }

    /// Nanoseconds that a rank waits; none for a rank without a part.
    pub fn waiting(&self, rank: usize) -> Option<i64> {
        Some(self.waits_until(rank)?.1 - self.part(rank)?.0)
    }

    /// The rank that a rank waits for, and until when: the one that comes last, or, where not all wait for all, that comes last before
    /// the rank is done. The sender of a short message need not wait.
    pub fn waits_until(&self, rank: usize) -> Option<(usize, i64)> {
        let (start, end) = self.part(rank)?;
        let (awaited, until) = match self.operation.synchronises() {
            true => (self.last, self.begun),
            false => last(self.parts.iter().filter(|(_, (begun, _))| *begun <= end))?,
        };
        Some((awaited, until.min(end).max(start)))
    }

    /// From when to when a rank takes part.
    pub fn part(&self, rank: usize) -> Option<Interval> {
        self.parts.iter().find(|(own, _)| *own == rank).map(|(_, time)| *time)
    }
}

/// The exchanges of which all parts are known, ordered by the begin of their transfer.
pub(super) fn time_exchanges(exchanges: &RankExchanges, clocks: &RankClocks) -> Vec<TimedExchange> {
    let whole = exchanges.all.iter().enumerate().filter(|(_, exchange)| exchange.whole);
    let timed = whole.filter_map(|(index, exchange)| {
        let part = |part: &crate::collectives::ExchangePart| {
            let (start, end) = exchanges.call(*part).time;
            (part.rank, (clocks.common(part.rank, start), clocks.common(part.rank, end)))
        };
        let parts: Vec<(usize, Interval)> = exchange.parts.iter().map(part).collect();
        let (last, begun) = last(parts.iter())?;
        let ended = parts.iter().map(|(_, (_, end))| *end).min()?;
        Some(TimedExchange { exchange: index, operation: exchange.operation, last, begun, ended, parts })
    });
    let mut timed: Vec<TimedExchange> = timed.collect();
    timed.sort_by_key(|timed| (timed.begun, timed.exchange));
    timed
}

/// The rank that comes last, and when.
fn last<'a>(parts: impl Iterator<Item = &'a (usize, Interval)>) -> Option<(usize, i64)> {
    parts.map(|(rank, (start, _))| (*rank, *start)).max_by_key(|(_, start)| *start)
}
