//! Times that cannot be true: operators of one thread, or kernels of one stream, that overlap in part, and two ranks that do
//! everything in the same nanosecond.

use super::JobRank;
use super::steps::PROFILER;
use perf4sight_base::units::grouped_digits;
use perf4sight_traces::shortened::brief;
use perf4sight_traces::{EventCategory, EventPhase, TraceEvent, TrackId};
use std::collections::BTreeMap;

/// Shorter overlaps are none, in nanoseconds: profilers round to microseconds, and a kernel may begin while the one before ends.
const SHORTEST: i64 = 2_000;
/// Overlaps are reported from this share of the time of all on.
const SHARE: f64 = 0.01;

/// What follows one after the other, or within each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EventLayer {
    Step,
    Operator,
    Kernel,
}

/// Events of one kind on one thread or stream.
#[derive(Default)]
struct TrackRow<'a> {
    /// The ends of those that did not end yet, the innermost last.
    open: Vec<i64>,
    all: u64,
    time: i64,
    odd: u64,
    overlap: i64,
    first: Option<&'a TraceEvent>,
}

/// With fewer events two ranks may have the same ones.
const MANY: usize = 100;

/// Warnings about ranks whose events all begin and end in the same nanosecond: one trace under several names.
pub(super) fn copies(ranks: &[JobRank]) -> Vec<String> {
    let is_same = |one: &JobRank, other: &JobRank| {
        let [one, other] = [&one.trace, &other.trace];
        let mut pairs = one.events.iter().zip(&other.events);
        one.events.len() >= MANY
            && one.events.len() == other.events.len()
            && one.header.base == other.header.base
            && pairs.all(|(one, other)| (one.start, one.duration) == (other.start, other.duration))
    };
    let first = |place: usize| ranks[..place].iter().find(|earlier| is_same(earlier, &ranks[place]));
    let copies = ranks.iter().enumerate().filter_map(|(place, rank)| Some((first(place)?.number, rank.number)));
    let sentence = |(original, copy): (u32, u32)| {
        format!(
            "the events of rank {copy} are those of rank {original} to the nanosecond: is it the same trace under another name?"
        )
    };
    copies.map(sentence).collect()
}

/// What is doubtful in the trace of a rank, in sentences.
pub(super) fn find_doubts(rank: &JobRank) -> Vec<String> {
    let mut rows: BTreeMap<(EventLayer, TrackId), TrackRow> = BTreeMap::new();
    for event in rank.trace.events.iter().filter(|event| event.phase == EventPhase::Complete) {
        if let Some(what) = event_layer(rank, event) {
            rows.entry((what, event.track)).or_default().add(event, what);
        }
    }
    let doubtful = rows.into_iter().filter(|(_, row)| row.overlap as f64 > SHARE * row.time as f64);
    doubtful.filter_map(|((what, track), row)| sentence(rank, what, track, &row)).collect()
}

fn event_layer(rank: &JobRank, event: &TraceEvent) -> Option<EventLayer> {
    match event.category {
        EventCategory::Operator => Some(EventLayer::Operator),
        EventCategory::Kernel | EventCategory::Copy | EventCategory::Set => Some(EventLayer::Kernel),
        EventCategory::Annotation => rank.trace.name(event).starts_with(PROFILER).then_some(EventLayer::Step),
        EventCategory::Python
        | EventCategory::Runtime
        | EventCategory::DeviceAnnotation
        | EventCategory::Synchronisation
        | EventCategory::Overhead
        | EventCategory::ForwardBackward
        | EventCategory::Launch
        | EventCategory::Other => None,
    }
}

impl<'a> TrackRow<'a> {
    fn add(&mut self, event: &'a TraceEvent, what: EventLayer) {
        let overlap = match what {
            EventLayer::Operator => self.outlasting(event),
            EventLayer::Step | EventLayer::Kernel => self.overlapping(event),
        };
        self.all += 1;
        if overlap > SHORTEST {
            self.odd += 1;
            self.overlap += overlap;
            self.first = self.first.or(Some(event));
        }
    }

