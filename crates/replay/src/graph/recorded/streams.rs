//! Rows of the streams of accelerators: the delay until a kernel starts, and the kernel.

use super::rows::{PartRows, RankStep, RowEdge, WorkRow};
use super::stream_waits::{self, EnqueuedKernel};
use super::threads::NO_EVENT;
use crate::collectives::CollectiveCall;
use crate::graph::{CallTable, EdgeKind, WorkKind};
use crate::ranks::JobRank;
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{EventCategory, EventPhase, Trace, TraceEvent, TrackId};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Part of the names of calls that wait until streams have done their work.
const SYNCHRONIZE: &str = "Synchronize";
/// The name of the work of earlier steps.
const EARLIER_STEPS: &str = "(earlier steps)";
/// Nanoseconds that the launch of a kernel takes at most where there is room in the queue: CUDA takes 5 to 10 µs, more under a profiler.
const LAUNCH: i64 = 20_000;
/// Kernels that wait on a GPU at once, at most: 1,024 in a queue of CUDA, of which a GPU has several.
const PLACES: usize = 16 * 1024;
/// With fewer kernels in front of it, a launch does not wait for room in the queue.
const FULL: usize = 64;

/// Reads the kernels that a step launched, and what synchronises threads with them.
pub(super) fn read(
    rank: &JobRank,
    window: Interval,
    parts: &[(usize, &CollectiveCall)],
    calls: &mut CallTable,
    into: &mut RankStep,
) {
    let trace = &rank.trace;
    let launched = launches(trace, window);
    let exchanges: HashMap<u32, (usize, &CollectiveCall)> =
        parts.iter().map(|(exchange, call)| (call.event, (*exchange, *call))).collect();
    let threads = into.tracks.len();
    let (mut enqueued, mut copied) = (Vec::new(), Vec::new());
    for (stream, kernels) in streams(trace, window, &launched) {
        let first = into.rows.len();
        let backlog = kernels.first().and_then(|(index, _)| last_before(trace, stream, *index));
        let end = backlog.map_or(window.0, |last| last.end().max(window.0));
        into.rows.push(WorkRow { call: calls.intern(EARLIER_STEPS, None), kind: WorkKind::Backlog, end });
        for (index, kernel) in kernels {
            let launch =
                launched.get(&kernel.correlation).and_then(|event| into.last_row_before(event.track, event.start));
            let row = into.rows.len();
            into.edges.extend(launch.map(|awaited| RowEdge { awaited, waiting: row, kind: EdgeKind::Launch }));
            // What overlaps with the kernel before it, by rounding or as the next one of a graph, goes on after that.
            let begin = kernel.start.max(into.rows[row - 1].end);
            into.rows.push(WorkRow { call: calls.intern(NO_EVENT, None), kind: WorkKind::Gap, end: begin });
            let exchange = exchanges.get(&index);
            let kind = if exchange.is_some() { WorkKind::Wait } else { WorkKind::Kernel };
            let launching = launch.map(|launch| into.rows[launch]).filter(|row| row.kind == WorkKind::Operation);
            let call = calls.intern(trace.name(kernel), launching.map(|row| row.call));
            into.rows.push(WorkRow { call, kind, end: kernel.end().max(begin) });
            enqueued.push(EnqueuedKernel { stream, call: kernel.correlation, row });
            let call = launched.get(&kernel.correlation).filter(|call| is_copied_within(kernel, call));
            copied.extend(call.map(|call| (*call, row + 1)));
            if let Some((exchange, call)) = exchange {
                let issued = call.issued.map(|issued| &trace.events[issued as usize]);
                let issuing = issued.and_then(|event| into.of_call(event)).unwrap_or((row, row));
                let part =
                    PartRows { launch: row, wait: Some(row + 1), begin: kernel.start, end: kernel.end(), issuing };
                into.parts.insert(*exchange, part);
            }
        }
        into.tracks.push((stream, first..into.rows.len()));
    }
    held_launches(trace, window, &launched, into);
    stream_waits::read(trace, enqueued, &launched, into);
    synchronisations(trace, window, threads, into);
    for (call, copy) in copied {
        let waiting = into.ending(call.track, call.end());
        into.edges.extend(waiting.map(|waiting| RowEdge { awaited: copy, waiting, kind: EdgeKind::Synchronisation }));
    }
}

/// Whether a call went on until its copy was there: `cudaMemcpy`, and `cudaMemcpyAsync` from or to pageable memory, as of `loss.item()`.
fn is_copied_within(copy: &TraceEvent, call: &TraceEvent) -> bool {
    copy.category == EventCategory::Copy && call.start <= copy.start && copy.end() <= call.end()
}

/// Runtime calls of a step, by the correlation with what they launch.
fn launches(trace: &Trace, window: Interval) -> HashMap<u64, &TraceEvent> {
    let runtime = trace.events[begun_by(trace, window.0)..begun_by(trace, window.1)].iter();
    let runtime = runtime.filter(|event| event.category == EventCategory::Runtime && event.correlation != 0);
    runtime.map(|event| (event.correlation, event)).collect()
}

/// The index of the first event that begins at a moment or later.
fn begun_by(trace: &Trace, moment: i64) -> usize {
    trace.events.partition_point(|event| event.start < moment)
}

