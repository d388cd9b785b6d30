//! One iteration as rows of spans: category, operation, each thread and each stream.

use crate::breakdown::{Iteration, RankBreakdown};
use crate::categories::TimeCategory;
use crate::categories::recorded::RecordedKinds;
use crate::gpu::device::GpuWork;
use crate::operations::TrainingOperation;
use crate::threads::ThreadSpan;
use perf4sight_traces::intervals::{Interval, Timed, clipped, pieces};
use perf4sight_traces::{NameId, Trace, TrackId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    pub of: LaneKind,
    /// In order; those of one stream may overlap.
    pub spans: Vec<LaneSpan>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneKind {
    /// The category of the process, as in [`TimeSets`](crate::TimeSets).
    Process,
    /// Whether any stream is busy, as in [`TimeSets`](crate::TimeSets).
    Gpu,
    Operations,
    Thread(TrackId),
    Stream(TrackId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneSpan {
    /// The beginning and end on the trace's clock.
    pub time: Interval,
    pub what: LaneContent,
    /// The name of the span's event; none if there are several.
    pub name: Option<NameId>,
}

impl Timed for LaneSpan {
    fn interval(&self) -> Interval {
        self.time
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LaneContent {
    TimeCategory(TimeCategory),
    Busy,
    Operation(TrainingOperation),
    Work(GpuWork),
}

/// The rows of an iteration: category, GPU and operations, then the threads and the streams, the busiest first.
/// Neighbouring spans of a thread's row with the same category are merged.
pub fn lanes(trace: &Trace, rank: &RankBreakdown, iteration: &Iteration) -> Vec<Lane> {
    let window = iteration.window;
    let unrecorded = rank.recorded.category(rank.recorded.state_without_event());
    let thread_spans = |of: &[ThreadSpan]| thread_spans(trace, of, (rank.recorded, window));
    let gap = LaneSpan { time: window, what: LaneContent::TimeCategory(unrecorded), name: None };
    let categories = thread_spans(&rank.timeline);
    let categories = pieces(&categories, window).map(|(time, span)| LaneSpan { time, ..*span.unwrap_or(&gap) });
    let mut lanes = vec![Lane { of: LaneKind::Process, spans: categories.collect() }];
    if rank.device.is_recorded() {
        let busy = clipped(&rank.device.busy, window);
        let spans = busy.map(|(time, _)| LaneSpan { time, what: LaneContent::Busy, name: None }).collect();
        lanes.push(Lane { of: LaneKind::Gpu, spans });
    }
    let operation = |(time, of): (Interval, &(_, TrainingOperation))| LaneSpan {
        time,
        what: LaneContent::Operation(of.1),
        name: None,
    };
    lanes.push(Lane { of: LaneKind::Operations, spans: clipped(&rank.operations, window).map(operation).collect() });
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
fn thread_spans(trace: &Trace, thread: &[ThreadSpan], (recorded, window): (RecordedKinds, Interval)) -> Vec<LaneSpan> {
    let mut spans: Vec<LaneSpan> = Vec::new();
    for (time, span) in clipped(thread, window) {
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

fn streams(trace: &Trace, (begin, end): Interval) -> Vec<Lane> {
    let mut streams: BTreeMap<TrackId, Vec<LaneSpan>> = BTreeMap::new();
    let behind = trace.events.partition_point(|event| event.start < end);
    for event in trace.events[..behind].iter().filter(|event| event.category.on_device() && event.end() > begin) {
        let Some(work) = GpuWork::from_event(trace, event) else { continue };
        let time = (event.start.max(begin), event.end().min(end));
        let span = LaneSpan { time, what: LaneContent::Work(work), name: Some(event.name) };
        streams.entry(event.track).or_default().push(span);
    }
    streams.into_iter().map(|(track, spans)| Lane { of: LaneKind::Stream(track), spans }).collect()
}
