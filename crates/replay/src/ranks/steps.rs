//! The steps of a rank: where each begins and ends.

use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{Category, Event, Phase, Trace, TrackId};
use std::collections::BTreeMap;

/// A step of a rank's training.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its name: `ProfilerStep#3`, or a number among the steps of the optimizer. The same on all ranks.
    pub name: String,
    /// Its beginning and end on the thread that marks it, in nanoseconds on the clock of its trace.
    pub window: Interval,
    /// When its work is done: later than its window where the thread runs ahead of its GPU, behind the work of the step before.
    pub work: Interval,
}

impl Step {
    /// A step whose work is done within its window.
    pub(super) fn new(name: String, window: Interval) -> Self {
        Step { name, window, work: window }
    }
}

/// What marks steps, by prefix of its name.
pub(super) const PROFILER: &str = "ProfilerStep#";
const OPTIMIZER: &str = "Optimizer.step#";

/// The steps of PyTorch's profiler, else the times between the ends of the optimizer's steps, else the whole trace as
/// one step; and the thread that marks them.
pub(super) fn of(trace: &Trace) -> (Vec<Step>, Option<TrackId>) {
    if let Some((track, marks)) = marks(trace, PROFILER) {
        let step = |event: &&Event| Step::new(trace.name(event).to_owned(), (event.start, event.end()));
        return (marks.iter().map(step).collect(), Some(track));
    }
    let between = marks(trace, OPTIMIZER).map(|(track, marks)| (between(&marks), Some(track)));
    between.filter(|(steps, _)| !steps.is_empty()).unwrap_or_else(|| (whole(trace).into_iter().collect(), None))
}

/// The ranges with a prefix that do not begin within each other, on the thread that has most of them.
fn marks<'a>(trace: &'a Trace, prefix: &str) -> Option<(TrackId, Vec<&'a Event>)> {
    let mut tracks: BTreeMap<TrackId, Vec<&Event>> = BTreeMap::new();
    let is_mark =
        |event: &&Event| event.category == Category::Annotation && event.phase == Phase::Complete && event.duration > 0;
    for event in trace.events.iter().filter(is_mark).filter(|event| trace.name(event).starts_with(prefix)) {
        let marks = tracks.entry(event.track).or_default();
        if marks.last().is_none_or(|last| last.end() <= event.start) {
            marks.push(event);
        }
    }
    tracks.into_iter().rev().max_by_key(|(_, marks)| marks.len())
}

fn between(marks: &[&Event]) -> Vec<Step> {
    // Of several optimizers the first one counts.
    let Some(name) = marks.first().map(|first| first.name) else { return Vec::new() };
    let ends: Vec<i64> = marks.iter().filter(|mark| mark.name == name).map(|mark| mark.end()).collect();
    let step = |(number, pair): (usize, &[i64])| Step::new(format!("step {number}"), (pair[0], pair[1]));
    ends.windows(2).enumerate().map(step).collect()
}

fn whole(trace: &Trace) -> Option<Step> {
    let timed = trace.events.iter().filter(|event| event.phase == Phase::Complete);
    let timed = timed.filter(|event| event.category != Category::Other);
    let window =
        timed.map(|event| (event.start, event.end())).reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))?;
    Some(Step::new(WHOLE.to_owned(), window))
}

/// The step of a trace without marks.
const WHOLE: &str = "whole trace";

/// Whether the trace marks its steps.
pub(super) fn are_marked(steps: &[Step]) -> bool {
    steps.first().is_some_and(|step| step.name != WHOLE)
}

/// Steps in words, by their names.
pub(super) fn range(steps: &[Step]) -> String {
    match steps {
        [] => "none".to_owned(),
        [alone] if alone.name == WHOLE => "no marked step".to_owned(),
        [alone] => format!("{} alone", alone.name),
        [first, .., last] => format!("{} to {}", first.name, last.name),
    }
}
