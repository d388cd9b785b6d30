//! Finds the thread that runs the training script, and the work of other threads while it waits.

use crate::categories::thread_state::ThreadState;
use crate::threads::gradient_exchange;
use crate::threads::{ThreadSpan, ThreadTimeline};
use perf4sight_traces::intervals::{Interval, clipped};
use perf4sight_traces::{EventCategory, Trace, TrackId};
use std::sync::Arc;

/// The index of the thread that runs the script: the one that marks the iterations, else the one that began its
/// process, else the one with most events; none if there are no threads.
pub(crate) fn find(trace: &Trace, threads: &[ThreadTimeline], marking: Option<TrackId>) -> Option<usize> {
    let rank = |thread: &ThreadTimeline| {
        let track = &trace.tracks[thread.track.index()];
        (Some(thread.track) == marking, track.process == track.thread, thread.spans.len())
    };
    (0..threads.len()).max_by_key(|&thread| (rank(&threads[thread]), std::cmp::Reverse(thread)))
}

pub(crate) fn has_python(trace: &Trace, thread: &ThreadTimeline) -> bool {
    events(trace, thread).any(|(category, _)| category == EventCategory::Python)
}

/// The number under which PyTorch writes Python functions of threads that began before the profiler. The built-in functions that they call are under
/// the threads' own numbers, so nothing under this number shows when they wait.
const NO_THREAD: &str = "0";

/// The state of the process at each moment as seen from its main thread. While the main thread is in a call that is
/// known to block, the busiest other thread of the process counts instead. A trace without Python does not show such
/// calls; there, a thread that runs a backward pass counts while the main thread has no event. Time between the spans
/// is not recorded.
pub(crate) fn timeline(trace: &Trace, threads: &[ThreadTimeline], main: usize) -> Arc<Vec<ThreadSpan>> {
    let python = has_python(trace, &threads[main]);
    let own = MainThread { spans: &threads[main].spans, gaps: !python };
    let track = |thread: &ThreadTimeline| &trace.tracks[thread.track.index()];
    let others = threads.iter().enumerate().filter(|(at, other)| {
        let is_of_process = *at != main && track(other).process == track(&threads[main]).process;
        is_of_process && track(other).thread != NO_THREAD && (python || runs_backward(trace, other))
    });
    let others: Vec<&ThreadTimeline> = others.map(|(_, thread)| thread).collect();
    let seen = if others.is_empty() { threads[main].spans.clone() } else { Arc::new(stand_in(&own, &others)) };
    gradient_exchange::with_exchange_waits(trace, threads[main].track, seen)
}

fn events<'a>(trace: &'a Trace, thread: &'a ThreadTimeline) -> impl Iterator<Item = (EventCategory, &'a str)> {
    let events = thread.spans.iter().map(|span| &trace.events[span.event as usize]);
    events.map(|event| (event.category, trace.name(event)))
}

/// Whether PyTorch's autograd engine runs on a thread.
fn runs_backward(trace: &Trace, thread: &ThreadTimeline) -> bool {
    events(trace, thread)
        .any(|(category, name)| category == EventCategory::Operator && name.starts_with(gradient_exchange::NODE))
}

/// The main thread; if `gaps` is set, other threads may count in the gaps between its spans.
struct MainThread<'a> {
    spans: &'a [ThreadSpan],
    gaps: bool,
}

impl<'a> MainThread<'a> {
    /// Its spans and gaps in order; the last gap has no end.
    fn parts(&self) -> impl Iterator<Item = (Interval, Option<&'a ThreadSpan>)> + use<'a> {
        let (spans, gaps) = (self.spans, self.gaps);
        let mut at = i64::MIN;
        let part = move |span: &'a ThreadSpan| {
            let gap = (at, span.start);
            at = span.end;
            [(gap, None), ((span.start, span.end), Some(span))]
        };
        let end = spans.last().map_or(i64::MIN, |last| last.end);
        let parts = spans.iter().flat_map(part).chain([((end, i64::MAX), None)]);
        parts.filter(move |((start, end), own)| own.is_some() || (gaps && start < end))
    }
}

struct BlockedTime {
    parts: Vec<Interval>,
}

/// The busiest thread in an interval, and its working time.
#[derive(Clone, Copy, Default)]
struct BusiestThread {
    works: i64,
    other: usize,
}

impl BlockedTime {
    fn find(main: &MainThread) -> Self {
        let blocks = |own: Option<&ThreadSpan>| {
            own.is_none_or(|own| {
                matches!(own.state, ThreadState::Delegates | ThreadState::Waits | ThreadState::Unrecorded)
            })
        };
        BlockedTime { parts: main.parts().filter(|(_, own)| blocks(*own)).map(|(part, _)| part).collect() }
    }

    /// Compares the working time of another thread in each interval with that of the busiest so far.
    fn compare(&self, place: usize, other: &ThreadTimeline, busiest: &mut [BusiestThread]) {
        let mut works: Option<(usize, i64)> = None;
        let mut first = 0;
        for span in other.spans.iter().filter(|span| span.state.is_working()) {
            first += self.parts[first..].partition_point(|(_, end)| *end <= span.start);
            for (at, (start, end)) in self.parts.iter().enumerate().skip(first) {
                if *start >= span.end {
                    break;
                }
                let overlap = span.end.min(*end) - span.start.max(*start);
                works = match works {
                    Some((before, sum)) if before == at => Some((at, sum.saturating_add(overlap))),
                    before => {
                        keep(before, place, busiest);
                        Some((at, overlap))
                    }
                };
            }
        }
        keep(works, place, busiest);
    }
}

fn keep(works: Option<(usize, i64)>, other: usize, busiest: &mut [BusiestThread]) {
    if let Some((at, works)) = works
        && works > busiest[at].works
    {
        busiest[at] = BusiestThread { works, other };
    }
}

fn stand_in(own: &MainThread, others: &[&ThreadTimeline]) -> Vec<ThreadSpan> {
    let blocked = BlockedTime::find(own);
    let mut busiest = vec![BusiestThread::default(); blocked.parts.len()];
    for (place, other) in others.iter().enumerate() {
        blocked.compare(place, other, &mut busiest);
    }
    let mut seen = Vec::with_capacity(own.spans.len());
    let mut stand_ins = blocked.parts.iter().zip(busiest).peekable();
    for (part, own) in own.parts() {
        let stands_in = stand_ins.next_if(|(blocked, _)| **blocked == part);
        match stands_in.filter(|(_, busiest)| busiest.works > 0) {
            Some((_, busiest)) => splice((part, own), others[busiest.other], &mut seen),
            None => seen.extend(own.copied()),
        }
    }
    seen
}

/// Adds a part of the main thread, with the working spans of another thread in its place.
fn splice(((start, end), own): (Interval, Option<&ThreadSpan>), other: &ThreadTimeline, seen: &mut Vec<ThreadSpan>) {
    let mut at = start;
    for ((start, end), work) in clipped(&other.spans, (start, end)).filter(|(_, other)| other.state.is_working()) {
        if at < start {
            seen.extend(own.map(|own| ThreadSpan { start: at, end: start, ..*own }));
        }
        seen.push(ThreadSpan { start, end, ..*work });
        at = end;
    }
    if at < end {
        seen.extend(own.map(|own| ThreadSpan { start: at, end, ..*own }));
    }
}
