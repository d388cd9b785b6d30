//! Operations that are computed together: one of each group takes the time of all, the others take none.

use perf4sight_base::error::Result;
use perf4sight_replay::graph::{EdgeKind, NodeId, TaskGraph};
use perf4sight_replay::what_if::{Scenario, StepChange};

/// Operations that are computed together.
#[derive(Debug, Clone, PartialEq)]
pub struct FusedGroup {
    /// Their nodes, in the order in which they run.
    pub nodes: Vec<NodeId>,
    /// The one that takes the time of all: the first node of the last operation.
    pub takes: NodeId,
    /// What launches the others, which takes no time any longer.
    pub launches: Vec<NodeId>,
    /// The time of all together, as a share of the sum of their times.
    pub share: f64,
}

/// Groups of operations.
#[derive(Debug, Clone)]
pub struct FusedGroups {
    /// The groups.
    pub groups: Vec<FusedGroup>,
    /// Whether they take what was published for simulations, not what their traffic says.
    pub simulate: bool,
}

impl StepChange for FusedGroups {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let graph = &mut scenario.step.graph;
        for group in &self.groups {
            let all: u64 = group.nodes.iter().map(|id| graph.node(*id).duration).sum();
            group.nodes.iter().chain(&group.launches).for_each(|id| graph.set_duration(*id, 0));
            graph.set_duration(group.takes, (all as f64 * group.share).round() as u64);
        }
        let edges: Vec<(NodeId, NodeId, EdgeKind)> =
            self.groups.iter().flat_map(|group| read_later(graph, group)).collect();
        if !edges.is_empty() {
            let mut builder = graph.edit();
            edges.into_iter().for_each(|(from, to, kind)| builder.edge(from, to, kind));
            *graph = builder.finish()?;
        }
        Ok(())
    }

    fn assumption(&self) -> Option<String> {
        let takes = match self.simulate {
            true => "fused operations but the last take 0.8 of their time, as in dPRO (simulate)",
            false => {
                "fused operations save what they would write and read of each other, at the rate at which each moves its tensors in the trace"
            }
        };
        Some(takes.to_owned())
    }
}

/// What waits for one of the operations waits for all of them.
fn read_later(graph: &TaskGraph, group: &FusedGroup) -> Vec<(NodeId, NodeId, EdgeKind)> {
    let waiting = group.nodes.iter().flat_map(|id| graph.successors(*id));
    let others = waiting.filter(|(to, kind)| *kind != EdgeKind::Order && !group.nodes.contains(to));
    others.map(|(to, kind)| (group.takes, to, kind)).collect()
}
