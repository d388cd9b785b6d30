//! A step of a rank on the common timeline: what it does at each moment, and when it waits for others.

use super::layers;
use super::{JobWaiting, RankActivity, TimedExchange, activity};
use crate::Analysis;
use perf4sight_traces::intervals::{Interval, union};

/// A time in which a rank does one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankSpan {
    /// Nanoseconds on the common timeline.
    pub time: Interval,
    /// What it does.
    pub state: RankState,
}

/// What a rank does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RankState {
    /// It does this.
    Busy(RankActivity),
    /// It does nothing but wait in an exchange until all ranks are there.
    Waiting,
    /// It does nothing but exchange data.
    Transfer,
}

/// The spans of a rank in a step of [`crate::ranks::TrainingJob::steps`], in order; moments without one are not recorded.
pub fn spans(analysis: &Analysis, rank: usize, step: usize) -> Vec<RankSpan> {
    let Analysis { job, exchanges, clocks, waiting, .. } = analysis;
    let own = &job.ranks[rank];
    let (begin, end) = own.steps[job.steps[step].of[rank]].window;
    let waits = waiting_intervals(waiting, rank);
    let mut spans = Vec::new();
    for ((start, stop), doing) in layers::find_pieces(own, &exchanges.calls[rank]) {
        let (start, stop) = (start.max(begin), stop.min(end));
        if start >= stop {
            continue;
        }
        let time = (clocks.common(rank, start), clocks.common(rank, stop));
        match activity::piece_activity(own, doing) {
            Some(activity) => spans.push(RankSpan { time, state: RankState::Busy(activity) }),
            None => exchanging(time, &waits, &mut spans),
        }
    }
    spans
}

/// When a rank waits, on the common timeline.
fn waiting_intervals(waiting: &JobWaiting, rank: usize) -> Vec<Interval> {
    let wait = |timed: &TimedExchange| Some((timed.part(rank)?.0, timed.waits_until(rank)?.1));
    union(waiting.exchanges.iter().filter_map(wait))
}

/// Adds a time in exchanges, divided into waiting and transfer.
fn exchanging((start, end): Interval, waits: &[Interval], spans: &mut Vec<RankSpan>) {
    let first = waits.partition_point(|(_, stop)| *stop <= start);
    let mut at = start;
    let mut push = |time: Interval, state: RankState| {
        if time.0 < time.1 {
            spans.push(RankSpan { time, state });
        }
    };
    for (from, to) in waits[first..].iter().take_while(|(from, _)| *from < end) {
        let (from, to) = (*from.max(&at), *to.min(&end));
        push((at, from), RankState::Transfer);
        push((from, to), RankState::Waiting);
        at = to;
    }
    push((at, end), RankState::Transfer);
}
