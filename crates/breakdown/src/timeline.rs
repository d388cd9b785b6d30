//! One iteration as rows of spans: category, operation, each thread and each stream.

use crate::breakdown::{Iteration, RankBreakdown};
use crate::categories::category::TimeCategory;
use crate::categories::recorded::Recorded;
use crate::gpu::device::{Work, clipped};
use crate::operations::Operation;
use crate::threads::Span;
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{NameId, Trace, TrackId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// The subject of the row.
    pub of: LaneKind,
    /// In order; those of one stream may overlap.
    pub spans: Vec<LaneSpan>,
}

/// The subject of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneKind {
    /// The category of the process, as in [`Sets`](crate::Sets).
    Process,
    /// Whether any stream is busy, as in [`Sets`](crate::Sets).
    Gpu,
    /// The operation of the script.
    Operations,
    /// The categories of a thread.
    Thread(TrackId),
    /// The work of a stream.
    Stream(TrackId),
}

/// A time span of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneSpan {
    /// The beginning and end on the trace's clock.
    pub time: Interval,
    /// The content of the span.
    pub what: LaneContent,
    /// The name of the span's event; none if there are several.
    pub name: Option<NameId>,
}

/// The content of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LaneContent {
    /// The category.
    TimeCategory(TimeCategory),
    /// Any stream is busy.
    Busy,
    /// The operation of the script.
    Operation(Operation),
    /// The work of a stream.
    Work(Work),
}

/// The rows of an iteration: category, GPU and operations, then the threads and the streams, the busiest first.
/// Neighbouring spans of a thread's row with the same category are merged.
pub fn lanes(trace: &Trace, rank: &RankBreakdown, iteration: &Iteration) -> Vec<Lane> {
    let window = iteration.window;
    let unrecorded = rank.recorded.category(rank.recorded.unrecorded());
    let thread_spans = |of: &[Span]| thread_spans(trace, of, (rank.recorded, window));
    let word = filled(thread_spans(&rank.timeline), window, unrecorded);
    let mut lanes = vec![Lane { of: LaneKind::Process, spans: word }];
    if rank.device.is_recorded() {
        let busy = clipped(&rank.device.busy, window).into_iter();
        let spans = busy.map(|time| LaneSpan { time, what: LaneContent::Busy, name: None }).collect();
        lanes.push(Lane { of: LaneKind::Gpu, spans });
    }
    lanes.push(Lane { of: LaneKind::Operations, spans: operations(rank, window) });
    let threads = rank
        .threads
        .iter()
        .map(|thread| Lane { of: LaneKind::Thread(thread.track), spans: thread_spans(&thread.spans) });
    lanes.extend(busiest_first(threads.collect()));
    lanes.extend(busiest_first(streams(trace, window)));
    lanes.retain(|lane| !lane.spans.is_empty());
    lanes
}

fn length(lane: &Lane) -> i64 {
    lane.spans.iter().map(|span| span.time.1 - span.time.0).sum()
}

fn busiest_first(mut lanes: Vec<Lane>) -> Vec<Lane> {
    lanes.sort_by_key(|lane| Reverse(length(lane)));
    lanes
}

/// The spans within a window; neighbours of one category are merged.
fn thread_spans(trace: &Trace, thread: &[Span], (recorded, (begin, end)): (Recorded, Interval)) -> Vec<LaneSpan> {
    let mut spans: Vec<LaneSpan> = Vec::new();
    let first = thread.partition_point(|span| span.end <= begin);
    for span in thread[first..].iter().take_while(|span| span.start < end) {
        let time = (span.start.max(begin), span.end.min(end));
        let what = LaneContent::TimeCategory(recorded.category(span.state));
        let name = Some(trace.events[span.event as usize].name);
        match spans.last_mut() {
            Some(last) if last.what == what && last.time.1 == time.0 => {
                last.time.1 = time.1;
                last.name = last.name.filter(|known| Some(*known) == name);
            }
            _ => spans.push(LaneSpan { time, what, name }),
        }
    }
    spans
}

/// Fills the gaps between spans with a category.
fn filled(spans: Vec<LaneSpan>, (begin, end): Interval, category: TimeCategory) -> Vec<LaneSpan> {
    let gap = |time: Interval| LaneSpan { time, what: LaneContent::TimeCategory(category), name: None };
    let mut filled: Vec<LaneSpan> = Vec::with_capacity(spans.len());
    let mut at = begin;
    for span in spans {
        if at < span.time.0 {
            filled.push(gap((at, span.time.0)));
        }
        at = span.time.1;
        filled.push(span);
    }
    if at < end {
        filled.push(gap((at, end)));
    }
    filled
}

fn operations(rank: &RankBreakdown, (begin, end): Interval) -> Vec<LaneSpan> {
    let first = rank.operations.partition_point(|((_, stop), _)| *stop <= begin);
    let within = rank.operations[first..].iter().take_while(|((start, _), _)| *start < end);
    let span = |((start, stop), operation): &(Interval, Operation)| LaneSpan {
        time: (*start.max(&begin), *stop.min(&end)),
        what: LaneContent::Operation(*operation),
        name: None,
    };
    within.map(span).collect()
}

fn streams(trace: &Trace, (begin, end): Interval) -> Vec<Lane> {
    let mut streams: BTreeMap<TrackId, Vec<LaneSpan>> = BTreeMap::new();
    let behind = trace.events.partition_point(|event| event.start < end);
    for event in trace.events[..behind].iter().filter(|event| event.category.on_device() && event.end() > begin) {
        let Some(work) = Work::of(trace, event) else { continue };
        let time = (event.start.max(begin), event.end().min(end));
        let span = LaneSpan { time, what: LaneContent::Work(work), name: Some(event.name) };
        streams.entry(event.track).or_default().push(span);
    }
    streams.into_iter().map(|(track, spans)| Lane { of: LaneKind::Stream(track), spans }).collect()
}
