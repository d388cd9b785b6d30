//! Rows of CPU threads: between each begin and end of an operation one row, of the innermost operation.

use super::rows::{GradientRow, RankStep, WorkRow};
use crate::graph::{CallId, CallTable, WorkKind};
use crate::ranks::{JobRank, unnumbered};
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{EventCategory, EventPhase, Trace, TraceEvent, TrackId};
use std::collections::{BTreeMap, BTreeSet};

/// The name of time that no event covers.
pub(super) const NO_EVENT: &str = "(no event)";
/// The operator of PyTorch that copies a gradient out of its bucket.
const COPY_OUT: &str = "copy_bucket_to_grad";
/// Part of the names of the operators of PyTorch that add a gradient up.
const ACCUMULATE: &str = "AccumulateGrad";

/// An operation that began and did not end yet.
struct OpenOperation {
    call: CallId,
    end: i64,
    /// Bytes of the gradient that is ready when it ends.
    gradient: Option<u64>,
}

/// Reads the rows of all threads that begin work in a step.
pub(super) fn read(rank: &JobRank, window: Interval, calls: &mut CallTable, into: &mut RankStep) {
    for (track, events) in threads(rank, window) {
        let first = into.rows.len();
        let mut thread = ThreadReader { calls, into: &mut *into, open: Vec::new() };
        events.iter().for_each(|event| thread.begin(&rank.trace, event, window.1));
        thread.close_until(i64::MAX);
        if rank.main == Some(track) {
            thread.row(window.1);
        }
        into.tracks.push((track, first..into.rows.len()));
    }
}

/// The operations of each thread that begin in a window. Threads of a library that exchanges data are left out: which of
/// them takes an exchange differs from step to step, and what they do is part of the exchange. Sends and receives of gloo are
/// on the thread that calls them.
fn threads(rank: &JobRank, window: Interval) -> BTreeMap<TrackId, Vec<&TraceEvent>> {
    let trace = &rank.trace;
    let mut threads: BTreeMap<TrackId, Vec<&TraceEvent>> = BTreeMap::new();
    let first = trace.events.partition_point(|event| event.start < window.0);
    let last = trace.events.partition_point(|event| event.start < window.1);
    let exchanging: BTreeSet<TrackId> =
        trace.events[first..last].iter().filter(|event| trace.is_exchange(event)).map(|event| event.track).collect();
    for event in trace.events[first..last].iter().filter(|event| is_operation(rank, event)) {
        threads.entry(event.track).or_default().push(event);
    }
    let calls = |event: &&TraceEvent| event.category == EventCategory::Operator && trace.collective(event).is_some();
    let is_own = |track: &TrackId, events: &[&TraceEvent]| rank.main == Some(*track) || events.iter().any(calls);
    threads.retain(|track, events| !exchanging.contains(track) || is_own(track, events));
    threads
}

fn is_operation(rank: &JobRank, event: &TraceEvent) -> bool {
    let trace = &rank.trace;
    event.phase == EventPhase::Complete
        && match event.category {
            EventCategory::Operator | EventCategory::Runtime => true,
            EventCategory::Annotation => !trace.is_exchange(event) && !rank.is_step(trace.name(event)),
            EventCategory::Python
            | EventCategory::Kernel
            | EventCategory::Copy
            | EventCategory::Set
            | EventCategory::DeviceAnnotation
            | EventCategory::Synchronisation
            | EventCategory::Overhead
            | EventCategory::ForwardBackward
            | EventCategory::Launch
            | EventCategory::Other => false,
        }
}

struct ThreadReader<'a> {
    calls: &'a mut CallTable,
    into: &'a mut RankStep,
    open: Vec<OpenOperation>,
}

impl ThreadReader<'_> {
    fn begin(&mut self, trace: &Trace, event: &TraceEvent, window_end: i64) {
        self.close_until(event.start);
        self.row(event.start);
        let around = self.open.last().map(|open| open.call);
        let name = match event.category == EventCategory::Annotation {
            true => unnumbered(trace.name(event)),
            false => trace.name(event),
        };
        let call = self.calls.intern(name, around);
        // An operation that ends after the one around it is cut off there.
        let end = self.open.last().map_or(window_end, |open| open.end).min(event.end());
        if name.ends_with(COPY_OUT) {
            self.into.copies.push(self.into.rows.len() - 1);
        }
        let gradient = trace.gradient_bytes(event);
        // The hook that copies the gradient into its bucket runs after the operation, inside the one around it.
        match self.open.last_mut().filter(|open| self.calls.name(open.call).ends_with(ACCUMULATE)) {
            Some(around) if gradient.is_some() => {
                around.gradient = gradient;
                self.open.push(OpenOperation { call, end, gradient: None });
            }
            _ => self.open.push(OpenOperation { call, end, gradient }),
        }
    }

    /// Ends all operations that end by a moment, the innermost first.
    fn close_until(&mut self, moment: i64) {
        while let Some(open) = self.open.pop_if(|open| open.end <= moment) {
            self.into.rows.push(WorkRow { call: open.call, kind: WorkKind::Operation, end: open.end });
            if let Some(bytes) = open.gradient {
                self.into.gradients.push(GradientRow { row: self.into.rows.len() - 1, bytes, pass: 0 });
            }
        }
    }

    /// Adds a row of the innermost operation that ends at a moment.
    fn row(&mut self, end: i64) {
        let row = match self.open.last() {
            Some(open) => WorkRow { call: open.call, kind: WorkKind::Operation, end },
            None => WorkRow { call: self.calls.intern(NO_EVENT, None), kind: WorkKind::Gap, end },
        };
        self.into.rows.push(row);
    }
}
