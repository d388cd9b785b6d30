//! A window of time as disjoint sets: who had the word, and whether a GPU was busy.

use crate::recorded::Recorded;
use crate::state::{Class, State};
use crate::threads::Stretch;
use perf4sight_traces::intervals::Interval;
use std::ops::AddAssign;

/// Time divided into {Python, C++, CUDA API, wait} x {GPU busy, GPU idle}; of a window they add up to it to the
/// nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sets {
    /// Nanoseconds by [`Class::index`], the GPU idle and busy.
    nanoseconds: [[i64; 2]; Class::ALL.len()],
    /// Nanoseconds of the CUDA API in calls that wait for the GPU.
    pub synchronising: i64,
    /// What the trace tells.
    pub recorded: Recorded,
}

impl Sets {
    /// No time.
    pub(crate) fn none(recorded: Recorded) -> Self {
        Sets { nanoseconds: [[0; 2]; Class::ALL.len()], synchronising: 0, recorded }
    }

    /// Divides a window by what a process does and when its GPUs are busy. Where nothing is recorded
    /// of the process it waits, or if Python is not recorded either, nobody knows.
    ///
    /// `stretches` and `busy` are in order and do not overlap; a window is shorter than 292 years.
    pub(crate) fn split((begin, end): Interval, stretches: &[Stretch], busy: &[Interval], recorded: Recorded) -> Self {
        let mut sets = Sets::none(recorded);
        let first = stretches.partition_point(|stretch| stretch.end <= begin);
        let mut busy = &busy[busy.partition_point(|(_, busy_end)| *busy_end <= begin)..];
        let unrecorded = recorded.unrecorded();
        let mut at = begin;
        for stretch in stretches[first..].iter().take_while(|stretch| stretch.start < end) {
            let (start, end) = (stretch.start.max(begin), stretch.end.min(end));
            sets.add((at, start), unrecorded, &mut busy);
            sets.add((start, end), stretch.state, &mut busy);
            at = end;
        }
        sets.add((at, end), unrecorded, &mut busy);
        assert_eq!(sets.total(), end - begin, "the sets of a window add up to it");
        sets
    }

    /// Adds a part of the window; `busy` moves past what ends in it.
    fn add(&mut self, (start, end): Interval, state: State, busy: &mut &[Interval]) {
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
        let [idle, with_gpu] = &mut self.nanoseconds[self.recorded.class(state).index()];
        *idle += end - start - worked;
        *with_gpu += worked;
        if state == State::Synchronises {
            self.synchronising += end - start;
        }
    }

    /// Nanoseconds of a class while the GPU is idle; none is 0.
    pub(crate) fn idle(&self, class: Class) -> i64 {
        self.nanoseconds[class.index()][0]
    }

    /// Takes nanoseconds, of which it has as many, from a class while the GPU is idle.
    pub(crate) fn shorten(&mut self, class: Class, nanoseconds: i64) {
        self.nanoseconds[class.index()][0] -= nanoseconds;
        let [idle, busy] = self.nanoseconds[Class::CudaApi.index()];
        self.synchronising = self.synchronising.min(idle + busy);
    }

    /// Nanoseconds of all sets together.
    pub fn total(&self) -> i64 {
        self.nanoseconds.iter().flatten().sum()
    }

    /// Nanoseconds of a class while the GPU is busy or idle; none where the trace cannot tell, and its time is in a class that
    /// [stands for several](Class::is_joint).
    pub fn get(&self, class: Class, gpu_busy: bool) -> Option<i64> {
        self.recorded.tells(class).then(|| self.nanoseconds[class.index()][usize::from(gpu_busy)])
    }

    /// Nanoseconds of a class, whatever the GPU does; none where the trace cannot tell.
    pub fn class(&self, class: Class) -> Option<i64> {
        Some(self.get(class, false)? + self.get(class, true)?)
    }

    /// Nanoseconds during which a GPU is busy.
    pub fn gpu_busy(&self) -> i64 {
        self.nanoseconds.iter().map(|[_, busy]| busy).sum()
    }

    /// All sets that the trace tells: class, whether the GPU is busy, nanoseconds. They add up to [`Sets::total`].
    pub fn parts(&self) -> impl Iterator<Item = (Class, bool, i64)> {
        let class = |class| [false, true].map(|busy| (class, busy));
        Class::ALL.into_iter().flat_map(class).filter_map(|(class, busy)| Some((class, busy, self.get(class, busy)?)))
    }
}

impl AddAssign for Sets {
    fn add_assign(&mut self, other: Self) {
        let both = self.nanoseconds.iter_mut().flatten().zip(other.nanoseconds.iter().flatten());
        both.for_each(|(sum, more)| *sum += more);
        self.synchronising += other.synchronising;
    }
}
