//! Divides a window of time into disjoint sets by category and by whether a GPU was busy.

use crate::categories::TimeCategory;
use crate::categories::recorded::RecordedKinds;
use crate::categories::thread_state::ThreadState;
use crate::threads::ThreadSpan;
use perf4sight_traces::intervals::{Interval, overlapping, pieces};
use std::ops::AddAssign;

/// Time divided into {Python, C++, CUDA API, wait} x {GPU busy, GPU idle}; the sets of a window add up to its length,
/// exact to the nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeSets {
    /// Nanoseconds by [`TimeCategory::index`], with the GPU idle and busy.
    nanoseconds: [[i64; 2]; TimeCategory::ALL.len()],
    /// Nanoseconds of the CUDA API in calls that synchronise with the GPU.
    pub synchronising: i64,
    /// The kinds of events in the trace.
    pub recorded: RecordedKinds,
}

impl TimeSets {
    pub(crate) fn zero(recorded: RecordedKinds) -> Self {
        TimeSets { nanoseconds: [[0; 2]; TimeCategory::ALL.len()], synchronising: 0, recorded }
    }

    /// Divides a window by the state of the process and the busy times of its GPUs. Time without an event counts as
    /// waiting, or as unknown if Python was not recorded either.
    ///
    /// `spans` and `busy` are in order and do not overlap; the window must be shorter than 292 years.
    pub(crate) fn divide(window: Interval, spans: &[ThreadSpan], busy: &[Interval], recorded: RecordedKinds) -> Self {
        let mut sets = TimeSets::zero(recorded);
        let mut busy = overlapping(busy, window);
        for (part, span) in pieces(spans, window) {
            sets.add(part, span.map_or(recorded.state_without_event(), |span| span.state), &mut busy);
        }
        assert_eq!(sets.total(), window.1 - window.0, "the sets of a window add up to it");
        sets
    }

    /// Adds a part of the window; `busy` moves past the intervals that end in it.
    fn add(&mut self, (start, end): Interval, state: ThreadState, busy: &mut &[Interval]) {
        let mut worked = 0;
        while let [(busy_start, busy_end), rest @ ..] = *busy
            && *busy_start < end
        {
            worked += (end.min(*busy_end) - start.max(*busy_start)).max(0);
            if *busy_end > end {
                break;
            }
            *busy = rest;
        }
        let [idle, with_gpu] = &mut self.nanoseconds[self.recorded.category(state).index()];
        *idle += end - start - worked;
        *with_gpu += worked;
        if state == ThreadState::Synchronises {
            self.synchronising += end - start;
        }
    }

    /// Nanoseconds of a category while the GPU is idle; 0 if there are none.
    pub(crate) fn idle(&self, category: TimeCategory) -> i64 {
        self.nanoseconds[category.index()][0]
    }

    /// Subtracts nanoseconds from a category while the GPU is idle; it must have as many.
    pub(crate) fn subtract(&mut self, category: TimeCategory, nanoseconds: i64) {
        self.nanoseconds[category.index()][0] -= nanoseconds;
        let [idle, busy] = self.nanoseconds[TimeCategory::CudaApi.index()];
        self.synchronising = self.synchronising.min(idle + busy);
    }

    pub fn total(&self) -> i64 {
        self.nanoseconds.iter().flatten().sum()
    }

    /// Nanoseconds of a category while the GPU is busy or idle; none if the trace cannot distinguish it and its time is
    /// in a [joint category](TimeCategory::is_joint).
    pub fn get(&self, category: TimeCategory, gpu_busy: bool) -> Option<i64> {
        self.recorded.distinguishes(category).then(|| self.nanoseconds[category.index()][usize::from(gpu_busy)])
    }

    /// Nanoseconds of a category with the GPU busy or idle; none if the trace cannot distinguish it.
    pub fn category(&self, category: TimeCategory) -> Option<i64> {
        Some(self.get(category, false)? + self.get(category, true)?)
    }

    pub fn gpu_busy(&self) -> i64 {
        self.nanoseconds.iter().map(|[_, busy]| busy).sum()
    }

    /// All known sets: category, whether the GPU is busy, nanoseconds. They add up to [`TimeSets::total`].
    pub fn parts(&self) -> impl Iterator<Item = (TimeCategory, bool, i64)> {
        let category = |category| [false, true].map(|busy| (category, busy));
        TimeCategory::ALL
            .into_iter()
            .flat_map(category)
            .filter_map(|(category, busy)| Some((category, busy, self.get(category, busy)?)))
    }
}

impl AddAssign for TimeSets {
    fn add_assign(&mut self, other: Self) {
        let both = self.nanoseconds.iter_mut().flatten().zip(other.nanoseconds.iter().flatten());
        both.for_each(|(sum, more)| *sum += more);
        self.synchronising += other.synchronising;
    }
}
