//! What streams wait for: other streams, as recorded, by the code of PyTorch, or by all appearances.

use super::rows::{RankStep, RowEdge};
use super::waits;
use crate::graph::{EdgeKind, WorkKind};
use perf4sight_traces::{EventCategory, StreamWait, Trace, TraceEvent, TrackId};
use std::collections::{BTreeMap, HashMap};

/// Part of the names of calls that make a stream wait for an event (`cudaStreamWaitEvent`, `hipStreamWaitEvent`).
const WAIT: &str = "StreamWaitEvent";

/// A kernel by the call that enqueued it. Their numbers grow in the order of the calls.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EnqueuedKernel {
    pub stream: TrackId,
    pub call: u64,
    /// The row before it.
    pub row: usize,
}

#[derive(Clone, Copy)]
struct LaunchedKernel {
    at: i64,
    thread: TrackId,
    stream: TrackId,
    /// The row before it.
    row: usize,
}

/// Reads what the kernels of a step wait for on other streams, by the runtime calls of the step.
pub(super) fn read(
    trace: &Trace,
    mut enqueued: Vec<EnqueuedKernel>,
    calls: &HashMap<u64, &TraceEvent>,
    into: &mut RankStep,
) {
    enqueued.sort_unstable();
    let launch = |kernel: &EnqueuedKernel| {
        let launch = calls.get(&kernel.call)?;
        Some(LaunchedKernel { at: launch.start, thread: launch.track, stream: kernel.stream, row: kernel.row })
    };
    let mut launches: Vec<LaunchedKernel> = enqueued.iter().filter_map(launch).collect();
    launches.sort_unstable_by_key(|launch| launch.at);
    let found = match trace.stream_waits.is_empty() {
        true => [waits_of_exchanges(&launches, into), assumed_waits(trace, calls, &launches, into)].concat(),
        false => recorded_waits(trace, &enqueued, calls, into),
    };
    into.edges.extend(found);
}

/// Streams that wait for an event: the row before the next kernel for the last kernel before the event was recorded, or the
/// work of earlier steps.
fn recorded_waits(
    trace: &Trace,
    enqueued: &[EnqueuedKernel],
    calls: &HashMap<u64, &TraceEvent>,
    step: &RankStep,
) -> Vec<RowEdge> {
    // The place of the first kernel of a stream that a later call enqueued.
    let place = |stream: TrackId, call: u64| enqueued.partition_point(|own| (own.stream, own.call) < (stream, call));
    let on = |stream: TrackId, place: usize| enqueued.get(place).filter(|own| own.stream == stream).map(|own| own.row);
    let in_step = trace.stream_waits.iter().filter(|wait| calls.contains_key(&wait.correlation));
    let edge = |wait: &StreamWait| {
        let source = recorded_on(trace, wait)?;
        let waiting = on(wait.track, place(wait.track, wait.correlation))?;
        let before = place(source, wait.recorded).checked_sub(1);
        let last = before.and_then(|place| on(source, place)).map(|row| row + 1);
        let awaited = last.or_else(|| step.first_of(source))?;
        Some(RowEdge { awaited, waiting, kind: EdgeKind::Synchronisation })
    };
    in_step.filter_map(edge).collect()
}

/// The stream of the same device that an event was recorded on.
fn recorded_on(trace: &Trace, wait: &StreamWait) -> Option<TrackId> {
    let device = &trace.tracks[wait.track.index()].process;
    let stream = wait.stream.to_string();
    trace.track_ids().find(|id| {
        let track = &trace.tracks[id.index()];
        track.process == *device && track.thread == stream
    })
}

/// Exchanges, which wait for what was launched last on the stream in whose place their thread called them (`syncStream` in
/// torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp): the row before each for that kernel, or for the work of earlier steps. A wait behind an earlier
/// exchange does not show in times, so that it is taken from the code. If the kernel had not ended when the exchange began, the exchange is none
/// of PyTorch's, or waits for another stream.
fn waits_of_exchanges(launches: &[LaunchedKernel], step: &RankStep) -> Vec<RowEdge> {
    let (exchanges, kernels): (Vec<LaunchedKernel>, Vec<LaunchedKernel>) =
        launches.iter().partition(|launch| step.rows[launch.row + 1].kind == WorkKind::Wait);
    let awaited = |exchange: &LaunchedKernel| {
        let earlier = &kernels[..kernels.partition_point(|kernel| kernel.at < exchange.at)];
        let of_thread = |kernel: &&LaunchedKernel| kernel.thread == exchange.thread && kernel.stream != exchange.stream;
        let before = earlier.iter().rev().find(of_thread);
        // A thread that launched nothing before works on the stream that it launches on next.
        let stream = before.or_else(|| kernels.iter().find(of_thread))?.stream;
        let last = before.or_else(|| earlier.iter().rev().find(|kernel| kernel.stream == stream));
        last.map(|kernel| kernel.row + 1).or_else(|| step.first_of(stream))
    };
    let edge = |exchange: &LaunchedKernel| {
        let (awaited, waiting) = (awaited(exchange)?, exchange.row);
        let had_ended = waits::always_ends_before(&[step], awaited, waiting);
        had_ended.then_some(RowEdge { awaited, waiting, kind: EdgeKind::Synchronisation })
    };
    exchanges.iter().filter_map(edge).collect()
}

/// Streams that wait for an event where the trace does not say which (profilers do only with `enable_cuda_sync_events`): the row before a
/// kernel for another stream's. The stream that the thread launches on after the call is taken to wait for the other one on which something was launched
/// last, as with `wait_stream` around work on a second stream, or with `wait` of an exchange.
fn assumed_waits(
    trace: &Trace,
    calls: &HashMap<u64, &TraceEvent>,
    launches: &[LaunchedKernel],
    step: &RankStep,
) -> Vec<RowEdge> {
    let is_wait = |call: &&&TraceEvent| call.category == EventCategory::Runtime && trace.name(call).contains(WAIT);
    let mut waits: Vec<&TraceEvent> = calls.values().filter(is_wait).copied().collect();
    waits.sort_unstable_by_key(|call| call.start);
    let mut last: BTreeMap<TrackId, LaunchedKernel> = BTreeMap::new();
    let (mut done, mut found) = (0, Vec::new());
    for wait in waits {
        let next = done + launches[done..].partition_point(|launch| launch.at < wait.start);
        last.extend(launches[done..next].iter().map(|launch| (launch.stream, *launch)));
        done = next;
        let later = &launches[next..];
        let Some(own) = later.iter().find(|launch| launch.thread == wait.track).or(later.first()) else { break };
        let others = last.values().filter(|before| before.stream != own.stream);
        let source = others.max_by_key(|before| before.at);
        let waiting = later.iter().find(|launch| launch.stream == own.stream);
        let waiting = waiting.filter(|launch| step.rows[launch.row + 1].kind != WorkKind::Wait);
        let edge = |(waiting, source): (&LaunchedKernel, &LaunchedKernel)| RowEdge {
            awaited: source.row + 1,
            waiting: waiting.row,
            kind: EdgeKind::AssumedWait,
        };
        found.extend(waiting.zip(source).map(edge));
    }
    found.sort_unstable();
    found.dedup();
    found
}
