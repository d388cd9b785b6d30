//! Waiting for other ranks while a backward pass ends: threads of a library exchange gradients, and the engine, which has nothing left to
//! run, waits for them in a call that leaves no event of its own.

use crate::device::{Work, during};
use crate::state::State;
use crate::threads::Stretch;
use perf4sight_traces::intervals::{Interval, union};
use perf4sight_traces::{Category, Event, Ranked, Trace, TrackId};
use std::sync::Arc;

/// How PyTorch calls the ranges of exchanges that processors make; those of GPUs are kernels.
const EXCHANGES: [&str; 3] = ["gloo:", "mpi:", "ucc:"];
/// What the names of exchanges hold that two ranks make: NCCL's kernels, gloo's and MPI's ranges.
const PAIRS: [&str; 3] = ["SendRecv", ":send", ":recv"];
/// The nodes that the engine of backward passes runs.
const NODE: &str = "autograd::engine::evaluate_function";

/// The stretches of a main thread, with waiting where it sits in `run_backward`, all nodes of that behind it, while gradients are
/// exchanged.
pub(crate) fn waits(trace: &Trace, main: TrackId, stretches: Arc<Vec<Stretch>>) -> Arc<Vec<Stretch>> {
    let exchanges = exchanges(trace, main);
    if exchanges.is_empty() {
        return stretches;
    }
    let nodes: Vec<i64> = trace.events.iter().filter(|event| is_node(trace, event)).map(|event| event.start).collect();
    let mut seen = Vec::with_capacity(stretches.len());
    for stretch in stretches.iter().copied() {
        let later = nodes.partition_point(|start| *start < stretch.start);
        let ends = |pass: u32| nodes.get(later).is_none_or(|next| *next >= trace.events[pass as usize].end());
        match stretch.state == State::Delegates && ends(stretch.event) {
            true => divide(stretch, during(&exchanges, (stretch.start, stretch.end)), &mut seen),
            false => seen.push(stretch),
        }
    }
    Arc::new(seen)
}

fn is_node(trace: &Trace, event: &Event) -> bool {
    event.category == Category::Operator && trace.name(event).starts_with(NODE)
}

/// Whether a processor exchanges something while it lasts.
fn is_range(trace: &Trace, event: &Event) -> bool {
    event.category == Category::Annotation && EXCHANGES.iter().any(|known| trace.name(event).starts_with(known))
}

/// Exchanges among all of so many ranks, of processors and accelerators, by their beginnings: those of which a trace tells that fewer take
/// part, and those of two, are of some only.
pub(crate) fn among_all(ranked: &Ranked, ranks: usize) -> Vec<&Event> {
    let trace = &ranked.trace;
    let exchanges = |event: &&Event| is_range(trace, event) || Work::of(trace, event) == Some(Work::Collective);
    let of_all = |event: &&Event| {
        let size = trace.collective(event).map_or(0, |collective| collective.group_size as usize);
        (size == 0 || size == ranks) && !PAIRS.iter().any(|pair| trace.name(event).contains(pair))
    };
    trace.events.iter().filter(exchanges).filter(of_all).collect()
}

/// When other threads exchange something with other ranks.
fn exchanges(trace: &Trace, main: TrackId) -> Vec<Interval> {
    let ranges = trace.events.iter().filter(|event| event.track != main && is_range(trace, event));
    union(ranges.map(|event| (event.start, event.end())))
}

/// Adds a stretch, waiting in some of it.
fn divide(stretch: Stretch, waits: &[Interval], seen: &mut Vec<Stretch>) {
    let mut at = stretch.start;
    for (start, end) in waits.iter().map(|(start, end)| (*start.max(&stretch.start), *end.min(&stretch.end))) {
        let parts = [(at, start, stretch.state), (start, end, State::Waits)];
        let parts = parts.into_iter().filter(|(start, end, _)| start < end);
        seen.extend(parts.map(|(start, end, state)| Stretch { start, end, state, ..stretch }));
        at = end;
    }
    if at < stretch.end {
        seen.push(Stretch { start: at, ..stretch });
    }
}
