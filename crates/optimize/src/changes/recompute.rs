//! Forward once more in backward, instead of keeping what it made: activation checkpointing.

use perf4sight_base::error::{Error, Result};
use perf4sight_replay::graph::{NodeId, TaskGraph, WorkKind};
use perf4sight_replay::what_if::{Scenario, StepChange};
use std::collections::BTreeMap;

/// Part of the names of what backward and the update run inside.
const BACKWARD: &str = "autograd::engine";
const UPDATE: &str = "Optimizer.";
/// What `DistributedDataParallel` and `FullyShardedDataParallel` run the module inside; loaders and losses are outside.
const MODULE: &str = "DataParallel.forward";
/// PyTorch's operators.
const OPERATOR: &str = "aten::";

/// Every block of the model runs forward again in backward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recompute {
    /// All that the module does in forward; its operators alone where the traces do not show when it runs.
    Module,
    /// Its operators, without Python between them and what blocks may not contain.
    Operators,
}

/// Operators that forward calls and no derivative does (`tools/autograd/derivatives.yaml`).
const OF_FORWARD: [&str; 4] =
    ["aten::linear", "aten::conv2d", "aten::layer_norm", "aten::scaled_dot_product_attention"];

/// Whether forward runs again inside backward already.
pub fn recomputes(graph: &TaskGraph) -> bool {
    let calls = graph.calls();
    let mut of_forward = calls.all().filter(|call| OF_FORWARD.contains(&calls.name(*call)));
    of_forward.any(|call| calls.path(call).any(|name| name.contains(BACKWARD)))
}

/// What a node is part of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NodePhase {
    Forward,
    Backward,
    Neither,
}

impl StepChange for Recompute {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let graph = &mut scenario.step.graph;
        let phases = self.phases(graph);
        let mut times: BTreeMap<Option<u32>, [f64; 2]> = BTreeMap::new();
        for (id, phase) in graph.ids().zip(&phases) {
            let [forward, backward] = times.entry(graph.resource_of(id).rank).or_default();
            match phase {
                NodePhase::Forward => *forward += graph.node(id).duration as f64,
                NodePhase::Backward => *backward += graph.node(id).duration as f64,
                NodePhase::Neither => {}
            }
        }
        if times.values().all(|[forward, backward]| *forward == 0.0 || *backward == 0.0) {
            return Err(Error::input(
                "the traces do not tell forward from backward: no call of autograd::engine was recorded",
            ));
        }
        let of_backward = graph.ids().zip(phases).filter(|(_, phase)| *phase == NodePhase::Backward);
        let backward: Vec<NodeId> = of_backward.map(|(id, _)| id).collect();
        for id in backward {
            let [forward, all] = times[&graph.resource_of(id).rank];
            let longer = graph.node(id).duration as f64 * (1.0 + forward / all.max(1.0));
            graph.set_duration(id, longer.round() as u64);
        }
        Ok(())
    }

    fn assumption(&self) -> Option<String> {
        Some("all of forward runs again, spread evenly over backward".to_owned())
    }

    fn bounds(&self) -> Vec<Box<dyn StepChange>> {
        vec![Box::new(Recompute::Operators), Box::new(Recompute::Module)]
    }
}

impl Recompute {
    /// What each node is part of.
    pub(super) fn phases(self, graph: &TaskGraph) -> Vec<NodePhase> {
        let shows_module = graph.calls().names().any(is_module);
        let phase = |id: NodeId| {
            let node = graph.node(id);
            let is_inside = |is: fn(&str) -> bool| graph.calls().path(node.call).any(is);
            if !matches!(node.kind, WorkKind::Operation | WorkKind::Kernel) || is_inside(|name| name.contains(UPDATE)) {
                return NodePhase::Neither;
            }
            if is_inside(|name| name.contains(BACKWARD)) {
                return NodePhase::Backward;
            }
            let is_forward = match (self, shows_module) {
                (Recompute::Module, true) => is_inside(is_module),
                (Recompute::Operators, true) => is_inside(is_module) && is_inside(is_operator),
                (Recompute::Module | Recompute::Operators, false) => is_inside(is_operator),
            };
            if is_forward { NodePhase::Forward } else { NodePhase::Neither }
        };
        graph.ids().map(phase).collect()
    }
}

fn is_module(name: &str) -> bool {
    name.ends_with(MODULE)
}

pub(super) fn is_operator(name: &str) -> bool {
    name.starts_with(OPERATOR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_replay::communication::CommunicationCosts;
    use perf4sight_replay::graph::{GraphBuilder, Resource, ResourceKind, StepGraph, TaskNode};

    /// `torch.utils.checkpoint` runs the module's operators inside the backward of the first that needs their results.
    #[test]
    fn a_module_that_runs_inside_backward_is_recomputed() -> Result<()> {
        for (inner, expected) in [("aten::linear", true), ("aten::mm", false)] {
            let mut builder = GraphBuilder::default();
            let backward = builder.call("autograd::engine::evaluate_function: AddmmBackward0", None);
            builder.call(inner, Some(backward));
            builder.call("aten::linear", None);
            assert_eq!(recomputes(&builder.finish()?), expected, "{inner}");
        }
        Ok(())
    }

    /// Nanoseconds of a backward of 1,000, after a loader of 500 and a module that computes for 100 and sleeps for 30.
    fn backward(around: &str, change: Recompute) -> Result<u64> {
        let mut builder = GraphBuilder::default();
        let resource = builder.resource(Resource { rank: Some(0), kind: ResourceKind::Thread, name: String::new() });
        let module = builder.call(around, None);
        let linear = builder.call("aten::linear", Some(module));
        let names = ["enumerate(DataLoader)#__next__", "autograd::engine::evaluate_function: AddmmBackward0"];
        let [loader, engine] = names.map(|name| builder.call(name, None));
        let times = [(loader, 500), (module, 30), (linear, 100), (engine, 1000)];
        let ids = times.map(|(call, duration)| {
            builder.node(TaskNode { duration, call, resource, kind: WorkKind::Operation, priority: 0 })
        });
        let step = StepGraph { graph: builder.finish()?, ..StepGraph::default() };
        let mut scenario = Scenario { step, communication: CommunicationCosts::default() };
        change.apply(&mut scenario)?;
        Ok(scenario.step.graph.node(ids[3]).duration)
    }

    #[test]
    fn the_module_runs_again_and_no_loader() -> Result<()> {
        let parallel = "DistributedDataParallel.forward";
        assert_eq!(backward(parallel, Recompute::Module)?, 1130);
        assert_eq!(backward(parallel, Recompute::Operators)?, 1100);
        // Where the module does not show its operators do.
        assert_eq!(backward("train.py", Recompute::Module)?, 1100);
        Ok(())
    }
}
