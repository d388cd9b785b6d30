//! Finds unmarked iterations: the name of an event at the beginning of similar spans of a thread's time.

use crate::iterations::marks::{FoundIterations, IterationMarkers, is_window, marks_between};
use perf4sight_traces::{EventCategory, EventPhase, NameId, Trace, TraceEvent, TrackId};
use std::collections::{BTreeMap, HashMap};

/// With fewer occurrences, there are too few spans to distinguish repetition from chance.
const FEWEST: usize = 5;
const MOST_CERTAIN: f64 = 0.99;
/// The number of candidates: the numbers of occurrences that most names share.
const TRIED: usize = 8;
/// Periods with a smaller certainty are rejected. Iterations in recordings of an MLP, a ResNet and a loader have 0.98
/// and more; a call in loops between two iterations, too few iterations to be found, has 0.64.
const CERTAIN: f64 = 0.8;

/// An event that repeats with a smaller certainty is not worth a try.
const LIKELY: f64 = 0.3;

/// The iterations of a thread by the event that repeats most regularly, if one does. In a loop, most names occur once
/// per iteration, or a few times. Of the names with equally many occurrences, the first one begins the iterations.
pub(crate) fn find(trace: &Trace, track: TrackId) -> Option<FoundIterations> {
    let events = outer_events(trace, track);
    let (certainty, name) = most_regular(&events).filter(|(certainty, _)| *certainty >= CERTAIN)?;
    let begins: Vec<i64> = events.iter().filter(|event| event.name == name).map(|event| event.start).collect();
    let times = begins.windows(2).filter(|pair| is_window(&(pair[0], pair[1]))).count();
    let certainty = (certainty * of_repeats(times)).min(MOST_CERTAIN);
    let markers = IterationMarkers::Period { event: trace.names.get(name).to_owned(), certainty };
    Some(marks_between(&begins, markers, track))
}

/// The event that repeats most regularly, where none does so with certainty.
pub(crate) fn likely_marker(trace: &Trace, track: TrackId) -> Option<String> {
    let (_, name) = most_regular(&outer_events(trace, track)).filter(|(certainty, _)| *certainty >= LIKELY)?;
    Some(trace.names.get(name).to_owned())
}

fn most_regular(events: &[&TraceEvent]) -> Option<(f64, NameId)> {
    let tried = candidates(events).into_iter().map(|name| (certainty(events, name), name));
    tried.max_by(|a, b| a.0.total_cmp(&b.0))
}

/// The events of a thread outside of operators and modules, because repetition in a module is that of its layers. Names
/// with an address are left out, because it may change between iterations.
fn outer_events(trace: &Trace, track: TrackId) -> Vec<&TraceEvent> {
    let lasting: Vec<bool> = trace.names.all().map(|(_, name)| !name.contains(" at 0x")).collect();
    let mut inside = i64::MIN;
    let is_outer = |event: &&TraceEvent| {
        let category =
            matches!(event.category, EventCategory::Annotation | EventCategory::Operator | EventCategory::Python);
        if !category || event.track != track || event.phase != EventPhase::Complete || event.start < inside {
            return false;
        }
        if event.category == EventCategory::Operator || trace.name(event).starts_with("nn.Module: ") {
            inside = event.end();
        }
        lasting[event.name.index()]
    };
    trace.events.iter().filter(is_outer).collect()
}

/// For each number of occurrences that many names share, the name that occurs first.
fn candidates(events: &[&TraceEvent]) -> Vec<NameId> {
    let mut occurrences: HashMap<NameId, (usize, usize)> = HashMap::new();
    for (place, event) in events.iter().enumerate() {
        occurrences.entry(event.name).or_insert((0, place)).0 += 1;
    }
    let mut shared: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for (count, first) in occurrences.into_values().filter(|(count, _)| *count >= FEWEST) {
        let (names, earliest) = shared.entry(count).or_insert((0, first));
        *names += 1;
        *earliest = first.min(*earliest);
    }
    let mut shared: Vec<(usize, usize)> = shared.into_values().collect();
    shared.sort_by_key(|(names, first)| (std::cmp::Reverse(*names), *first));
    shared.into_iter().take(TRIED).map(|(_, first)| events[first].name).collect()
}

/// The certainty that a name begins iterations, from 0 to 1: the share of events that each span between two occurrences
/// has in common with the span before, times the share of all events that are in those spans.
fn certainty(events: &[&TraceEvent], name: NameId) -> f64 {
    let begins: Vec<usize> = (0..events.len()).filter(|place| events[*place].name == name).collect();
    let counted = |pair: &[usize]| {
        let mut counts: HashMap<NameId, usize> = HashMap::new();
        events[pair[0]..pair[1]].iter().for_each(|event| *counts.entry(event.name).or_default() += 1);
        counts
    };
    let (mut common, mut all) = (0, 0);
    let mut before: Option<HashMap<NameId, usize>> = None;
    for pair in begins.windows(2) {
        let counts = counted(pair);
        if let Some(before) = &before {
            let both = counts.iter().map(|(name, count)| (*count).min(before.get(name).copied().unwrap_or(0)));
            let both: usize = both.sum();
            common += both;
            all += counts.values().sum::<usize>() + before.values().sum::<usize>() - both;
        }
        before = Some(counts);
    }
    // The time after the last occurrence is assumed to be as long as an average span.
    let inside = begins.last().zip(begins.first()).map_or(0, |(last, first)| last - first);
    let inside = inside + inside / begins.len().saturating_sub(1).max(1);
    let covered = (inside as f64 / events.len() as f64).min(1.0);
    if all == 0 { 0.0 } else { common as f64 / all as f64 * covered }
}

/// The certainty from the number of repetitions alone, from 0 to 1: after `n` occurrences, another one has a
/// probability of `(n + 1) / (n + 2)` (Laplace's rule of succession).
fn of_repeats(times: usize) -> f64 {
    (times as f64 + 1.0) / (times as f64 + 2.0)
}
