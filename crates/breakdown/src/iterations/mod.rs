//! Finds where iterations begin and end.

pub(crate) mod marks;
mod recorder_calls;
mod repetition;

use crate::calls::label;
use crate::categories::thread_state::EventStates;
use marks::{FoundIterations, IterationMark, IterationMarkers, MOST, is_window, marks_between};
use perf4sight_base::error::{Error, Result};
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{EventCategory, EventPhase, NameId, Trace, TraceEvent, TrackId, recording_of};
use std::collections::{BTreeMap, BTreeSet};

/// Finds the iterations by the given name, else by the marks in the trace, else by repetition on a thread.
///
/// # Errors
/// A name that no event has.
pub(crate) fn find(trace: &Trace, named: Option<&str>, thread: Option<TrackId>) -> Result<FoundIterations> {
    if let Some(name) = named {
        let marked = |name: &str| {
            let mut categories =
                [EventCategory::Annotation, EventCategory::Python, EventCategory::Operator].into_iter();
            categories
                .find_map(|category| ranges(trace, category, |other| other == name || family(other) == Some(name)))
        };
        let by_function = || function_of_trace(trace, name).and_then(|name| Some((name, marked(name)?)));
        let found = marked(name).map(|marks| (name, marks)).or_else(by_function);
        let (name, mut marks) = found.ok_or_else(|| unknown_name_error(trace, name))?;
        let unsettled = marks.leave_out_unsettled(trace);
        return Ok(FoundIterations { unsettled, ..marks.into_found(trace, IterationMarkers::Named(name.to_owned())) });
    }
    let annotations = |wanted: &dyn Fn(&str) -> bool| ranges(trace, EventCategory::Annotation, wanted);
    if let Some(marks) = annotations(&|name| name.starts_with("ProfilerStep")) {
        let (track, mut found) = (marks.track, marks.into_found(trace, IterationMarkers::ProfilerSteps));
        recorder_calls::cut(trace, track, &mut found.marks);
        return Ok(found);
    }
    let steps = annotations(&|name| name.starts_with("Optimizer.step#"));
    let between = steps.and_then(|steps| between_steps(trace, &steps));
    let repeating = || repetition::find(trace, thread?);
    let likely = || repetition::likely_marker(trace, thread?);
    Ok(between.or_else(repeating).unwrap_or_else(|| FoundIterations { likely: likely(), ..whole_trace(trace) }))
}

/// The name in the trace of a Python function that is given by its own name alone: `train.py(12): train_step`. None if several functions have it.
fn function_of_trace<'t>(trace: &'t Trace, own: &str) -> Option<&'t str> {
    let of_python = trace.events.iter().filter(|event| event.category == EventCategory::Python);
    let called: BTreeSet<NameId> = of_python.map(|event| event.name).collect();
    let names: Vec<&str> = called.into_iter().map(|name| trace.names.get(name)).collect();
    let is_it = |name: &&&str| name.rsplit_once("): ").is_some_and(|(_, function)| function == own);
    let [found] = names.iter().filter(is_it).collect::<Vec<_>>()[..] else { return None };
    Some(*found)
}

/// `ProfilerStep` from `ProfilerStep#7`; none for a name without a number.
fn family(name: &str) -> Option<&str> {
    let (family, number) = name.rsplit_once('#')?;
    number.parse::<u64>().ok().map(|_| family)
}

/// The error for a name that marks no iterations, with the names that would.
fn unknown_name_error(trace: &Trace, name: &str) -> Error {
    let mut annotations: Vec<&str> = trace
        .events
        .iter()
        .filter(|event| event.category == EventCategory::Annotation)
        .map(|event| trace.name(event))
        .map(|name| family(name).unwrap_or(name))
        .collect();
    annotations.sort_unstable();
    annotations.dedup();
    let problem = match trace.events.iter().any(|event| trace.name(event) == name) {
        true => format!(
            "has {name:?} only as events that mark no iterations: of the GPU, of its runtime, or without length"
        ),
        false => format!("has no event named {name:?}"),
    };
    let error = Error::usage(problem).file(&trace.file);
    match annotations.as_slice() {
        [] => error.expected("the name of a function, an operator or a range; the trace has no ranges"),
        known => error.one_of(name, known.iter().copied().take(20)),
    }
}

struct MarkerRanges<'a> {
    track: TrackId,
    events: Vec<&'a TraceEvent>,
    /// The number of events on other tracks or without length.
    elsewhere: usize,
}

/// The events of a category with matching names, on the track that has most of them.
fn ranges(trace: &Trace, category: EventCategory, wanted: impl Fn(&str) -> bool) -> Option<MarkerRanges<'_>> {
    let mut tracks: BTreeMap<TrackId, Vec<&TraceEvent>> = BTreeMap::new();
    let all = trace.events.iter().filter(|event| event.category == category && event.phase == EventPhase::Complete);
    let mut found = 0;
    for event in all.filter(|event| wanted(trace.name(event))) {
        found += 1;
        if event.duration > 0 {
            tracks.entry(event.track).or_default().push(event);
        }
    }
    let (track, events) = tracks.into_iter().rev().max_by_key(|(_, events)| events.len())?;
    Some(MarkerRanges { track, elsewhere: found - events.len(), events })
}

