//! By how much each operation could take longer without the step taking longer.

use super::NodeSchedule;
use crate::graph::TaskGraph;

/// For each node the nanoseconds by which it could end later without the step ending later, if every resource keeps the
/// order in which it did its work.
pub fn slack(graph: &TaskGraph, schedule: &NodeSchedule) -> Vec<u64> {
    let makespan = schedule.makespan(graph);
    let mut latest_start = vec![0; graph.nodes().len()];
    let mut next_on_resource = vec![makespan; graph.resources().len()];
    let mut slack = vec![0; graph.nodes().len()];
    for id in schedule.order().rev() {
        let node = graph.node(id);
        let next = &mut next_on_resource[node.resource.index()];
        let targets = graph.targets_of(id.index()).iter().map(|target| latest_start[*target as usize]);
        let latest_end = targets.fold(*next, u64::min);
        *next = latest_end.saturating_sub(node.duration);
        latest_start[id.index()] = *next;
        slack[id.index()] = next.saturating_sub(schedule.start(id));
    }
    slack
}
