//! What a rank does at each moment, from what its GPU, its threads and its exchanges do.

use super::blocked::blocked_times;
use crate::collectives::CollectiveCall;
use crate::ranks::JobRank;
use perf4sight_traces::intervals::{Interval, pieces};
use perf4sight_traces::{EventCategory, EventPhase, Innermost, NameId, TraceEvent, TrackId};
use std::collections::BTreeMap;

/// What a rank does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActivityId {
    /// Its GPU computes.
    Kernel(NameId),
    /// It loads data.
    Loading(NameId),
    /// A thread is in an operator.
    Operation(NameId),
    /// It takes part in an exchange, whether that waits or transfers.
    Exchanging,
    /// Its main thread runs Python.
    Python(NameId),
    /// Its main thread is in a range that the script or the framework named, and in nothing else.
    Range(NameId),
}

/// Disjoint pieces in order.
pub(super) type ActivityPieces = Vec<(Interval, ActivityId)>;

/// What a rank does at each moment; moments without a piece are not recorded.
pub(super) fn find_pieces(rank: &JobRank, calls: &[CollectiveCall]) -> ActivityPieces {
    let mut exchanges: ActivityPieces = calls.iter().map(|call| (call.time, ActivityId::Exchanging)).collect();
    exchanges.sort_by_key(|(time, _)| *time);
    let kernels = kernels(rank);
    let waits = if kernels.is_empty() { blocked_times(rank, calls) } else { BTreeMap::new() };
    let operations = operations(rank, &waits);
    let [loading, script] = script(rank);
    // A GPU that exchanges data computes nothing, whatever the CPU enqueues; a CPU that does both computes.
    let layers = match kernels.is_empty() {
        true => [loading, operations, exchanges, script],
        false => [kernels, exchanges, overlay(loading, operations), script],
    };
    layers.into_iter().fold(Vec::new(), overlay)
}

/// The pieces of `upper`, and those of `lower` where `upper` has none. Pieces of one list that overlap are cut at the
/// end of the one before.
fn overlay(upper: ActivityPieces, lower: ActivityPieces) -> ActivityPieces {
    let mut all = ActivityPieces::with_capacity(upper.len() + lower.len());
    let mut above = upper.into_iter().peekable();
    let mut at = i64::MIN;
    for ((start, end), doing) in lower {
        let mut from = start.max(at);
        while let Some((over, what)) = above.next_if(|((begin, _), _)| *begin < end) {
            push(&mut all, (from, over.0), doing);
            push(&mut all, over, what);
            from = from.max(over.1);
        }
        push(&mut all, (from, end), doing);
        at = at.max(from).max(end);
    }
    above.for_each(|(over, what)| push(&mut all, over, what));
    all
}

/// Adds the part of a piece that is after the last one.
fn push(all: &mut ActivityPieces, (start, end): Interval, doing: ActivityId) {
    let start = all.last().map_or(start, |((_, last), _)| start.max(*last));
    if start < end {
        all.push(((start, end), doing));
    }
}

fn kernels(rank: &JobRank) -> ActivityPieces {
    let trace = &rank.trace;
    let works = |event: &&TraceEvent| event.category.on_device() && !trace.is_exchange(event) && event.duration > 0;
    let pieces = trace.events.iter().filter(works);
    pieces.map(|event| ((event.start, event.end()), ActivityId::Kernel(event.name))).collect()
}

/// The outermost operators of all threads in the order in which they begin, without the times in which they wait for exchanges.
fn operations(rank: &JobRank, waits: &BTreeMap<TrackId, Vec<Interval>>) -> ActivityPieces {
    let mut ends: BTreeMap<TrackId, i64> = BTreeMap::new();
    let is_outermost = |event: &&TraceEvent| {
        let end = ends.entry(event.track).or_insert(i64::MIN);
        let outermost = event.category == EventCategory::Operator && event.duration > 0 && event.start >= *end;
        *end = if outermost { event.end() } else { *end };
        outermost
    };
    let operators = rank.trace.events.iter().filter(is_outermost);
    let works = |event: &TraceEvent| {
        let waits = waits.get(&event.track).map(Vec::as_slice).unwrap_or_default();
        let works = pieces(waits, (event.start, event.end())).filter(|(_, wait)| wait.is_none());
        works.map(|(time, _)| (time, ActivityId::Operation(event.name))).collect::<ActivityPieces>()
    };
    let mut operators: ActivityPieces = operators.flat_map(works).collect();
    operators.sort_by_key(|((start, _), _)| *start);
    operators
}

/// Part of the names of ranges in which PyTorch's loader fetches a batch.
const LOADER: &str = "DataLoader";

/// The ranges in which the main thread loads data, and the innermost range or Python function of all others.
fn script(rank: &JobRank) -> [ActivityPieces; 2] {
    let trace = &rank.trace;
    let (mut loading, mut nest) = (ActivityPieces::new(), Innermost::default());
    let own = |event: &&TraceEvent| {
        Some(event.track) == rank.main && event.phase == EventPhase::Complete && event.duration > 0
    };
    for event in trace.events.iter().filter(own) {
        let (time, name) = ((event.start, event.end()), trace.name(event));
        match event.category {
            EventCategory::Annotation if name.contains(LOADER) => loading.push((time, ActivityId::Loading(event.name))),
            EventCategory::Annotation if rank.is_step(name) => {}
            EventCategory::Annotation => nest.begin(time, ActivityId::Range(event.name)),
            EventCategory::Python => nest.begin(time, ActivityId::Python(event.name)),
            EventCategory::Operator
            | EventCategory::Runtime
            | EventCategory::Kernel
            | EventCategory::Copy
            | EventCategory::Set
            | EventCategory::DeviceAnnotation
            | EventCategory::Synchronisation
            | EventCategory::Overhead
            | EventCategory::ForwardBackward
            | EventCategory::Launch
            | EventCategory::Other => {}
        }
    }
    [loading, nest.finish().0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_pieces_fill_the_gaps_of_upper_ones() {
        let [a, b] =
            [ActivityId::Exchanging, ActivityId::Operation(perf4sight_traces::NameTable::default().intern("b"))];
        let upper = vec![((2, 4), a), ((6, 7), a), ((20, 21), a)];
        let lower = vec![((0, 3), b), ((3, 10), b), ((12, 13), b)];
        let expected = [((0, 2), b), ((2, 4), a), ((4, 6), b), ((6, 7), a), ((7, 10), b), ((12, 13), b), ((20, 21), a)];
        assert_eq!(overlay(upper, lower), expected);
    }
}
