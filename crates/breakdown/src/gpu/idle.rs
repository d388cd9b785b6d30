//! Why all streams of the accelerators are idle.

use crate::categories::thread_state::{ThreadState, is_function};
use crate::gpu::device::GpuActivity;
use crate::threads::ThreadSpan;
use perf4sight_traces::intervals::{Interval, overlapping, partition, union};
use perf4sight_traces::{EventCategory, Trace, TrackId};
use std::collections::HashMap;

perf4sight_base::words! {
    pub enum IdleCause {
        /// The process has not launched the next work yet.
        Host = "host",
        /// The next work has been launched and has not begun.
        KernelLaunch = "kernel launch",
        /// The process is in a call that synchronises with the accelerator, which has no work left.
        Synchronisation = "synchronisation",
        AnotherRank = "another rank",
        /// The trace does not contain the launch of the next work.
        NoLaunch = "launch not recorded",
    }
}

/// Nanoseconds in which no stream is busy, by cause; they add up to [`DeviceTime::idle`](crate::DeviceTime::idle).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleTime {
    nanoseconds: [i64; 5],
    /// Whether waiting for another rank would be visible.
    shows_ranks: bool,
}

impl IdleTime {
    /// The time of one cause; none if the trace does not show it: a single rank does not show whether it waits for
    /// others.
    pub fn get(&self, cause: IdleCause) -> Option<i64> {
        (cause != IdleCause::AnotherRank || self.shows_ranks).then(|| self.nanoseconds[cause.index()])
    }
}

pub(crate) struct IdleCauses {
    /// The beginning of each work on a stream and the moment of its launch, ordered by beginning.
    launches: Vec<(i64, i64)>,
    /// When the process is in a call that synchronises with the accelerator.
    synchronises: Vec<Interval>,
    waits_for_rank: Vec<Interval>,
}

impl IdleCauses {
    pub fn from_trace(trace: &Trace, timeline: &[ThreadSpan], main: Option<TrackId>) -> Self {
        let synchronises = timeline.iter().filter(|span| span.state == ThreadState::Synchronises);
        let calls =
            trace.events.iter().filter(|event| event.category == EventCategory::Runtime && event.correlation != 0);
        let calls: HashMap<u64, i64> = calls.map(|event| (event.correlation, event.start)).collect();
        let work = trace.events.iter().filter(|event| event.category.on_device());
        let ranks = trace.events.iter().filter(|event| Some(event.track) == main);
        let ranks = ranks.filter(|event| waits_for_rank(event.category, trace.name(event)));
        IdleCauses {
            launches: work.filter_map(|event| Some((event.start, *calls.get(&event.correlation)?))).collect(),
            synchronises: union(synchronises.map(|span| (span.start, span.end))),
            waits_for_rank: union(ranks.map(|event| (event.start, event.end()))),
        }
    }

    /// The idle time of a window. Waiting for another rank is known if `shows_ranks` is set or the trace
    /// has a call that waits for ranks.
    pub fn idle_in(&self, window: Interval, device: &GpuActivity, shows_ranks: bool) -> IdleTime {
        let shows_ranks = shows_ranks || !self.waits_for_rank.is_empty();
        IdleTime { nanoseconds: self.by_cause(window, device), shows_ranks }
    }

    fn by_cause(&self, window: Interval, device: &GpuActivity) -> [i64; 5] {
        let mut idle = [0; 5];
        let behind = device.busy.partition_point(|(_, stops)| *stops <= window.0);
        let mut at = window.0;
        for &(start, stop) in &device.busy[behind..] {
            self.add((at, start.min(window.1)), self.launch_of(start), &mut idle);
            at = stop;
            if at >= window.1 {
                return idle;
            }
        }
        // No work follows, so none was launched.
        self.add((at, window.1), Some(window.1), &mut idle);
        idle
    }

    /// The moment at which the work that begins at `begins` was launched; the first of several.
    fn launch_of(&self, begins: i64) -> Option<i64> {
        let first = self.launches.partition_point(|(start, _)| *start < begins);
        self.launches[first..].iter().take_while(|(start, _)| *start == begins).map(|(_, asked)| *asked).min()
    }

    fn add(&self, (start, end): Interval, asked: Option<i64>, idle: &mut [i64; 5]) {
        if start >= end {
            return;
        }
        let known = asked.is_some();
        let asked = asked.unwrap_or(end).clamp(start, end);
        idle[IdleCause::KernelLaunch.index()] += end - asked;
        let sets = [&self.waits_for_rank, &self.synchronises].map(|set| overlapping(set, (start, asked)));
        for (holds, nanoseconds) in partition((start, asked), &sets) {
            let cause = match holds {
                0 if known => IdleCause::Host,
                0 => IdleCause::NoLaunch,
                2 => IdleCause::Synchronisation,
                _ => IdleCause::AnotherRank,
            };
            idle[cause.index()] += nanoseconds;
        }
    }
}

const WAITING_FOR_RANKS: &[(&str, &str)] = &[
    ("torch/distributed/distributed_c10d.py", "barrier"),
    ("torch/distributed/distributed_c10d.py", "monitored_barrier"),
];

/// Calls that wait for other ranks, by prefix of their names.
const CALLS_FOR_RANKS: &[&str] = &[
    "<built-in method wait of torch._C._distributed_c10d.",
    "<built-in method barrier of torch._C._distributed_c10d.",
    "<built-in method monitored_barrier of torch._C._distributed_c10d.",
    "c10d::barrier",
    "c10d::monitored_barrier",
];

fn waits_for_rank(category: EventCategory, name: &str) -> bool {
    let call = CALLS_FOR_RANKS.iter().any(|known| name.starts_with(known));
    let python = category == EventCategory::Python;
    (python && is_function(name, WAITING_FOR_RANKS)) || (call && (python || category == EventCategory::Operator))
}
