//! Finds nodes that wait for each other.

use super::{NodeId, TaskGraph};
use perf4sight_base::error::{Error, Result};

/// Nodes of a cycle that a message names.
const NAMED: usize = 6;

/// Refuses a graph with a cycle.
pub(super) fn refuse(graph: &TaskGraph) -> Result<()> {
    let mut waiting_for = predecessors(graph);
    let mut ready: Vec<u32> = (0..graph.nodes.len() as u32).filter(|node| waiting_for[*node as usize] == 0).collect();
    let mut done = 0;
    while let Some(node) = ready.pop() {
        done += 1;
        for &target in graph.targets_of(node as usize) {
            waiting_for[target as usize] -= 1;
            if waiting_for[target as usize] == 0 {
                ready.push(target);
            }
        }
    }
    match done == graph.nodes.len() {
        true => Ok(()),
        false => Err(error(graph, &waiting_for)),
    }
}

/// For each node how many edges lead to it.
pub(crate) fn predecessors(graph: &TaskGraph) -> Vec<u32> {
    let mut counts = vec![0; graph.nodes.len()];
    graph.structure.targets.iter().for_each(|&target| counts[target as usize] += 1);
    counts
}

fn error(graph: &TaskGraph, waiting_for: &[u32]) -> Error {
    let cycle = find(graph, waiting_for);
    let mut names: Vec<String> = cycle.iter().take(NAMED).map(|id| node_text(graph, *id)).collect();
    if cycle.len() > NAMED {
        names.push(format!("{} more", cycle.len() - NAMED));
    }
    names.extend(cycle.first().map(|id| node_text(graph, *id)));
    Error::input(format!("operations wait for each other in a circle: {}", names.join(" -> ")))
        .expected("operations that each wait only for earlier ones")
        .help("the traces may be of different steps or jobs, or the dependencies of the file may be damaged")
}

fn node_text(graph: &TaskGraph, id: NodeId) -> String {
    let rank = graph.resource_of(id).rank.map_or(String::new(), |rank| format!(" (rank {rank})"));
    format!("{}{rank}", graph.name(id))
}

/// A cycle among the nodes that still wait. Each of them has a predecessor that waits too, so that a walk backwards
/// comes to a node twice.
fn find(graph: &TaskGraph, waiting_for: &[u32]) -> Vec<NodeId> {
    let waits = |node: usize| waiting_for[node] > 0;
    let mut before = vec![None; graph.nodes.len()];
    for (from, to, _) in graph.edges().filter(|(from, to, _)| waits(from.index()) && waits(to.index())) {
        before[to.index()] = Some(from);
    }
    let mut seen = vec![false; graph.nodes.len()];
    let mut walk = Vec::new();
    let mut next = graph.ids().find(|id| waits(id.index()));
    while let Some(id) = next.filter(|id| !seen[id.index()]) {
        seen[id.index()] = true;
        walk.push(id);
        next = before[id.index()];
    }
    let start = walk.iter().position(|id| Some(*id) == next).unwrap_or(0);
    let mut cycle = walk.split_off(start);
    cycle.reverse();
    cycle
}
