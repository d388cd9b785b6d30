//! One iteration as rows of spans: who had the word, the operation, what each thread and each stream did.

use crate::breakdown::{Iteration, RankBreakdown};
use crate::device::{Work, clipped};
use crate::operations::Operation;
use crate::recorded::Recorded;
use crate::state::Class;
use crate::threads::Stretch;
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{NameId, Trace, TrackId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What it shows.
    pub of: RowOf,
    /// In order; those of one stream may overlap.
    pub spans: Vec<RowSpan>,
}

/// What a row shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOf {
    /// Who has the word, as in [`Sets`](crate::Sets).
    Word,
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
pub struct RowSpan {
    /// From when to when, on the trace's clock.
    pub time: Interval,
    /// What it shows.
    pub what: What,
    /// The event behind it; none where there are several.
    pub name: Option<NameId>,
}

/// What a span shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// Who has the word.
    Class(Class),
    /// Any stream works.
    Busy,
    /// What the script is at.
    Operation(Operation),
    /// What a stream works on.
    Work(Work),
}

/// The rows of an iteration: sets and operations, then the threads and the streams that do anything, those that do most first. Stretches
/// that follow each other and show the same are one span.
pub fn rows(trace: &Trace, rank: &RankBreakdown, iteration: &Iteration) -> Vec<Row> {
    let window = iteration.window;
    let unrecorded = rank.recorded.class(rank.recorded.unrecorded());
    let stretches = |of: &[Stretch]| stretches(trace, of, (rank.recorded, window));
    let word = filled(stretches(&rank.timeline), window, unrecorded);
    let mut rows = vec![Row { of: RowOf::Word, spans: word }];
    if rank.device.is_recorded() {
        let busy = clipped(&rank.device.busy, window).into_iter();
        let spans = busy.map(|time| RowSpan { time, what: What::Busy, name: None }).collect();
        rows.push(Row { of: RowOf::Gpu, spans });
    }
    rows.push(Row { of: RowOf::Operations, spans: operations(rank, window) });
    let threads =
        rank.threads.iter().map(|thread| Row { of: RowOf::Thread(thread.track), spans: stretches(&thread.stretches) });
    rows.extend(busiest_first(threads.collect()));
    rows.extend(busiest_first(streams(trace, window)));
    rows.retain(|row| !row.spans.is_empty());
    rows
}

fn length(row: &Row) -> i64 {
    row.spans.iter().map(|span| span.time.1 - span.time.0).sum()
}

fn busiest_first(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by_key(|row| Reverse(length(row)));
    rows
}

/// Stretches within a window; neighbours of one class are one.
fn stretches(trace: &Trace, stretches: &[Stretch], (recorded, (begin, end)): (Recorded, Interval)) -> Vec<RowSpan> {
    let mut spans: Vec<RowSpan> = Vec::new();
    let first = stretches.partition_point(|stretch| stretch.end <= begin);
    for stretch in stretches[first..].iter().take_while(|stretch| stretch.start < end) {
        let time = (stretch.start.max(begin), stretch.end.min(end));
        let what = What::Class(recorded.class(stretch.state));
        let name = Some(trace.events[stretch.event as usize].name);
        match spans.last_mut() {
            Some(last) if last.what == what && last.time.1 == time.0 => {
                last.time.1 = time.1;
                last.name = last.name.filter(|known| Some(*known) == name);
            }
            _ => spans.push(RowSpan { time, what, name }),
        }
    }
    spans
}

/// Spans with others between them where nothing is recorded.
fn filled(spans: Vec<RowSpan>, (begin, end): Interval, class: Class) -> Vec<RowSpan> {
    let gap = |time: Interval| RowSpan { time, what: What::Class(class), name: None };
    let mut filled: Vec<RowSpan> = Vec::with_capacity(spans.len());
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

fn operations(rank: &RankBreakdown, (begin, end): Interval) -> Vec<RowSpan> {
    let first = rank.operations.partition_point(|((_, stop), _)| *stop <= begin);
    let within = rank.operations[first..].iter().take_while(|((start, _), _)| *start < end);
    let span = |((start, stop), operation): &(Interval, Operation)| RowSpan {
        time: (*start.max(&begin), *stop.min(&end)),
        what: What::Operation(*operation),
        name: None,
    };
    within.map(span).collect()
}

fn streams(trace: &Trace, (begin, end): Interval) -> Vec<Row> {
    let mut streams: BTreeMap<TrackId, Vec<RowSpan>> = BTreeMap::new();
    let behind = trace.events.partition_point(|event| event.start < end);
    for event in trace.events[..behind].iter().filter(|event| event.category.on_device() && event.end() > begin) {
        let Some(work) = Work::of(trace, event) else { continue };
        let time = (event.start.max(begin), event.end().min(end));
        let span = RowSpan { time, what: What::Work(work), name: Some(event.name) };
        streams.entry(event.track).or_default().push(span);
    }
    streams.into_iter().map(|(track, spans)| Row { of: RowOf::Stream(track), spans }).collect()
}
