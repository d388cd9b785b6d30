//! Threads that wait until another one is done with its work and with the exchanges that it launched: a thread that calls
//! `backward`, whose operations run on a thread of the autograd engine, goes on when both are done.

use super::rows::RankStep;
use super::waits::{CONSISTENT, PROMPT, SHORTEST, computes, consistent, ends_soon};
use crate::graph::CallTable;
use std::collections::BTreeSet;

/// A thread that launches exchanges, and the row of another one that waits until it is done with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ThreadJoin {
    /// The index in [`RankStep::tracks`] of the thread that launches.
    pub track: usize,
    /// The last row of that thread.
    pub last: usize,
    /// The row that waits.
    pub row: usize,
}

/// The joins of a rank's threads that launch exchanges.
pub(super) fn all(steps: &[&RankStep], calls: &CallTable) -> Vec<ThreadJoin> {
    let Some(first) = steps.first() else { return Vec::new() };
    let launching: BTreeSet<usize> = first.parts.values().filter_map(|part| first.track_of(part.launch)).collect();
    let of_threads = launching.iter().copied().filter(|track| !first.is_stream(*track));
    of_threads.filter_map(|track| join(steps, track, calls)).collect()
}

/// The row of another thread that waits for one of them in nearly all steps.
fn join(steps: &[&RankStep], track: usize, calls: &CallTable) -> Option<ThreadJoin> {
    let first = steps.first()?;
    let last = first.tracks[track].1.end.checked_sub(1)?;
    let others = (0..first.tracks.len()).filter(|other| *other != track && !first.is_stream(*other));
    let row = others.filter_map(|other| waiting_row(steps, track, other)).find(|row| !computes(first, *row, calls))?;
    Some(ThreadJoin { track, last, row })
}

/// The row of a thread that begins before another one is done in nearly all steps, and ends soon after, at a time that is the end's and not its own.
fn waiting_row(steps: &[&RankStep], track: usize, other: usize) -> Option<usize> {
    let waits = |step: &&RankStep| {
        let done = done(step, track)?;
        let row = step.row_during(other, done - 1)?;
        (done - step.begin_of(other, row) >= SHORTEST).then_some(row)
    };
    let row = consistent(&steps.iter().map(waits).collect::<Vec<_>>())?;
    let times = |step: &&RankStep| {
        let end = step.rows[row].end;
        Some([end - step.begin_of(other, row), end - done(step, track)?])
    };
    ends_soon(&steps.iter().map(times).collect::<Option<Vec<_>>>()?).then_some(row)
}

/// When a thread and the exchanges that it launched are done.
fn done(step: &RankStep, track: usize) -> Option<i64> {
    let rows = &step.tracks[track].1;
    let own = step.parts.values().filter(|part| rows.contains(&part.launch)).map(|part| part.end);
    own.chain(step.rows[rows.clone()].last().map(|row| row.end)).max()
}

/// Whether an exchange goes on when the thread that launched it is done, in nearly all steps.
pub(super) fn outlasts(steps: &[&RankStep], number: usize, track: usize) -> bool {
    let outlasts = |step: &&&RankStep| {
        let last = step.rows[step.tracks[track].1.clone()].last().map_or(step.start, |row| row.end);
        step.parts.get(&number).is_some_and(|part| part.end > last + PROMPT)
    };
    steps.iter().filter(outlasts).count() as f64 >= CONSISTENT * steps.len() as f64
}
