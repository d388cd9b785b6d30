//! The activity of a process's accelerators: when any of their streams is busy, and with which kind of work.

use perf4sight_traces::intervals::{Interval, clipped, overlapping, partition, union};
use perf4sight_traces::{EventCategory, NameId, Trace, TraceEvent, TrackId};
use std::collections::BTreeMap;

perf4sight_base::words! {
    pub enum GpuWork {
        Kernel = "kernels",
        /// A kernel that exchanges data with other ranks.
        Collective = "collectives",
        Copy = "copies",
        Set = "memsets",
    }
}

/// The busy times of a process's streams.
#[derive(Debug, Clone, Default)]
pub struct GpuActivity {
    pub busy: Vec<Interval>,
    /// When any stream is busy with one kind of work, by [`GpuWork::index`].
    works: [Vec<Interval>; 4],
    /// When any stream is busy with work whose recorded duration is possible.
    certain: Vec<Interval>,
    streams: BTreeMap<TrackId, Vec<Interval>>,
    /// Work that seems to end long after the next work on its stream began. It is cut at that beginning.
    pub(crate) doubted: Vec<DoubtedWork>,
}

/// Work with an impossible recorded duration, because a stream runs one thing after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DoubtedWork {
    pub name: NameId,
    /// The recorded duration in nanoseconds.
    pub duration: i64,
    /// Nanoseconds until the next work on its stream begins.
    pub next: i64,
}

/// Nanoseconds by which work may overlap the next work on its stream: up to 3.7 us on a B200 with programmatic
/// dependent launch, and 2 us with coarse clocks.
const OVERLAP: i64 = 10_000;

/// The activity of the accelerators in a window, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceTime {
    /// Time in which any stream is busy.
    pub busy: i64,
    pub idle: i64,
    /// Time in which any stream is busy with one kind of work, by [`GpuWork::index`]; kinds on several streams overlap.
    totals: [i64; 4],
    /// The same, but only while no kind that comes earlier in [`GpuWork::ALL`] is running.
    exposed: [i64; 4],
    /// The part of `exposed` in which nothing runs but work with an impossible recorded duration.
    doubted: [i64; 4],
    pub streams: Vec<(TrackId, i64)>,
}

impl GpuWork {
    /// The kind of work of an event; none if the event is not work of an accelerator.
    pub fn from_event(trace: &Trace, event: &TraceEvent) -> Option<Self> {
        let works = [
            (EventCategory::Kernel, GpuWork::Kernel),
            (EventCategory::Copy, GpuWork::Copy),
            (EventCategory::Set, GpuWork::Set),
        ];
        let (_, work) = works.into_iter().find(|(category, _)| *category == event.category)?;
        Some(if work == GpuWork::Kernel && trace.is_exchange(event) { GpuWork::Collective } else { work })
    }
}

impl GpuActivity {
    /// The busy times in a trace; empty if it has no accelerators.
    pub fn from_trace(trace: &Trace) -> Self {
        let mut works: [Vec<Interval>; 4] = Default::default();
        let mut streams: BTreeMap<TrackId, Vec<Interval>> = BTreeMap::new();
        let mut begins: BTreeMap<TrackId, i64> = BTreeMap::new();
        let (mut certain, mut doubted) = (Vec::new(), Vec::new());
        for event in trace.events.iter().rev().filter(|event| event.category.on_device()) {
            let Some(work) = GpuWork::from_event(trace, event) else { continue };
            let next =
                begins.insert(event.track, event.start).filter(|next| event.end() > next.saturating_add(OVERLAP));
            doubted.extend(next.map(|next| DoubtedWork {
                name: event.name,
                duration: event.duration,
                next: next - event.start,
            }));
            let interval = (event.start, next.unwrap_or_else(|| event.end()));
            works[work.index()].push(interval);
            certain.extend(next.is_none().then_some(interval));
            streams.entry(event.track).or_default().push(interval);
        }
        let works = works.map(union);
        let streams = streams.into_iter().map(|(track, intervals)| (track, union(intervals))).collect();
        GpuActivity { busy: union(works.iter().flatten().copied()), works, certain: union(certain), streams, doubted }
    }

    /// Whether the trace contains work of accelerators.
    pub fn is_recorded(&self) -> bool {
        !self.busy.is_empty()
    }

    /// The activity in a window, which is shorter than 292 years.
    pub fn in_window(&self, window: Interval) -> DeviceTime {
        let [kernels, collectives, copies, sets] = self.works.each_ref();
        let certain = GpuWork::ALL.len();
        let parts = partition(
            window,
            &[kernels, collectives, copies, sets, &self.certain].map(|intervals| overlapping(intervals, window)),
        );
        let sum = |holds: &dyn Fn(u32) -> bool| -> i64 {
            parts.iter().filter(|(set, _)| holds(**set)).map(|(_, nanoseconds)| nanoseconds).sum()
        };
        let idle = sum(&|set| set == 0);
        let is_exposed = |set: u32, work: GpuWork| set != 0 && set.trailing_zeros() as usize == work.index();
        let stream = |(track, intervals): (&TrackId, &Vec<Interval>)| {
            (*track, clipped(intervals, window).map(|((start, end), _)| end - start).sum())
        };
        DeviceTime {
            busy: window.1 - window.0 - idle,
            idle,
            totals: GpuWork::ALL.map(|work| sum(&|set| set >> work.index() & 1 == 1)),
            exposed: GpuWork::ALL.map(|work| sum(&|set| is_exposed(set, work))),
            doubted: GpuWork::ALL.map(|work| sum(&|set| is_exposed(set, work) && set >> certain & 1 == 0)),
            streams: self.streams.iter().map(stream).filter(|(_, works)| *works > 0).collect(),
        }
    }
}

impl DeviceTime {
    /// Time in which any stream is busy with this kind of work.
    pub fn total(&self, work: GpuWork) -> i64 {
        self.totals[work.index()]
    }

    /// Time in which any stream is busy with this kind of work, and none with a kind that comes earlier in
    /// [`GpuWork::ALL`]; the four add up to [`DeviceTime::busy`].
    pub fn exposed_time(&self, work: GpuWork) -> i64 {
        self.exposed[work.index()]
    }

    /// The part of [`DeviceTime::exposed_time`] in which nothing runs but work with an impossible recorded duration.
    pub fn doubted_time(&self, work: GpuWork) -> i64 {
        self.doubted[work.index()]
    }

    /// Time in which this kind of work overlaps kinds that come earlier in [`GpuWork::ALL`], such as collectives hidden
    /// behind compute kernels.
    pub fn hidden_time(&self, work: GpuWork) -> i64 {
        self.total(work) - self.exposed_time(work)
    }
}
