//! Shards of parameters that are gathered earlier, or once: FSDP.

use perf4sight_base::error::{Error, Result};
use perf4sight_replay::collectives::Operation;
use perf4sight_replay::graph::{EdgeKind, NodeId, StepGraph, TransferPart};
use perf4sight_replay::simulate::simulate;
use perf4sight_replay::what_if::{Change, Scenario};

/// Part of the names of what backward runs inside.
const BACKWARD: [&str; 2] = ["autograd::engine", "pre_backward"];

/// The parameters of a module are gathered as soon as those of the module before it are there.
#[derive(Debug, Clone, Copy)]
pub struct Prefetch;

/// The parameters that forward gathered stay until backward has used them.
#[derive(Debug, Clone, Copy)]
pub struct KeepGathered;

/// Names of what FSDP gathers shards inside: those of `fully_shard`, and of the module of the first version. Others gather as well, but no
/// parameters.
const FSDP: [&str; 2] = ["fsdp::", "fullyshardeddataparallel"];

/// The places of all transfers by which FSDP gathers shards.
///
/// # Errors
/// None at all.
pub fn gathers(step: &StepGraph) -> Result<Vec<usize>> {
    let calls = step.graph.calls();
    let is_fsdp = |part: &TransferPart| {
        let mut path = calls.path(step.graph.node(part.launch).call);
        path.any(|name| FSDP.iter().any(|known| name.to_ascii_lowercase().contains(known)))
    };
    let is_gather = |index: &usize| {
        let transfer = &step.transfers[*index];
        transfer.operation == Operation::AllGather && transfer.parts.iter().any(is_fsdp)
    };
    let gathers: Vec<usize> = (0..step.transfers.len()).filter(is_gather).collect();
    match gathers.is_empty() {
        false => Ok(gathers),
        true => Err(Error::input("the step gathers no shards of parameters").expected("a job with fully_shard")),
    }
}

impl Change for Prefetch {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let step = &mut scenario.step;
        let gathers = gathers(step)?;
        let schedule = simulate(&step.graph);
        let mut builder = step.graph.edit();
        for pair in gathers.windows(2) {
            let [before, own] = [&step.transfers[pair[0]], &step.transfers[pair[1]]];
            for part in &own.parts {
                let wait = before.parts.iter().find(|other| other.rank == part.rank).and_then(|other| other.wait);
                let is_earlier = |wait: &NodeId| schedule.start(*wait) < schedule.start(part.launch);
                let Some(wait) = wait.filter(is_earlier) else { continue };
                builder.remove_edges(|from, to, _| from == part.launch && to == own.node);
                builder.edge(wait, own.node, EdgeKind::Rendezvous);
            }
        }
        step.graph = builder.finish()?;
        Ok(())
    }

    fn assumption(&self) -> Option<String> {
        Some("the parameters of one more module are in memory".to_owned())
    }
}

impl Change for KeepGathered {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let step = &mut scenario.step;
        let in_backward = |index: &usize| {
            let launch = step.transfers[*index].parts.first().map(|part| step.graph.node(part.launch).call);
            launch.is_some_and(|call| {
                step.graph.calls().path(call).any(|name| BACKWARD.iter().any(|known| name.contains(known)))
            })
        };
        let again: Vec<usize> = gathers(step)?.into_iter().filter(in_backward).collect();
        if again.is_empty() {
            return Err(Error::input("backward gathers no shards that forward had gathered"));
        }
        let nodes: Vec<NodeId> = again.into_iter().map(|index| step.transfers[index].node).collect();
        nodes.into_iter().for_each(|node| step.graph.set_duration(node, 0));
        Ok(())
    }

    fn assumption(&self) -> Option<String> {
        Some("all parameters are in memory from forward to backward, on every rank".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_replay::graph::{Builder, Kind, Node, Resource, ResourceKind, Transfer};

    /// A step that gathers inside calls of these names, the outer one first.
    fn step(names: [&str; 2]) -> Result<StepGraph> {
        let mut builder = Builder::default();
        let resource = builder.resource(Resource { rank: Some(0), kind: ResourceKind::Thread, name: String::new() });
        let outer = builder.call(names[0], None);
        let call = builder.call(names[1], Some(outer));
        let node = builder.node(Node { duration: 1, call, resource, kind: Kind::Operation, priority: 0 });
        let part = TransferPart { rank: 0, launch: node, wait: None, issuing: (node, node) };
        let transfer = Transfer { node, operation: Operation::AllGather, group: 0, bytes: None, parts: vec![part] };
        Ok(StepGraph { graph: builder.finish()?, transfers: vec![transfer], ..StepGraph::default() })
    }

    /// Names of a job of plain `torch.distributed`, and of jobs of both versions of FSDP.
    #[test]
    fn what_others_gather_are_no_shards() -> Result<()> {
        assert!(gathers(&step(["c10d::allgather_", "gloo:all_gather"])?).is_err());
        assert_eq!(gathers(&step(["FSDP::all_gather (0)", "c10d::_allgather_base_"])?)?, [0]);
        assert_eq!(gathers(&step(["FullyShardedDataParallel.forward", "c10d::_allgather_base_"])?)?, [0]);
        Ok(())
    }
}
