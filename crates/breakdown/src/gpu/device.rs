//! What the accelerators of a process do: when any of their streams works, and on what.

use perf4sight_traces::intervals::{Interval, length, partition, union};
use perf4sight_traces::{Category, Event, NameId, Trace, TrackId};
use std::collections::BTreeMap;

/// What a stream works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// A kernel that computes.
    Kernel,
    /// A kernel that exchanges data with other ranks.
    Collective,
    /// A copy of memory.
    Copy,
    /// Memory that is set.
    Set,
}

/// When the streams of a process work.
#[derive(Debug, Clone, Default)]
pub struct Device {
    /// Whenever any stream works.
    pub busy: Vec<Interval>,
    /// Whenever any stream works on one thing, by [`Work::index`].
    works: [Vec<Interval>; 4],
    /// Whenever a stream works, of each.
    streams: BTreeMap<TrackId, Vec<Interval>>,
    /// Work that seems to go on long after the next on its stream began, where it is taken to end.
    pub(crate) doubted: Vec<Doubted>,
}

/// Work whose recorded duration cannot be, as a stream does one thing after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Doubted {
    pub name: NameId,
    /// Nanoseconds that it is recorded to take.
    pub duration: i64,
    /// Nanoseconds until the next on its stream begins.
    pub next: i64,
}

/// Nanoseconds by which work may reach into the next on its stream: where CUDA launches kernels early (programmatic dependent launch), up to
/// 3.7 us on a B200, and 2 us where clocks are coarse.
const OVERLAP: i64 = 10_000;

/// What the accelerators do in a window, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceTime {
    /// Any stream works.
    pub busy: i64,
    /// No stream works.
    pub idle: i64,
    /// Any stream works on one thing, by [`Work::index`]; things on several streams overlap.
    totals: [i64; 4],
    /// As before, and nothing that stands before it in [`Work::ALL`] goes on.
    exposed: [i64; 4],
    /// Each stream works.
    pub streams: Vec<(TrackId, i64)>,
}

impl Work {
    /// All of them, as [`Work::index`] counts them.
    pub const ALL: [Work; 4] = [Work::Kernel, Work::Collective, Work::Copy, Work::Set];

    /// Its place in [`Work::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// What it is called where people read it.
    pub fn label(self) -> &'static str {
        match self {
            Work::Kernel => "kernels",
            Work::Collective => "collectives",
            Work::Copy => "copies",
            Work::Set => "memsets",
        }
    }

    /// What an event says that its stream works on; none where it is none of an accelerator's.
    pub fn of(trace: &Trace, event: &Event) -> Option<Self> {
        match event.category {
            Category::Kernel if is_collective(trace, event) => Some(Work::Collective),
            Category::Kernel => Some(Work::Kernel),
            Category::Copy => Some(Work::Copy),
            Category::Set => Some(Work::Set),
            Category::Annotation
            | Category::Operator
            | Category::Python
            | Category::Runtime
            | Category::DeviceAnnotation
            | Category::Synchronisation
            | Category::Overhead
            | Category::ForwardBackward
            | Category::Launch
            | Category::Other => None,
        }
    }
}

/// Libraries whose kernels exchange data with other ranks, as the kernels' names begin or hold them: NVIDIA's, AMD's, Microsoft's and
/// Intel's, and the one that vLLM brings.
const COLLECTIVES: &[&str] = &["nccl", "rccl", "mscclKernel", "oneccl", "cross_device_reduce"];

fn is_collective(trace: &Trace, event: &Event) -> bool {
    trace.collective(event).is_some() || COLLECTIVES.iter().any(|known| trace.name(event).contains(known))
}

impl Device {
    /// Of a trace; of one without accelerators, never busy.
    pub fn of(trace: &Trace) -> Self {
        let mut works: [Vec<Interval>; 4] = Default::default();
        let mut streams: BTreeMap<TrackId, Vec<Interval>> = BTreeMap::new();
        let mut begins: BTreeMap<TrackId, i64> = BTreeMap::new();
        let mut doubted = Vec::new();
        for event in trace.events.iter().rev().filter(|event| event.category.on_device()) {
            let Some(work) = Work::of(trace, event) else { continue };
            let next =
                begins.insert(event.track, event.start).filter(|next| event.end() > next.saturating_add(OVERLAP));
            doubted.extend(next.map(|next| Doubted {
                name: event.name,
                duration: event.duration,
                next: next - event.start,
            }));
            let interval = (event.start, next.unwrap_or_else(|| event.end()));
            works[work.index()].push(interval);
            streams.entry(event.track).or_default().push(interval);
        }
        let works = works.map(union);
        let streams = streams.into_iter().map(|(track, intervals)| (track, union(intervals))).collect();
        Device { busy: union(works.iter().flatten().copied()), works, streams, doubted }
    }

    /// Whether the trace has anything of accelerators.
    pub fn is_recorded(&self) -> bool {
        !self.busy.is_empty()
    }

    /// What goes on in a window, which is shorter than 292 years.
    pub fn within(&self, window: Interval) -> DeviceTime {
        let works = self.works.each_ref().map(|intervals| during(intervals, window));
        let parts = partition(window, &works);
        let sum = |holds: &dyn Fn(u32) -> bool| -> i64 {
            parts.iter().filter(|(set, _)| holds(**set)).map(|(_, nanoseconds)| nanoseconds).sum()
        };
        let idle = sum(&|set| set == 0);
        let stream = |(track, intervals): (&TrackId, &Vec<Interval>)| (*track, length(&clipped(intervals, window)));
        DeviceTime {
            busy: window.1 - window.0 - idle,
            idle,
            totals: Work::ALL.map(|work| sum(&|set| set >> work.index() & 1 == 1)),
            exposed: Work::ALL.map(|work| sum(&|set| set != 0 && set.trailing_zeros() as usize == work.index())),
            streams: self.streams.iter().map(stream).filter(|(_, works)| *works > 0).collect(),
        }
    }
}

impl DeviceTime {
    /// Any stream works on one thing.
    pub fn total(&self, work: Work) -> i64 {
        self.totals[work.index()]
    }

    /// Any stream works on one thing, and none on what stands before it in [`Work::ALL`]; the four add up to [`DeviceTime::busy`].
    pub fn exposed(&self, work: Work) -> i64 {
        self.exposed[work.index()]
    }

    /// Any stream works on one thing, hidden behind what stands before it in [`Work::ALL`]: collectives behind kernels that compute.
    pub fn hidden(&self, work: Work) -> i64 {
        self.total(work) - self.exposed(work)
    }
}

/// Those of a union that reach into a window.
pub(crate) fn during(union: &[Interval], (begin, end): Interval) -> &[Interval] {
    let first = union.partition_point(|(_, stops)| *stops <= begin);
    let behind = first + union[first..].partition_point(|(starts, _)| *starts < end);
    &union[first..behind]
}

/// The part of a union that lies in a window.
pub(crate) fn clipped(union: &[Interval], (begin, end): Interval) -> Vec<Interval> {
    during(union, (begin, end)).iter().map(|&(start, stop)| (start.max(begin), stop.min(end))).collect()
}
