//! Backward operations and the forward operations that they follow, as the arrows of PyTorch's profiler connect them.

use super::rows::{RankStep, RowEdge};
use crate::graph::EdgeKind;
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{EventCategory, EventPhase, Trace, TraceEvent};
use std::collections::HashMap;

/// The first rows of backward operations, which wait for the last one of their forward operation on another thread. On
/// one thread the order of the rows is enough.
pub(super) fn edges(trace: &Trace, window: Interval, step: &RankStep) -> Vec<RowEdge> {
    let [first, last] = [window.0, window.1].map(|moment| trace.events.partition_point(|event| event.start < moment));
    let arrows = trace.events[first..last].iter().filter(|event| event.category == EventCategory::ForwardBackward);
    let mut forwards: HashMap<u64, &TraceEvent> = HashMap::new();
    let mut edges = Vec::new();
    let edge = |(awaited, waiting)| RowEdge { awaited, waiting, kind: EdgeKind::ForwardBackward };
    for arrow in arrows {
        match (arrow.phase, forwards.get(&arrow.correlation)) {
            (EventPhase::FlowStart, _) => drop(forwards.insert(arrow.correlation, arrow)),
            (EventPhase::FlowEnd, Some(forward)) if forward.track != arrow.track => {
                edges.extend(last_row(trace, forward, step).zip(row_at(arrow, step)).map(edge));
            }
            (EventPhase::FlowEnd | EventPhase::Complete | EventPhase::Instant, _) => {}
        }
    }
    edges
}

/// The last row of the operation at whose beginning an arrow begins.
fn last_row(trace: &Trace, arrow: &TraceEvent, step: &RankStep) -> Option<usize> {
    let first = trace.events.partition_point(|event| event.start < arrow.start);
    let mut together = trace.events[first..].iter().take_while(|event| event.start == arrow.start);
    let operation = together.find(|event| event.track == arrow.track && event.category == EventCategory::Operator)?;
    step.last_row_before(operation.track, operation.end())
}

/// The row at whose beginning an arrow ends.
fn row_at(arrow: &TraceEvent, step: &RankStep) -> Option<usize> {
    let track = step.tracks.iter().position(|(track, _)| *track == arrow.track)?;
    step.row_during(track, arrow.start)
}