    /// Nanoseconds by which an operator outlasts the one in which it begins.
    fn outlasting(&mut self, event: &TraceEvent) -> i64 {
        while self.open.pop_if(|end| *end <= event.start).is_some() {}
        let around = self.open.last().copied();
        self.time += if around.is_none() { event.duration } else { 0 };
        self.open.push(event.end());
        around.map_or(0, |end| event.end() - end)
    }

    /// Nanoseconds of an event in which those before it go on.
    fn overlapping(&mut self, event: &TraceEvent) -> i64 {
        let before = self.open.pop().unwrap_or(event.start);
        self.time += event.duration;
        self.open.push(event.end().max(before));
        (before - event.start).min(event.duration)
    }
}

fn sentence(rank: &JobRank, what: EventLayer, track: TrackId, row: &TrackRow) -> Option<String> {
    let (of, do_what) = match what {
        EventLayer::Step => ("steps", "begin before the one before ended"),
        EventLayer::Operator => ("operators of thread", "end after an operator in which they began"),
        EventLayer::Kernel => ("kernels and copies of stream", "begin before the one before ended"),
    };
    let thread = if what == EventLayer::Step { "" } else { &rank.trace.tracks[track.index()].thread };
    let of = format!("{of} {thread}");
    let first = brief(rank.trace.name(row.first?));
    let [odd, all] = [row.odd, row.all].map(grouped_digits);
    let of = of.trim_end();
    Some(format!(
        "rank {}: {odd} of {all} {of} {do_what}, {first} first: its times are doubtful, and what rests on them",
        rank.number
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::steps::StepMarks;
    use perf4sight_traces::{NewEvent, TraceBuilder};

    /// Rows of a thread or stream: name, begin, end in microseconds.
    fn doubts(category: EventCategory, rows: &[(&str, i64, i64)]) -> Vec<String> {
        let mut builder = TraceBuilder::new("rank7.json".as_ref());
        for (name, begin, end) in rows {
            let time = (begin * 1_000, end * 1_000);
            builder.add(NewEvent { name, category, track: ["1", "2"], time, collective: None });
        }
        find_doubts(&JobRank::from_trace(
            perf4sight_traces::RankTrace { rank: 7, trace: builder.finish() },
            StepMarks::Profiler,
        ))
    }

    #[test]
    fn operators_within_each_other_are_usual_and_those_that_overlap_in_part_are_not() {
        let usual = [("a", 0, 100), ("b", 10, 50), ("c", 20, 30), ("d", 50, 101), ("e", 200, 300)];
        assert_eq!(doubts(EventCategory::Operator, &usual), [""; 0]);
        let odd = doubts(EventCategory::Operator, &[("a", 0, 100), ("b", 50, 150), ("c", 200, 300)]);
        assert!(
            odd[0].contains("rank 7: 1 of 3 operators of thread 2 end after") && odd[0].contains("b first"),
            "{odd:?}"
        );
    }

    #[test]
    fn a_stream_does_one_thing_at_a_time() {
        assert_eq!(doubts(EventCategory::Kernel, &[("a", 0, 100), ("b", 99, 150), ("c", 150, 200)]), [""; 0]);
        let odd = doubts(EventCategory::Kernel, &[("a", 0, 1000), ("b", 100, 150), ("c", 150, 200)]);
        assert!(odd[0].contains("2 of 3 kernels and copies of stream 2 begin before the one before ended"), "{odd:?}");
    }

    #[test]
    fn steps_follow_each_other() {
        let odd = doubts(EventCategory::Annotation, &[("ProfilerStep#1", 0, 900), ("ProfilerStep#2", 300, 600)]);
        assert!(odd[0].contains("1 of 2 steps begin before the one before ended"), "{odd:?}");
    }
}
