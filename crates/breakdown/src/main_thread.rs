//! The thread that runs the training script, and what goes on while it waits for others.

use crate::exchange;
use crate::state::State;
use crate::threads::{Stretch, Thread};
use perf4sight_traces::{Category, Trace, TrackId};

/// The one of some threads that runs the script: the one that marks the iterations, else the one that began its process, else the one
/// with most events; none where there are no threads.
pub(crate) fn find(trace: &Trace, threads: &[Thread], marking: Option<TrackId>) -> Option<usize> {
    let rank = |thread: &Thread| {
        let track = &trace.tracks[thread.track.index()];
        (Some(thread.track) == marking, track.process == track.thread, thread.stretches.len())
    };
    (0..threads.len()).max_by_key(|&thread| (rank(&threads[thread]), std::cmp::Reverse(thread)))
}

/// Whether calls of Python were recorded on a thread.
pub(crate) fn has_python(trace: &Trace, thread: &Thread) -> bool {
    events(trace, thread).any(|(category, _)| category == Category::Python)
}

/// What the process does at each moment, as seen from its main thread: what that thread does, and while it sits in a call known to block,
/// what the busiest other thread of the process does. In a trace without Python, where no such call is to be seen, a thread that runs
/// a backward pass stands in while the main one shows nothing. What lies between the stretches is not recorded.
pub(crate) fn timeline(trace: &Trace, threads: &[Thread], main: usize) -> Vec<Stretch> {
    let python = has_python(trace, &threads[main]);
    let own = if python { threads[main].stretches.clone() } else { with_gaps(&threads[main].stretches) };
    let process = |thread: &Thread| &trace.tracks[thread.track.index()].process;
    let others = threads.iter().enumerate().filter(|(at, other)| {
        *at != main && process(other) == process(&threads[main]) && (python || runs_backward(trace, other))
    });
    let blocked = Blocked::of(&own);
    let mut busiest = vec![Busiest::default(); blocked.stretches.len()];
    let others: Vec<&Thread> = others.map(|(_, thread)| thread).collect();
    for (place, other) in others.iter().enumerate() {
        blocked.compare(place, other, &mut busiest);
    }
    let seen = stand_in(own, &blocked, &busiest, &others);
    exchange::waits(trace, threads[main].track, seen)
}

fn events<'a>(trace: &'a Trace, thread: &'a Thread) -> impl Iterator<Item = (Category, &'a str)> {
    let events = thread.stretches.iter().filter_map(|stretch| stretch.event);
    events.map(|event| &trace.events[event as usize]).map(|event| (event.category, trace.name(event)))
}

/// Whether PyTorch's engine of backward passes works on a thread.
fn runs_backward(trace: &Trace, thread: &Thread) -> bool {
    events(trace, thread).any(|(category, name)| {
        category == Category::Operator && name.starts_with("autograd::engine::evaluate_function")
    })
}

/// Stretches, and between them others of which nothing is told.
fn with_gaps(stretches: &[Stretch]) -> Vec<Stretch> {
    let mut filled: Vec<Stretch> = Vec::with_capacity(2 * stretches.len() + 2);
    let gap = |start, end| Stretch { start, end, event: None, state: State::Untold };
    let mut at = i64::MIN;
    for stretch in stretches {
        if at < stretch.start {
            filled.push(gap(at, stretch.start));
        }
        filled.push(*stretch);
        at = stretch.end;
    }
    filled.push(gap(at, i64::MAX));
    filled
}

/// The stretches of the main thread in which others may stand in.
struct Blocked {
    stretches: Vec<Stretch>,
}

/// The thread that works most in a stretch, and how long.
#[derive(Clone, Copy, Default)]
struct Busiest {
    works: i64,
    other: usize,
}

impl Blocked {
    fn of(main: &[Stretch]) -> Self {
        let blocks = |stretch: &&Stretch| matches!(stretch.state, State::Delegates | State::Waits | State::Untold);
        Blocked { stretches: main.iter().filter(blocks).copied().collect() }
    }

    /// Holds how long another thread works in each stretch against the busiest so far.
    fn compare(&self, place: usize, other: &Thread, busiest: &mut [Busiest]) {
        let mut works: Option<(usize, i64)> = None;
        let mut first = 0;
        for stretch in other.stretches.iter().filter(|stretch| stretch.state.works()) {
            first += self.stretches[first..].partition_point(|blocked| blocked.end <= stretch.start);
            for (at, blocked) in self.stretches.iter().enumerate().skip(first) {
                if blocked.start >= stretch.end {
                    break;
                }
                let overlap = stretch.end.min(blocked.end) - stretch.start.max(blocked.start);
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

fn keep(works: Option<(usize, i64)>, other: usize, busiest: &mut [Busiest]) {
    if let Some((at, works)) = works
        && works > busiest[at].works
    {
        busiest[at] = Busiest { works, other };
    }
}

/// The main thread's stretches with those of the others in their places.
fn stand_in(own: Vec<Stretch>, blocked: &Blocked, busiest: &[Busiest], others: &[&Thread]) -> Vec<Stretch> {
    let mut seen = Vec::with_capacity(own.len());
    let mut stand_ins = blocked.stretches.iter().zip(busiest).peekable();
    for stretch in own {
        let stands_in = stand_ins.next_if(|(blocked, _)| blocked.start == stretch.start);
        match stands_in.filter(|(_, busiest)| busiest.works > 0) {
            Some((_, busiest)) => splice(stretch, others[busiest.other], &mut seen),
            None => seen.push(stretch),
        }
    }
    seen
}

/// Adds a stretch of the main thread, with what another thread works meanwhile in its place.
fn splice(stretch: Stretch, other: &Thread, seen: &mut Vec<Stretch>) {
    let mut at = stretch.start;
    let first = other.stretches.partition_point(|other| other.end <= stretch.start);
    let during = other.stretches[first..].iter().take_while(|other| other.start < stretch.end);
    for work in during.filter(|other| other.state.works()) {
        let (start, end) = (work.start.max(stretch.start), work.end.min(stretch.end));
        if at < start {
            seen.push(Stretch { start: at, end: start, ..stretch });
        }
        seen.push(Stretch { start, end, ..*work });
        at = end;
    }
    if at < stretch.end {
        seen.push(Stretch { start: at, ..stretch });
    }
}