/// The smallest number of steps of a less frequent optimizer.
const SELDOM: usize = 3;

impl<'a> MarkerRanges<'a> {
    /// The least frequent optimizer, among those that step at regular intervals after several steps of `other`.
    fn least_frequent(&self, other: NameId) -> Option<NameId> {
        let mut before: BTreeMap<NameId, Vec<usize>> = BTreeMap::new();
        let mut others = 0;
        for event in &self.events {
            match event.name == other {
                true => others += 1,
                false => before.entry(event.name).or_default().push(others),
            }
        }
        let regular = |before: &[usize]| {
            let mut times = before.windows(2).map(|pair| pair[1] - pair[0]);
            let first = times.next().filter(|first| *first > 1);
            before.len() >= SELDOM && first.is_some_and(|first| times.all(|other| other == first))
        };
        let seldom = before.into_iter().filter(|(_, before)| regular(before));
        seldom.min_by_key(|(_, before)| before.len()).map(|(name, _)| name)
    }

    /// In a trace of `perf4sight record`, removes the ranges that begin outside of the recorded iterations, or end behind the last of them
    /// that follow each other, and returns their number: the profiler was started or stopped there, which makes them longer. If those are
    /// all, they stay.
    fn leave_out_unsettled(&mut self, trace: &Trace) -> usize {
        let ours = recording_of(&trace.file).is_some_and(|file| file.exists());
        let recorded = ours.then(|| ranges(trace, EventCategory::Annotation, |name| name.starts_with("ProfilerStep#")));
        let Some(recorded) = recorded.flatten() else { return 0 };
        let is_recorded = |event: &&TraceEvent| {
            let later = recorded.events.partition_point(|step| step.start <= event.start);
            let goes_on = recorded.events.get(later).is_some_and(|next| next.start < event.end());
            recorded.events[..later]
                .last()
                .is_some_and(|step| event.start < step.end() && (goes_on || event.end() <= step.end()))
        };
        let settled: Vec<&'a TraceEvent> = self.events.iter().copied().filter(is_recorded).collect();
        if settled.is_empty() {
            return 0;
        }
        let all = std::mem::replace(&mut self.events, settled).len();
        all - self.events.len()
    }

    fn into_found(self, trace: &Trace, markers: IterationMarkers) -> FoundIterations {
        let mut marks: Vec<IterationMark> = Vec::new();
        let (mut overlapping, mut inside, mut behind) = (0, 0, 0);
        for event in self.events {
            if let Some(last) = marks.last_mut().filter(|last| event.start < last.range.1) {
                if event.end() <= last.range.1 {
                    inside += 1;
                    continue;
                }
                overlapping += 1;
                *last = IterationMark::new(std::mem::take(&mut last.name), (last.range.0, event.start));
            }
            // One more mark is kept, because the next mark may be inside it or cut it.
            if marks.len() > MOST {
                behind += marks.pop().filter(|late| is_window(&late.window)).iter().len();
            }
            marks.push(IterationMark::new(label(trace.name(event)), (event.start, event.end())));
        }
        marks.retain(|mark| is_window(&mark.window));
        behind += marks.len().saturating_sub(MOST);
        marks.truncate(MOST);
        let elsewhere = self.elsewhere;
        FoundIterations {
            overlapping,
            inside,
            behind,
            elsewhere,
            ..FoundIterations::new(markers, marks, Some(self.track))
        }
    }
}

/// Iterations from the end of each optimizer step to the end of the next. With several optimizers, the one that steps
/// first counts, or one that steps less often at regular intervals, such as a generator's after several steps of its
/// critic.
fn between_steps(trace: &Trace, steps: &MarkerRanges) -> Option<FoundIterations> {
    let first = steps.events.first()?.name;
    let optimizer = steps.least_frequent(first).unwrap_or(first);
    let ends: Vec<i64> = steps.events.iter().filter(|step| step.name == optimizer).map(|step| step.end()).collect();
    let markers = IterationMarkers::OptimizerSteps(trace.names.get(optimizer).to_owned());
    let found = FoundIterations { elsewhere: steps.elsewhere, ..marks_between(&ends, markers, steps.track) };
    Some(found).filter(|found| !found.marks.is_empty())
}

fn whole_trace(trace: &Trace) -> FoundIterations {
    let extent = extent(trace).filter(is_window);
    let mark = |window| IterationMark::new("whole trace".to_owned(), window);
    FoundIterations::new(IterationMarkers::WholeTrace, extent.map(mark).into_iter().collect(), None)
}

/// The first and the last moment of all activity on threads and streams.
pub(crate) fn extent(trace: &Trace) -> Option<Interval> {
    let mut states = EventStates::new(trace);
    let works = trace.events.iter().filter(|event| event.category.on_device() || states.get(event).is_some());
    works.map(|event| (event.start, event.end())).reduce(|all, event| (all.0.min(event.0), all.1.max(event.1)))
}
