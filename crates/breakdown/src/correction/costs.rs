//! Where recording spent its time: around the recorded events.

use crate::breakdown::{Iteration, RankBreakdown};
use crate::categories::TimeCategory;
use crate::operations::TrainingOperation;
use perf4sight_traces::intervals::Timed;
use perf4sight_traces::{EventCategory, EventPhase, Trace, TraceEvent};
use std::collections::BTreeMap;

/// Costs of recording while the GPU is idle, by operation and category.
pub(crate) type RecordingCosts = BTreeMap<TrainingOperation, [f64; TimeCategory::ALL.len()]>;

/// The cost of an event within its own duration, in microseconds: two reads of the clock, as long as the shortest
/// recorded operators and calls (`docs/accuracy/recording.md`).
const WITHIN: f64 = 0.02;

/// The cost of one event in microseconds, measured with five programs on one machine (`docs/accuracy/recording.md`). Except for
/// [`WITHIN`], it falls before the event's beginning and after its end. Only the proportions count, because the sum is
/// scaled to the measured overhead. Runtime calls and ranges are assumed to cost as much as operators.
fn cost(trace: &Trace, event: &TraceEvent) -> Option<f64> {
    let python = if trace.name(event).starts_with('<') { 0.09 } else { 0.24 };
    let costs = [
        (EventCategory::Python, python),
        (EventCategory::Operator, 0.4),
        (EventCategory::Runtime, 0.4),
        (EventCategory::Annotation, 0.4),
    ];
    costs.into_iter().find(|(category, _)| *category == event.category).map(|(_, cost)| cost)
}

/// The parts of an event's cost at the moments around its beginning and its end.
fn moments(event: &TraceEvent, cost: f64) -> [(i64, f64); 4] {
    let (within, around) = (WITHIN / 2.0, (cost - WITHIN) / 2.0);
    let (begin, end) = (event.start, event.end());
    [(begin.saturating_sub(1), around), (begin, within), (end.saturating_sub(1), within), (end, around)]
}

pub(crate) fn costs(rank: &RankBreakdown, trace: &Trace) -> Vec<RecordingCosts> {
    let seen = trace.events.iter().filter(|event| event.phase == EventPhase::Complete && is_seen(rank, trace, event));
    let costly = seen.filter_map(|event| Some(moments(event, cost(trace, event)?)));
    let mut moments: Vec<(i64, f64)> = costly.flatten().collect();
    moments.sort_by_key(|(moment, _)| *moment);
    let (mut timeline, mut operations) = (SpanCursor(&rank.timeline), SpanCursor(&rank.operations));
    let mut busy = SpanCursor(&rank.device.busy);
    let mut costs_of = |iteration: &Iteration| {
        let (begin, end) = iteration.window;
        let first = moments.partition_point(|(moment, _)| *moment < begin);
        let recorded = iteration.sets.recorded;
        let mut costs = RecordingCosts::new();
        for &(moment, cost) in moments[first..].iter().take_while(|(moment, _)| *moment < end) {
            if busy.span_at(moment).is_none() {
                let operation =
                    operations.span_at(moment).map_or(TrainingOperation::Other, |(_, operation)| *operation);
                let state = timeline.span_at(moment).map_or(recorded.state_without_event(), |span| span.state);
                costs.entry(operation).or_default()[recorded.category(state).index()] += cost;
            }
        }
        costs
    };
    rank.iterations.iter().map(&mut costs_of).collect()
}

/// Whether recording an event made the iteration longer: the event is on the main thread, or on a thread that counts
/// instead of it.
fn is_seen(rank: &RankBreakdown, trace: &Trace, event: &TraceEvent) -> bool {
    let stands_in = || {
        let shown = rank.timeline.partition_point(|span| span.end <= event.start);
        let shown = rank.timeline.get(shown).filter(|span| span.start <= event.start);
        shown.is_some_and(|shown| trace.events[shown.event as usize].track == event.track)
    };
    Some(event.track) == rank.main || stands_in()
}

/// A cursor over ordered spans that do not overlap, for ascending moments.
struct SpanCursor<'a, T>(&'a [T]);

impl<'a, T: Timed> SpanCursor<'a, T> {
    fn span_at(&mut self, moment: i64) -> Option<&'a T> {
        let over = self.0.iter().take_while(|span| span.interval().1 <= moment).count();
        self.0 = &self.0[over..];
        self.0.first().filter(|span| span.interval().0 <= moment)
    }
}
