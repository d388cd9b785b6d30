//! Marks of iterations: from where to where each goes.

use perf4sight_traces::TrackId;
use perf4sight_traces::intervals::Interval;

/// What tells iterations apart.
#[derive(Debug, Clone, PartialEq)]
pub enum Markers {
    /// Events of a name that the user gave.
    Named(String),
    /// The steps of PyTorch's profiler, `ProfilerStep#`; what `enable_profiling` and `disable_profiling` enclose is named so too.
    ProfilerSteps,
    /// Steps of an optimizer, by the name of its event; an iteration goes from the end of one to the end of the next.
    OptimizerSteps(String),
    /// Nothing does: an event that begins spans of time that are alike.
    Period {
        /// Its name.
        event: String,
        /// From 0 to 0.99: the share of events that neighbouring iterations have in common, times that of all events that lie in
        /// iterations; less where there are few.
        certainty: f64,
    },
    /// Nothing does, and nothing repeats: the whole trace is taken for one.
    WholeTrace,
}

/// Iterations beyond these are not broken down: nobody looks at them, and what is written of each takes tens of kilobytes of memory.
pub(crate) const MOST: usize = 5000;

/// One iteration as marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    pub name: String,
    /// What of the range is the script's.
    pub window: Interval,
    /// From where it is marked to where its end is.
    pub range: Interval,
}

impl Mark {
    pub fn new(name: String, range: Interval) -> Self {
        Mark { name, window: range, range }
    }
}

/// The iterations of a trace.
pub(crate) struct Found {
    pub markers: Markers,
    pub marks: Vec<Mark>,
    /// The thread that marks them.
    pub track: Option<TrackId>,
    /// Marks that began in another one, which was cut there.
    pub overlapping: usize,
    /// Marks that lay in another one and were left out.
    pub inside: usize,
    /// How many come behind the first [`MOST`], which are not kept.
    pub behind: usize,
    /// How many were left out because the profiler had just been started or stopped.
    pub unsettled: usize,
    /// Marks on other threads than the one that has most of them, and those without length.
    pub elsewhere: usize,
}

impl Found {
    /// Marks of which none was left out.
    pub fn new(markers: Markers, marks: Vec<Mark>, track: Option<TrackId>) -> Self {
        Found { markers, marks, track, overlapping: 0, inside: 0, behind: 0, unsettled: 0, elsewhere: 0 }
    }
}

/// What lies between neighbouring moments, numbered.
pub(crate) fn between(moments: &[i64], markers: Markers, track: TrackId) -> Found {
    let windows = || moments.windows(2).map(|pair| (pair[0], pair[1])).filter(is_window);
    let mark = |(at, window): (usize, Interval)| Mark::new(format!("iteration {}", at + 1), window);
    let marks: Vec<Mark> = windows().take(MOST).enumerate().map(mark).collect();
    let behind = windows().count() - marks.len();
    Found { behind, ..Found::new(markers, marks, Some(track)) }
}

/// Whether it has a length that can be counted.
pub(crate) fn is_window(window: &Interval) -> bool {
    window.1.checked_sub(window.0).is_some_and(|length| length > 0)
}
