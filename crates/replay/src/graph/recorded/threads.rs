//! Rows of CPU threads: between each begin and end of an operation one row, of the innermost operation.

use super::rows::{GradientRow, RankStep, Row};
use crate::graph::{CallId, Calls, Kind};
use crate::ranks::{Rank, unnumbered};
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{Category, Event, Phase, Trace, TrackId};
use std::collections::{BTreeMap, BTreeSet};

/// The name of time that no event covers.
pub(super) const NO_EVENT: &str = "(no event)";
/// The operator of PyTorch that copies a gradient out of its bucket.
const COPY_OUT: &str = "copy_bucket_to_grad";
/// Part of the names of the operators of PyTorch that add a gradient up.
const ACCUMULATE: &str = "AccumulateGrad";

/// An operation that began and did not end yet.
struct Open {
    call: CallId,
    end: i64,
    /// Bytes of the gradient that is ready when it ends.
    gradient: Option<u64>,
}

/// Reads the rows of all threads that begin work in a step.
pub(super) fn read(rank: &Rank, window: Interval, calls: &mut Calls, into: &mut RankStep) {
    for (track, events) in threads(rank, window) {
        let first = into.rows.len();
        let mut thread = Thread { calls, into: &mut *into, open: Vec::new() };
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
fn threads(rank: &Rank, window: Interval) -> BTreeMap<TrackId, Vec<&Event>> {
    let trace = &rank.trace;
    let mut threads: BTreeMap<TrackId, Vec<&Event>> = BTreeMap::new();
    let first = trace.events.partition_point(|event| event.start < window.0);
    let last = trace.events.partition_point(|event| event.start < window.1);
    let exchanging: BTreeSet<TrackId> =
        trace.events[first..last].iter().filter(|event| trace.is_exchange(event)).map(|event| event.track).collect();
    for event in trace.events[first..last].iter().filter(|event| is_operation(rank, event)) {
        threads.entry(event.track).or_default().push(event);
    }
    let calls = |event: &&Event| event.category == Category::Operator && trace.collective(event).is_some();
    let is_own = |track: &TrackId, events: &[&Event]| rank.main == Some(*track) || events.iter().any(calls);
    threads.retain(|track, events| !exchanging.contains(track) || is_own(track, events));
    threads
}

fn is_operation(rank: &Rank, event: &Event) -> bool {
    let trace = &rank.trace;
    event.phase == Phase::Complete
        && match event.category {
            Category::Operator | Category::Runtime => true,
            Category::Annotation => !trace.is_exchange(event) && !rank.is_step(trace.name(event)),
            Category::Python
            | Category::Kernel
            | Category::Copy
            | Category::Set
            | Category::DeviceAnnotation
            | Category::Synchronisation
            | Category::Overhead
            | Category::ForwardBackward
            | Category::Launch
            | Category::Other => false,
        }
}

struct Thread<'a> {
    calls: &'a mut Calls,
    into: &'a mut RankStep,
    open: Vec<Open>,
}

impl Thread<'_> {
    fn begin(&mut self, trace: &Trace, event: &Event, window_end: i64) {
        self.close_until(event.start);
        self.row(event.start);
        let around = self.open.last().map(|open| open.call);
        let name = match event.category == Category::Annotation {
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
                self.open.push(Open { call, end, gradient: None });
            }
            _ => self.open.push(Open { call, end, gradient }),
        }
    }

    /// Ends all operations that end by a moment, the innermost first.
    fn close_until(&mut self, moment: i64) {
        while let Some(open) = self.open.pop_if(|open| open.end <= moment) {
            self.into.rows.push(Row { call: open.call, kind: Kind::Operation, end: open.end });
            if let Some(bytes) = open.gradient {
                self.into.gradients.push(GradientRow { row: self.into.rows.len() - 1, bytes, pass: 0 });
            }
        }
    }

    /// Adds a row of the innermost operation that ends at a moment.
    fn row(&mut self, end: i64) {
        let row = match self.open.last() {
            Some(open) => Row { call: open.call, kind: Kind::Operation, end },
            None => Row { call: self.calls.intern(NO_EVENT, None), kind: Kind::Gap, end },
        };
        self.into.rows.push(row);
    }
}
