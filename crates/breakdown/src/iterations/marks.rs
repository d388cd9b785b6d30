//! Marks of iterations: their beginning and end.

use perf4sight_traces::TrackId;
use perf4sight_traces::intervals::Interval;

#[derive(Debug, Clone, PartialEq)]
pub enum IterationMarkers {
    /// Events with a name that the user gave.
    Named(String),
    /// The steps of PyTorch's profiler, `ProfilerStep#`; the ranges of `enable_profiling` and `disable_profiling` have
    /// the same name.
    ProfilerSteps,
    /// Steps of an optimizer, by the name of the event; an iteration goes from the end of one step to the end of the
    /// next.
    OptimizerSteps(String),
    /// No marks, but repetition: an event at the beginning of similar time spans.
    Period {
        event: String,
        /// From 0 to 0.99: the share of events that neighbouring iterations have in common, times the share of all
        /// events that are in iterations; less if there are few iterations.
        certainty: f64,
    },
    WholeTrace,
}

/// Further iterations are not broken down: their output would be too long to read, and each takes tens of kilobytes of
/// memory.
pub(crate) const MOST: usize = 5000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IterationMark {
    pub name: String,
    /// The part of the range that belongs to the script.
    pub window: Interval,
    pub range: Interval,
}

impl IterationMark {
    pub fn new(name: String, range: Interval) -> Self {
        IterationMark { name, window: range, range }
    }
}

pub(crate) struct FoundIterations {
    pub markers: IterationMarkers,
    pub marks: Vec<IterationMark>,
    pub track: Option<TrackId>,
    /// The number of marks that begin within another one, which was cut there.
    pub overlapping: usize,
    /// The number of marks inside another one, which were left out.
    pub inside: usize,
    /// The number of iterations after the first [`MOST`], which were left out.
    pub behind: usize,
    /// The number of iterations left out because the profiler had just been started or stopped.
    pub unsettled: usize,
    /// The number of marks on other threads than the one with most marks, and of those without length.
    pub elsewhere: usize,
    /// Without iterations, the event that repeats most regularly, though not with certainty.
    pub likely: Option<String>,
}

impl FoundIterations {
    /// Iterations of which none was left out.
    pub fn new(markers: IterationMarkers, marks: Vec<IterationMark>, track: Option<TrackId>) -> Self {
        FoundIterations {
            markers,
            marks,
            track,
            overlapping: 0,
            inside: 0,
            behind: 0,
            unsettled: 0,
            elsewhere: 0,
            likely: None,
        }
    }
}

pub(crate) fn marks_between(moments: &[i64], markers: IterationMarkers, track: TrackId) -> FoundIterations {
    let windows = || moments.windows(2).map(|pair| (pair[0], pair[1])).filter(is_window);
    let mark = |(at, window): (usize, Interval)| IterationMark::new(format!("iteration {}", at + 1), window);
    let marks: Vec<IterationMark> = windows().take(MOST).enumerate().map(mark).collect();
    let behind = windows().count() - marks.len();
    FoundIterations { behind, ..FoundIterations::new(markers, marks, Some(track)) }
}

/// Whether it has a positive length that does not overflow.
pub(crate) fn is_window(window: &Interval) -> bool {
    window.1.checked_sub(window.0).is_some_and(|length| length > 0)
}
