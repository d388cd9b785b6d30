//! How much longer or shorter the step gets with each operation.

use super::{NodeSchedule, critical_path, slack};
use crate::graph::{NodeId, TaskGraph};
use std::collections::BTreeMap;

/// The change of the step's time with the duration of one node, as long as the change is small: 1 is nanosecond for
/// nanosecond. Exact for the order in which the resources did their work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeSensitivity {
    /// Whether the step gets longer if the node does: some critical path goes through it.
    pub longer: bool,
    /// Whether the step gets shorter if the node does: every critical path goes through it.
    pub shorter: bool,
}

/// The sensitivity of the step's time to every node.
///
/// Critical edges lead from a node without slack to one without slack that starts when it ends. In the order of the
/// starts, a node is on every critical path if all critical edges that begin before it and end at it or behind it end at
/// it: a path over any other of them would pass it by.
pub fn sensitivity(graph: &TaskGraph, schedule: &NodeSchedule) -> Vec<NodeSensitivity> {
    let critical: Vec<bool> = slack(graph, schedule).into_iter().map(|slack| slack == 0).collect();
    let edges = critical_edges(graph, schedule, &critical);
    let mut incoming = vec![0u64; critical.len()];
    edges.iter().flatten().for_each(|to| incoming[*to as usize] += 1);
    let is_source = |id: &NodeId| critical[id.index()] && incoming[id.index()] == 0;
    // Every source is the end of one edge from before the beginning.
    let mut open: u64 = schedule.order().filter(is_source).count() as u64;
    let mut result = vec![NodeSensitivity::default(); critical.len()];
    for id in schedule.order().filter(|id| critical[id.index()]) {
        let ends_here = incoming[id.index()].max(1);
        result[id.index()] = NodeSensitivity { longer: true, shorter: open == ends_here };
        let ends = edges[id.index()].is_empty();
        // A node that nothing critical waits for is the start of one edge to behind the end.
        open = open - ends_here + edges[id.index()].len() as u64 + u64::from(ends);
    }
    result
}

/// For each node the critical edges from it, those by the order of its resource included.
fn critical_edges(graph: &TaskGraph, schedule: &NodeSchedule, critical: &[bool]) -> Vec<Vec<u32>> {
    let mut edges = vec![Vec::new(); critical.len()];
    let mut last_on_resource: Vec<Option<NodeId>> = vec![None; graph.resources().len()];
    for id in schedule.order() {
        let last = last_on_resource[graph.node(id).resource.index()].replace(id);
        let binds = |from: NodeId, to: NodeId| {
            critical[from.index()] && critical[to.index()] && schedule.end(graph, from) == schedule.start(to)
        };
        if let Some(last) = last.filter(|last| binds(*last, id)) {
            edges[last.index()].push(id.0);
        }
        let targets = graph.targets_of(id.index()).iter().filter(|target| binds(id, NodeId(**target)));
        edges[id.index()].extend(targets);
    }
    edges
}

/// Nanoseconds of the last `time` of the path for each name of operations, the largest first: how fast the step gets shorter if all
/// operations of the name do, as long as the critical path stays where it is.
pub fn of_names<'a>(graph: &'a TaskGraph, path: &[NodeId], time: u64) -> Vec<(&'a str, u64)> {
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    critical_path::last(graph, path, time).for_each(|(id, own)| *times.entry(graph.name(id)).or_insert(0) += own);
    let mut times: Vec<(&str, u64)> = times.into_iter().filter(|(_, time)| *time > 0).collect();
    times.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    times
}
