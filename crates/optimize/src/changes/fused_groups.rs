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
    /// At which bound of what fusion saves: -1 or 1, or 0 for what is expected.
    pub bound: f64,
}

/// What compilers really fuse saves so much more or less (`docs/optimize.md`, "What is assumed").
const UNCERTAIN: f64 = 0.3;
/// A fused kernel takes at least this share of the kernels that it replaces.
const LEAST: f64 = 0.02;

impl FusedGroups {
    /// The share of its kernels' time that a group takes, at this bound, by the expected one.
    fn at_bound(&self, share: f64) -> f64 {
        let saved = (1.0 - share) * (1.0 - UNCERTAIN * self.bound);
        (1.0 - saved).max(LEAST.min(share))
    }
}

impl StepChange for FusedGroups {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let graph = &mut scenario.step.graph;
        for group in &self.groups {
            let all: u64 = group.nodes.iter().map(|id| graph.node(*id).duration).sum();
            group.nodes.iter().chain(&group.launches).for_each(|id| graph.set_duration(*id, 0));
            graph.set_duration(group.takes, (all as f64 * self.at_bound(group.share)).round() as u64);
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
                "fused operations save what they would write and read of each other, at the rate at which each moves its tensors in the trace; the interval holds three tenths more and less, since compilers decide what they fuse, and of DistributedDataParallel nothing across buckets"
            }
        };
        Some(takes.to_owned())
    }

    fn bounds(&self) -> Vec<Box<dyn StepChange>> {
        let at = |bound| Box::new(FusedGroups { bound, ..self.clone() }) as Box<dyn StepChange>;
        vec![at(-1.0), at(1.0)]
    }
}

/// What waits for one of the operations waits for all of them.
fn read_later(graph: &TaskGraph, group: &FusedGroup) -> Vec<(NodeId, NodeId, EdgeKind)> {
    let waiting = group.nodes.iter().flat_map(|id| graph.successors(*id));
    let others = waiting.filter(|(to, kind)| *kind != EdgeKind::Order && !group.nodes.contains(to));
    others.map(|(to, kind)| (group.takes, to, kind)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group that is to save half of its time saves 35 to 65 % of it; what saves nothing surely saves nothing.
    #[test]
    fn what_fusion_saves_is_uncertain() {
        let shares = |share: f64| {
            [-1.0, 0.0, 1.0].map(|bound| FusedGroups { groups: Vec::new(), simulate: false, bound }.at_bound(share))
        };
        assert!(shares(0.5).iter().zip([0.35, 0.5, 0.65]).all(|(share, expected)| (share - expected).abs() < 1e-12));
        assert_eq!(shares(1.0), [1.0; 3]);
        assert!(shares(0.01)[0] > 0.0);
    }
}
