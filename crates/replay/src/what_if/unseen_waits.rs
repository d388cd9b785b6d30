//! Waits of which there is no record: threads that may wait for GPUs, so that only GPUs keep a step busy, streams that were taken to wait for others, and
//! exchanges whose results nothing is seen to wait for.

use crate::graph::recorded::{thread_nodes, with_threads};
use crate::graph::{EdgeKind, StepGraph, TransferNode};
use crate::simulate::{NodeSchedule, simulate};
use perf4sight_base::error::Result;
use std::collections::BTreeMap;

/// Threads that are as busy as GPUs that never wait for them, up to this share, seem to wait for them.
const AS_BUSY: f64 = 0.9;

/// The step with threads that take no time, if all that is known of them may be waiting for GPUs: GPUs work all the time on what was launched
/// long before, and a thread that nothing keeps from launching more takes as long as they do.
pub(super) fn without_threads(step: &StepGraph) -> Option<StepGraph> {
    let mut by_thread: BTreeMap<u32, u64> = BTreeMap::new();
    for id in thread_nodes(&step.graph) {
        let node = step.graph.node(id);
        *by_thread.entry(node.resource.0).or_default() += node.duration;
    }
    let busiest = by_thread.into_values().max()? as f64;
    let time = |step: &StepGraph| step.time(&simulate(&step.graph)) as f64;
    let enough = AS_BUSY * time(step);
    if busiest < enough {
        return None;
    }
    let without = with_threads(step, 0.0);
    (time(&without) >= enough).then_some(without)
}

/// The step in which no stream waits for another but where it is known to; none if nothing was assumed.
///
/// # Errors
/// None but of the builder of graphs: fewer edges make no cycle.
pub(super) fn without_assumed_waits(step: &StepGraph) -> Result<Option<StepGraph>> {
    if step.graph.edges().all(|(_, _, kind)| kind != EdgeKind::AssumedWait) {
        return Ok(None);
    }
    let mut builder = step.graph.edit();
    builder.remove_edges(|_, _, kind| kind == EdgeKind::AssumedWait);
    Ok(Some(StepGraph { graph: builder.finish()?, ..step.clone() }))
}

/// The exchanges whose results no rank is seen to wait for.
pub(super) fn unawaited(step: &StepGraph) -> impl Iterator<Item = &TransferNode> {
    step.transfers.iter().filter(|transfer| transfer.parts.iter().all(|part| part.wait.is_none()))
}

/// The nanoseconds of a step whose ranks wait for all of their exchanges before it ends.
pub(super) fn until_all_are_done(step: &StepGraph, schedule: &NodeSchedule) -> u64 {
    let begin = step.ranks.iter().map(|rank| schedule.end(&step.graph, rank.start)).min().unwrap_or(0);
    let done = unawaited(step).map(|transfer| schedule.end(&step.graph, transfer.node)).max().unwrap_or(0);
    step.time(schedule).max(done.saturating_sub(begin))
}
