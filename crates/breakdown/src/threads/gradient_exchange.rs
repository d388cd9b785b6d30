//! Detects waiting for other ranks at the end of a backward pass: threads of a library exchange gradients, and the
//! engine, which has no work left, waits for them in a call that has no event.

use crate::categories::thread_state::ThreadState;
use crate::threads::ThreadSpan;
use perf4sight_traces::intervals::{Interval, Timed, pieces, union};
use perf4sight_traces::{EventCategory, RankTrace, Trace, TraceEvent, TrackId};
use std::sync::Arc;

/// Parts of the names of exchanges between two ranks: NCCL's kernels, and the ranges of gloo and MPI.
const PAIRS: [&str; 3] = ["SendRecv", ":send", ":recv"];
/// The name prefix of the nodes that the autograd engine runs.
pub(crate) const NODE: &str = "autograd::engine::evaluate_function";

/// The spans of a main thread. Its time in `run_backward` after the last node of the pass becomes waiting while
/// gradients are exchanged.
pub(crate) fn with_exchange_waits(trace: &Trace, main: TrackId, spans: Arc<Vec<ThreadSpan>>) -> Arc<Vec<ThreadSpan>> {
    let exchanges = exchanges(trace, main);
    if exchanges.is_empty() {
        return spans;
    }
    let nodes: Vec<i64> = trace.events.iter().filter(|event| is_node(trace, event)).map(|event| event.start).collect();
    let mut seen = Vec::with_capacity(spans.len());
    for span in spans.iter().copied() {
        let later = nodes.partition_point(|start| *start < span.start);
        let ends = |pass: u32| nodes.get(later).is_none_or(|next| *next >= trace.events[pass as usize].end());
        match span.state == ThreadState::Delegates && ends(span.event) {
            true => divide(span, &exchanges, &mut seen),
            false => seen.push(span),
        }
    }
    Arc::new(seen)
}

fn is_node(trace: &Trace, event: &TraceEvent) -> bool {
    event.category == EventCategory::Operator && trace.name(event).starts_with(NODE)
}

/// The exchanges among all ranks, on CPUs and accelerators, in order. Exchanges between two ranks, and those whose
/// group in the trace has another size, are left out.
pub(crate) fn among_all(ranked: &RankTrace, ranks: usize) -> Vec<&TraceEvent> {
    let trace = &ranked.trace;
    let of_all = |event: &&TraceEvent| {
        let size = trace.collective(event).map_or(0, |collective| collective.group_size as usize);
        (size == 0 || size == ranks) && !PAIRS.iter().any(|pair| trace.name(event).contains(pair))
    };
    trace.events.iter().filter(|event| trace.is_exchange(event)).filter(of_all).collect()
}

/// The times in which other threads exchange data with other ranks.
fn exchanges(trace: &Trace, main: TrackId) -> Vec<Interval> {
    let is_range = |event: &&TraceEvent| event.category == EventCategory::Annotation && trace.is_exchange(event);
    let ranges = trace.events.iter().filter(|event| event.track != main).filter(is_range);
    union(ranges.map(|event| (event.start, event.end())))
}

/// Adds a span, with waiting in the exchanges during it.
fn divide(span: ThreadSpan, exchanges: &[Interval], seen: &mut Vec<ThreadSpan>) {
    seen.extend(pieces(exchanges, span.interval()).map(|((start, end), exchange)| {
        let state = if exchange.is_some() { ThreadState::Waits } else { span.state };
        ThreadSpan { start, end, state, ..span }
    }));
}
