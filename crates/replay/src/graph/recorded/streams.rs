//! Rows of the streams of accelerators: the delay until a kernel starts, and the kernel.

use super::rows::{PartRows, RankStep, Row};
use super::threads::NO_EVENT;
use super::waits;
use crate::collectives::Call;
use crate::graph::{Calls, Kind};
use crate::ranks::Rank;
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{Category, Event, Phase, StreamWait, Trace, TrackId};
use std::cmp::Reverse;
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
pub(super) fn read(rank: &Rank, window: Interval, parts: &[(usize, &Call)], calls: &mut Calls, into: &mut RankStep) {
    let trace = &rank.trace;
    let launched = launches(trace, window);
    let exchanges: HashMap<u32, (usize, &Call)> =
        parts.iter().map(|(exchange, call)| (call.event, (*exchange, *call))).collect();
    let threads = into.tracks.len();
    let (mut enqueued, mut copied) = (Enqueued::default(), Vec::new());
    for (stream, kernels) in streams(trace, window, &launched) {
        let first = into.rows.len();
        let backlog = kernels.first().and_then(|(index, _)| last_before(trace, stream, *index));
        let end = backlog.map_or(window.0, |last| last.end().max(window.0));
        into.rows.push(Row { call: calls.intern(EARLIER_STEPS, None), kind: Kind::Backlog, end });
        for (index, kernel) in kernels {
            let launch = launched.get(&kernel.correlation).and_then(|event| into.before(event.track, event.start));
            let row = into.rows.len();
            into.launches.extend(launch.map(|launch| (row, launch)));
            // What overlaps with the kernel before it, by rounding or as the next one of a graph, goes on after that.
            let begin = kernel.start.max(into.rows[row - 1].end);
            into.rows.push(Row { call: calls.intern(NO_EVENT, None), kind: Kind::Gap, end: begin });
            let exchange = exchanges.get(&index);
            let kind = if exchange.is_some() { Kind::Wait } else { Kind::Kernel };
            let launching = launch.map(|launch| into.rows[launch]).filter(|row| row.kind == Kind::Operation);
            let call = calls.intern(trace.name(kernel), launching.map(|row| row.call));
            into.rows.push(Row { call, kind, end: kernel.end().max(begin) });
            enqueued.0.push((stream, kernel.correlation, row));
            let call = launched.get(&kernel.correlation).filter(|call| is_copied_within(kernel, call));
            copied.extend(call.map(|call| (*call, row + 1)));
            if let Some((exchange, call)) = exchange {
                let issued = call.issued.map(|issued| &trace.events[issued as usize]);
                let issuing = issued.and_then(|event| into.of_call(event)).unwrap_or((row, row));
                let part = PartRows { launch: row, wait: Some(row + 1), end: kernel.end(), issuing };
                into.parts.insert(*exchange, part);
            }
        }
        into.tracks.push((stream, first..into.rows.len()));
    }
    held(trace, window, &launched, into);
    into.synchronisations = exchanges_wait(&enqueued, &launched, into);
    into.synchronisations.extend(enqueued.waits(trace, &launched, into));
    synchronisations(trace, window, threads, into);
    for (call, copy) in copied {
        let waiting = into.ending(call.track, call.end());
        into.synchronisations.extend(waiting.map(|waiting| (waiting, copy)));
    }
}

/// Whether a call went on until its copy was there: `cudaMemcpy`, and `cudaMemcpyAsync` from or to pageable memory, as of `loss.item()`.
fn is_copied_within(copy: &Event, call: &Event) -> bool {
    copy.category == Category::Copy && call.start <= copy.start && copy.end() <= call.end()
}

/// The kernels of a step by stream and by the call that enqueued them, whose numbers grow in the order of the calls; each
/// with the row before it.
#[derive(Default)]
struct Enqueued(Vec<(TrackId, u64, usize)>);

impl Enqueued {
    /// Streams that wait for an event: the row before the next kernel, and the last kernel before the event was recorded, or the
    /// work of earlier steps.
    fn waits(mut self, trace: &Trace, launched: &HashMap<u64, &Event>, step: &RankStep) -> Vec<(usize, usize)> {
        self.0.sort_unstable();
        let in_step = trace.stream_waits.iter().filter(|wait| launched.contains_key(&wait.correlation));
        let pair = |wait: &StreamWait| {
            let source = recorded_on(trace, wait)?;
            let next = self.on(wait.track, self.place(wait.track, wait.correlation))?;
            let before = self.place(source, wait.recorded).checked_sub(1);
            let last = before.and_then(|place| self.on(source, place)).map(|row| row + 1);
            Some((next, last.or_else(|| step.first_of(source))?))
        };
        in_step.filter_map(pair).collect()
    }

    /// The row before the kernel at a place, if that is on a stream.
    fn on(&self, stream: TrackId, place: usize) -> Option<usize> {
        self.0.get(place).filter(|(own, _, _)| *own == stream).map(|(_, _, row)| *row)
    }

    /// The place of the first kernel of a stream that a later call enqueued.
    fn place(&self, stream: TrackId, call: u64) -> usize {
        self.0.partition_point(|(own, correlation, _)| (*own, *correlation) < (stream, call))
    }
}

/// A kernel by its launch.
#[derive(Clone, Copy)]
struct Launched {
    at: i64,
    thread: TrackId,
    stream: TrackId,
    /// The row before it.
    row: usize,
}

