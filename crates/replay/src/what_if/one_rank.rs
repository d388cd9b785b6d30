//! What a replay of one rank knows, for comparison: communication takes as long as this rank saw it, waiting included
//! (as in Daydream; Zhu, Phanishayee, Pekhimenko: USENIX ATC 2020).

use crate::graph::{EdgeKind, NodeId, StepGraph};
use crate::simulate::{NodeSchedule, simulate};
use perf4sight_base::error::{Error, Result};

/// The step of one rank by itself: transfers begin when it launches them, and take until they end in the replay of all
/// ranks.
///
/// # Errors
/// A rank without a trace.
pub fn one_rank(step: &StepGraph, number: u32) -> Result<StepGraph> {
    let Some(place) = step.ranks.iter().position(|rank| rank.number == number) else {
        return Err(Error::usage(format!("rank {number} has no trace")));
    };
    let schedule = simulate(&step.graph);
    let mut builder = step.graph.edit();
    let is_other = |id: NodeId| step.graph.resource_of(id).rank.is_some_and(|rank| rank != number);
    builder.remove_edges(|from, to, _: EdgeKind| is_other(from) || is_other(to));
    step.graph.ids().filter(|id| is_other(*id)).for_each(|id| builder.node_mut(id).duration = 0);
    let mut alone = StepGraph { graph: builder.finish()?, ..step.clone() };
    for (node, time) in seen_by(step, &schedule, place) {
        alone.graph.set_duration(node, time);
    }
    alone.ranks.retain(|rank| rank.number == number);
    for transfer in &mut alone.transfers {
        transfer.parts.retain(|part| part.rank == place);
        transfer.parts.iter_mut().for_each(|part| part.rank = 0);
    }
    Ok(alone)
}

/// How long a rank saw each transfer: from its launch, or the end of the one before on the link, until the end.
fn seen_by(step: &StepGraph, schedule: &NodeSchedule, place: usize) -> Vec<(NodeId, u64)> {
    let mut transfers: Vec<_> = step.transfers.iter().collect();
    transfers.sort_by_key(|transfer| schedule.start(transfer.node));
    let mut free = vec![0; step.groups.len()];
    let seen = |transfer: &&crate::graph::TransferNode| {
        let end = schedule.end(&step.graph, transfer.node);
        let launch = transfer.parts.iter().find(|part| part.rank == place).map(|part| part.launch);
        let ready = launch.map_or(end, |launch| schedule.end(&step.graph, launch));
        let before = std::mem::replace(&mut free[transfer.group], end);
        (transfer.node, end - ready.max(before).min(end))
    };
    transfers.iter().map(seen).collect()
}