/// The kernels of each stream that a step launched, or that began in it if their launch is not known, in order.
fn streams<'a>(
    trace: &'a Trace,
    window: Interval,
    launched: &HashMap<u64, &TraceEvent>,
) -> BTreeMap<TrackId, Vec<(u32, &'a TraceEvent)>> {
    let mut streams: BTreeMap<TrackId, Vec<(u32, &TraceEvent)>> = BTreeMap::new();
    // What a step launched begins in it or later.
    let first = begun_by(trace, window.0);
    let end = if launched.is_empty() { begun_by(trace, window.1) } else { trace.events.len() };
    for (index, event) in (first..).zip(&trace.events[first..end]).filter(|(_, event)| is_work(event)) {
        let belongs = match event.correlation {
            0 => (window.0..window.1).contains(&event.start),
            correlation => launched.contains_key(&correlation),
        };
        if belongs {
            streams.entry(event.track).or_default().push((index as u32, event));
        }
    }
    streams
}

fn is_work(event: &TraceEvent) -> bool {
    matches!(event.category, EventCategory::Kernel | EventCategory::Copy | EventCategory::Set)
        && event.phase == EventPhase::Complete
}

/// The last work of a stream before an event.
fn last_before(trace: &Trace, stream: TrackId, event: u32) -> Option<&TraceEvent> {
    trace.events[..event as usize].iter().rev().find(|event| event.track == stream && is_work(event))
}

/// Launches that wait for room in the queue of their GPU: what they wait for is work of streams, which may be of earlier steps.
fn held_launches(trace: &Trace, window: Interval, launched: &HashMap<u64, &TraceEvent>, into: &mut RankStep) {
    let long: Vec<&TraceEvent> = launched.values().copied().filter(|launch| launch.duration > LAUNCH).collect();
    if long.is_empty() {
        return;
    }
    // What a full queue holds begins soon after the step.
    let events = &trace.events[begun_by(trace, window.0)..];
    let works = events.iter().enumerate().filter(|(_, event)| is_work(event)).map(|(index, _)| index);
    let events = &events[..works.take(launched.len() + PLACES).last().map_or(0, |last| last + 1)];
    let calls = events.iter().filter(|event| event.category == EventCategory::Runtime && event.correlation != 0);
    let calls: HashMap<u64, i64> = calls.map(|event| (event.correlation, event.start)).collect();
    let kernels = events.iter().filter(|event| is_work(event));
    // Kernels whose launch was not recorded were launched before what was.
    let mut queued: Vec<(i64, i64)> =
        kernels.map(|kernel| (calls.get(&kernel.correlation).copied().unwrap_or(i64::MIN), kernel.start)).collect();
    queued.sort_unstable();
    for launch in long {
        let before = &queued[..queued.partition_point(|(launched, _)| *launched < launch.start)];
        let waiting = before.iter().rev().take(2 * FULL).filter(|(_, start)| *start > launch.end()).count();
        if waiting < FULL {
            continue;
        }
        let row = into.ending(launch.track, launch.end());
        into.held.extend(row.map(|row| (row, launch.duration - LAUNCH)));
    }
}

/// Part of the names of calls that wait for an event.
const OF_EVENT: &str = "Event";
/// Parts of the names of calls that wait for all streams of a device.
const OF_DEVICE: [&str; 2] = ["Device", "Ctx"];

/// Threads that wait for streams: for all of a device, for the one whose work ended last while the call waited, or, where nothing was left to wait for, for the one on
/// which the thread launched last. A call that waits for part of the work of earlier steps waits as a launch does for room in the queue.
fn synchronisations(trace: &Trace, window: Interval, threads: usize, into: &mut RankStep) {
    for event in &trace.events[begun_by(trace, window.0)..begun_by(trace, window.1)] {
        let name = trace.name(event);
        if event.category != EventCategory::Runtime || !name.contains(SYNCHRONIZE) {
            continue;
        }
        let Some(waiting) = into.ending(event.track, event.end()) else { continue };
        let edge = |awaited| RowEdge { awaited, waiting, kind: EdgeKind::Synchronisation };
        let streams = &into.tracks[threads..];
        let done: Vec<usize> = streams.iter().filter_map(|(stream, _)| into.done_by(*stream, event.end())).collect();
        let last = done.iter().copied().max_by_key(|row| into.rows[*row].end);
        let last = last.filter(|row| into.rows[*row].end > event.start);
        let is_queued = |(_, rows): &(TrackId, Range<usize>)| into.rows[rows.start].end > event.end();
        if last.is_none() && event.duration > LAUNCH && streams.iter().any(is_queued) {
            into.held.push((waiting, event.duration - LAUNCH));
        } else if OF_DEVICE.iter().any(|all| name.contains(all)) {
            into.edges.extend(done.into_iter().map(edge));
        } else {
            // An event may have been recorded long before the last launch.
            let is_of_stream = !name.contains(OF_EVENT);
            let own = || into.done_by(into.launched_on(waiting).filter(|_| is_of_stream)?, event.end());
            let awaited = last.or_else(own);
            into.edges.extend(awaited.map(edge));
        }
    }
}
