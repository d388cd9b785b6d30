//! Where the threads of a rank take part in exchanges: in the call that enqueues them, if the trace has it.

use super::rows::{PartRows, RankStep};
use crate::collectives::{CollectiveCall, CollectiveOperation};
use crate::graph::{CallTable, WorkKind};
use crate::ranks::JobRank;
use perf4sight_traces::TrackId;
use std::collections::HashMap;

/// What backward operations run inside.
const BACKWARD: &str = "autograd::engine";

/// Finds the rows of a rank's parts in exchanges on the CPU. Those of streams are known already.
pub(super) fn read_parts(rank: &JobRank, parts: &[(usize, &CollectiveCall)], calls: &CallTable, into: &mut RankStep) {
    let parts: Vec<(usize, &CollectiveCall)> =
        parts.iter().filter(|(exchange, _)| !into.parts.contains_key(exchange)).copied().collect();
    let unseen: Vec<(usize, &CollectiveCall)> =
        parts.iter().filter(|(_, call)| call.issued.is_none()).copied().collect();
    let ready = behind_gradients(&unseen, into);
    let backward = backward_threads(into, calls);
    for (exchange, call) in parts {
        let issued = call.issued.map(|issued| &rank.trace.events[issued as usize]);
        let (track, enqueued) = match (issued, ready.get(&exchange)) {
            // The call that enqueues it may copy the data first. Where others are in the queue, the call ends before it begins.
            (Some(event), _) => (Some(event.track), event.end().min(call.time.0)),
            (None, Some((track, ready))) => (Some(*track), (*ready).min(call.time.0)),
            (None, None) => (active(into, rank.main, &backward, call.time.0), call.time.0),
        };
        let Some(launch) = track.and_then(|track| into.last_row_before(track, enqueued)) else { continue };
        let issuing = issued.and_then(|event| into.of_call(event)).unwrap_or((launch, launch));
        into.parts.insert(exchange, PartRows { launch, wait: None, begin: call.time.0, end: call.time.1, issuing });
    }
}

/// The threads that run backward operations.
fn backward_threads(rows: &RankStep, calls: &CallTable) -> Vec<TrackId> {
    let is_backward = |call| calls.path(call).any(|name| name.contains(BACKWARD));
    let runs = |range: &std::ops::Range<usize>| rows.rows[range.clone()].iter().any(|row| is_backward(row.call));
    rows.tracks.iter().filter(|(_, range)| runs(range)).map(|(track, _)| *track).collect()
}

/// The thread that enqueues an exchange whose call is not in the trace: of the main thread and those that run backward operations, the one on which an operation
/// began or ended last.
fn active(rows: &RankStep, main: Option<TrackId>, backward: &[TrackId], moment: i64) -> Option<TrackId> {
    let last = |track: &TrackId| rows.last_row_before(*track, moment).map(|row| rows.rows[row].end);
    let others = backward.iter().copied().filter(|track| Some(*track) != main && last(track).is_some());
    others.chain(main).max_by_key(last)
}

/// When the last gradient of each all-reduce is ready, and on which thread, where the all-reduces of a step whose calls are not in the trace are the sums of its
/// gradients: an exchange may wait in the library's queue after that.
fn behind_gradients(parts: &[(usize, &CollectiveCall)], rows: &RankStep) -> HashMap<usize, (TrackId, i64)> {
    let mut found = HashMap::new();
    let mut next = 0;
    for (number, call) in parts.iter().filter(|(_, call)| call.operation == CollectiveOperation::AllReduce) {
        let Some(end) = call.bytes().and_then(|bytes| end_of_sum(rows, next, bytes)) else { continue };
        let row = rows.gradients[end - 1].row;
        next = end;
        // What it waits for began before it.
        if let Some(track) = rows.track_of(row).filter(|track| begin_of_work(rows, *track, row) <= call.time.0) {
            found.insert(*number, (rows.tracks[track].0, rows.rows[row].end));
        }
    }
    if next == rows.gradients.len() { found } else { HashMap::new() }
}

/// The end of the consecutive gradients from `start` whose sizes add up to `bytes`.
fn end_of_sum(rows: &RankStep, start: usize, bytes: u64) -> Option<usize> {
    let sums = rows.gradients.get(start..)?.iter().scan(0u64, |sum, gradient| {
        *sum = sum.saturating_add(gradient.bytes);
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= bytes).position(|sum| sum == bytes).map(|place| start + place + 1)
}

/// When the work at the end of which a row is begins: behind the last time without any operation.
fn begin_of_work(rows: &RankStep, track: usize, row: usize) -> i64 {
    let own = rows.tracks[track].1.start..row;
    let gap = own.rev().find(|before| rows.rows[*before].kind == WorkKind::Gap);
    gap.map_or(rows.start, |gap| rows.rows[gap].end)
}
