//! Cuts out the time of `perf4sight record` itself at the ends of iterations, because it is not the script's.

use crate::categories::thread_state::is_of_file;
use crate::iterations::marks::IterationMark;
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{EventCategory, Trace, TrackId};

/// The file of the recorder with the functions that run between a mark and the script's own code. Its hooks are in
/// another file, because they also call the script's code.
const FILE: &str = "perf4sight_recorder/recorder.py";

/// Cuts off the recorder's calls at both ends of the iterations of a thread; a trace without Python calls does not
/// contain them.
pub(crate) fn cut(trace: &Trace, track: TrackId, marks: &mut [IterationMark]) {
    let calls = calls(trace, track);
    let at = |moment: i64| {
        let call = calls.partition_point(|(_, end)| *end < moment);
        calls.get(call).copied().filter(|(start, _)| *start <= moment)
    };
    for mark in marks {
        let (begin, end) = mark.range;
        let begins = at(begin).map_or(begin, |(_, ends)| ends);
        let ends = at(end).map_or(end, |(starts, _)| end_of_wait(trace, track, (starts, end)).unwrap_or(starts));
        if begins < ends {
            mark.window = (begins, ends);
        }
    }
}

/// The outermost calls from the script into the recorder, in order.
fn calls(trace: &Trace, track: TrackId) -> Vec<Interval> {
    let own: Vec<bool> = trace.names.all().map(|(_, name)| is_of_file(name, FILE)).collect();
    let events = trace.events.iter().filter(|event| event.track == track && event.category == EventCategory::Python);
    let mut calls: Vec<Interval> = Vec::new();
    for event in events.filter(|event| own[event.name.index()]) {
        if calls.last().is_none_or(|(_, end)| event.start >= *end) {
            calls.push((event.start, event.end()));
        }
    }
    calls
}

/// The end of the recorder's wait for the accelerator, which belongs to the iteration: work launched within the period
/// must be finished within it.
fn end_of_wait(trace: &Trace, track: TrackId, (begin, end): Interval) -> Option<i64> {
    let first = trace.events.partition_point(|event| event.start < begin);
    let within = trace.events[first..].iter().take_while(|event| event.start < end);
    let calls = within.filter(|event| event.track == track && event.category == EventCategory::Runtime);
    calls.map(|event| event.end().min(end)).max()
}
