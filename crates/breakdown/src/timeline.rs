//! One iteration as rows of spans: the category, the operation, what each thread and each stream did.

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
    /// What it shows.
    pub of: LaneKind,
    /// In order; those of one stream may overlap.
    pub spans: Vec<LaneSpan>,
}

/// What a row shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneKind {
    /// The category of the process, as in [`Sets`](crate::Sets).
    Process,
    /// Whether any stream works, as in [`Sets`](crate::Sets).
    Gpu,
    /// What the script is at.
    Operations,
    /// What a thread does.
    Thread(TrackId),
    /// What a stream works on.
    Stream(TrackId),
}

/// A time during which a row shows one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneSpan {
    /// From when to when, on the trace's clock.
    pub time: Interval,
    /// What it shows.
    pub what: LaneContent,
    /// The event behind it; none where there are several.
    pub name: Option<NameId>,
}

/// What a span shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LaneContent {
    /// The category.
    TimeCategory(TimeCategory),
    /// Any stream works.
    Busy,
    /// What the script is at.
    Operation(Operation),
    /// What a stream works on.
    Work(Work),
}

/// The rows of an iteration: sets and operations, then the threads and the streams that do anything, those that do most first. Spans
/// that follow each other and show the same are one span.
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

/// Spans within a window; neighbours of one category are one.
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

/// Spans with others between them where nothing is recorded.
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