/// Exchanges, which wait for what was launched last on the stream in whose place their thread called them (`syncStream` in
/// torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp): the row before each, and that kernel, or the work of earlier steps. Behind an earlier
/// exchange that does not show in times. Where it had not ended the exchange is not one of PyTorch's, or of another stream.
fn exchanges_wait(enqueued: &Enqueued, launched: &HashMap<u64, &Event>, step: &RankStep) -> Vec<(usize, usize)> {
    let launch = |(stream, correlation, row): &(TrackId, u64, usize)| {
        let launch = launched.get(correlation)?;
        Some(Launched { at: launch.start, thread: launch.track, stream: *stream, row: *row })
    };
    let mut launches: Vec<Launched> = enqueued.0.iter().filter_map(launch).collect();
    launches.sort_unstable_by_key(|launch| launch.at);
    let (exchanges, kernels): (Vec<Launched>, Vec<Launched>) =
        launches.into_iter().partition(|launch| step.rows[launch.row + 1].kind == Kind::Wait);
    let awaited = |exchange: &Launched| {
        let earlier = &kernels[..kernels.partition_point(|kernel| kernel.at < exchange.at)];
        let of_thread = |kernel: &&Launched| kernel.thread == exchange.thread && kernel.stream != exchange.stream;
        let before = earlier.iter().rev().find(of_thread);
        // A thread that launched nothing before works on the stream that it launches on next.
        let stream = before.or_else(|| kernels.iter().find(of_thread))?.stream;
        let last = before.or_else(|| earlier.iter().rev().find(|kernel| kernel.stream == stream));
        last.map(|kernel| kernel.row + 1).or_else(|| step.first_of(stream))
    };
    let had_ended = |exchange: &Launched| {
        awaited(exchange).filter(|row| waits::holds(&[step], *row, exchange.row)).map(|row| (exchange.row, row))
    };
    exchanges.iter().filter_map(had_ended).collect()
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

/// Runtime calls of a step, by the correlation with what they launch.
fn launches(trace: &Trace, window: Interval) -> HashMap<u64, &Event> {
    let runtime = trace.events[begun_by(trace, window.0)..begun_by(trace, window.1)].iter();
    let runtime = runtime.filter(|event| event.category == Category::Runtime && event.correlation != 0);
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
    launched: &HashMap<u64, &Event>,
) -> BTreeMap<TrackId, Vec<(u32, &'a Event)>> {
    let mut streams: BTreeMap<TrackId, Vec<(u32, &Event)>> = BTreeMap::new();
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

fn is_work(event: &Event) -> bool {
    matches!(event.category, Category::Kernel | Category::Copy | Category::Set) && event.phase == Phase::Complete
}

/// The last work of a stream before an event.
fn last_before(trace: &Trace, stream: TrackId, event: u32) -> Option<&Event> {
    trace.events[..event as usize].iter().rev().find(|event| event.track == stream && is_work(event))
}

/// Launches that wait for room in the queue of their GPU: what they wait for is work of streams, which may be of earlier steps.
fn held(trace: &Trace, window: Interval, launched: &HashMap<u64, &Event>, into: &mut RankStep) {
    let long: Vec<&Event> = launched.values().copied().filter(|launch| launch.duration > LAUNCH).collect();
    if long.is_empty() {
        return;
    }
    // What a full queue holds begins soon after the step.
    let events = &trace.events[begun_by(trace, window.0)..];
    let works = events.iter().enumerate().filter(|(_, event)| is_work(event)).map(|(index, _)| index);
    let events = &events[..works.take(launched.len() + PLACES).last().map_or(0, |last| last + 1)];
    let calls = events.iter().filter(|event| event.category == Category::Runtime && event.correlation != 0);
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

/// Parts of the names of calls that wait for all streams of a device.
const OF_DEVICE: [&str; 2] = ["Device", "Ctx"];

/// Threads that wait for streams: what ended last while the call waited, for a device the last work of each stream. A call that waits for part of the work of
/// earlier steps waits as a launch does for room in the queue.
fn synchronisations(trace: &Trace, window: Interval, threads: usize, into: &mut RankStep) {
    for event in &trace.events[begun_by(trace, window.0)..begun_by(trace, window.1)] {
        let name = trace.name(event);
        if event.category != Category::Runtime || !name.contains(SYNCHRONIZE) {
            continue;
        }
        let Some(waiting) = into.ending(event.track, event.end()) else { continue };
        let streams = &into.tracks[threads..];
        let ended = streams.iter().filter_map(|(stream, _)| into.before(*stream, event.end()));
        let is_awaited = |row: &usize| into.rows[*row].end > event.start && into.rows[*row].kind != Kind::Gap;
        let mut ended: Vec<usize> = ended.filter(is_awaited).collect();
        let is_queued = |(_, rows): &(TrackId, Range<usize>)| into.rows[rows.start].end > event.end();
        if ended.is_empty() && event.duration > LAUNCH && streams.iter().any(is_queued) {
            into.held.push((waiting, event.duration - LAUNCH));
        } else if !OF_DEVICE.iter().any(|all| name.contains(all)) {
            ended.sort_by_key(|row| Reverse(into.rows[*row].end));
            ended.truncate(1);
        }
        into.synchronisations.extend(ended.into_iter().map(|row| (waiting, row)));
    }
}
