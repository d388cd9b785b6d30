//! Shards of parameters that are gathered earlier, or once: FSDP.

use super::left_out::leave_out;
use perf4sight_base::error::{Error, Result};
use perf4sight_replay::graph::{EdgeKind, NodeId, StepGraph, WorkKind};
use perf4sight_replay::simulate::simulate;
use perf4sight_replay::what_if::{Scenario, StepChange};

/// Part of the names of what backward runs inside.
const BACKWARD: [&str; 2] = ["autograd::engine", "pre_backward"];

/// The parameters of a module are gathered as soon as those of the module before it are there.
#[derive(Debug, Clone, Copy)]
pub struct Prefetch;

/// The parameters that forward gathered stay until backward has used them.
#[derive(Debug, Clone, Copy)]
pub struct KeepGathered;

/// The places of all transfers by which FSDP gathers shards.
///
/// # Errors
/// None at all.
fn gather_transfers(step: &StepGraph) -> Result<Vec<usize>> {
    let gathers = step.gathers_of_shards();
    match gathers.is_empty() {
        false => Ok(gathers),
        true => Err(Error::input("the step gathers no shards of parameters").expected("a job with fully_shard")),
    }
}

impl StepChange for Prefetch {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let step = &mut scenario.step;
        let gathers = gather_transfers(step)?;
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

impl StepChange for KeepGathered {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let step = &mut scenario.step;
        let in_backward = |index: &usize| {
            step.transfers[*index].parts.first().is_some_and(|part| is_inside(step, part.issuing.0, &BACKWARD))
        };
        let again: Vec<usize> = gather_transfers(step)?.into_iter().filter(in_backward).collect();
        if again.is_empty() {
            return Err(Error::input("backward gathers no shards that forward had gathered"));
        }
        let copies: Vec<NodeId> = gathering_in_backward(step).collect();
        leave_out(step, &again, copies)
    }

    fn assumption(&self) -> Option<String> {
        Some("all parameters are in memory from forward to backward, on every rank".to_owned())
    }
}

/// Names of what `fully_shard` does to gather parameters, from copying the shards in to copying the parameters out.
const GATHERING: [&str; 3] = ["FSDP::all_gather", "fsdp::all_gather", "fsdp::split_with_sizes_copy"];

/// What ranks do in backward to gather parameters, besides the transfers: none of it where they are still there.
fn gathering_in_backward(step: &StepGraph) -> impl Iterator<Item = NodeId> + '_ {
    let is_work = |id: &NodeId| match step.graph.node(*id).kind {
        WorkKind::Operation | WorkKind::Kernel | WorkKind::Launch => true,
        WorkKind::Start | WorkKind::Backlog | WorkKind::Gap | WorkKind::Transfer | WorkKind::Wait => false,
    };
    let is_gathering = |id: &NodeId| is_inside(step, *id, &GATHERING) && is_inside(step, *id, &BACKWARD);
    step.graph.ids().filter(is_work).filter(is_gathering)
}

/// Whether a node is work of a call whose name contains one of these, or inside of one.
fn is_inside(step: &StepGraph, id: NodeId, names: &[&str]) -> bool {
    step.graph.calls().path(step.graph.node(id).call).any(|name| names.iter().any(|known| name.contains(known)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_replay::buckets::buckets_behind_gradients;
    use perf4sight_replay::collectives::CollectiveOperation;
    use perf4sight_replay::communication::CommunicationCosts;
    use perf4sight_replay::graph::{GraphBuilder, Resource, ResourceKind, TaskNode, TransferNode, TransferPart};

    /// A step that gathers inside calls of these names, the outer one first.
    fn step(names: [&str; 2]) -> Result<StepGraph> {
        let mut builder = GraphBuilder::default();
        let resource = builder.resource(Resource { rank: Some(0), kind: ResourceKind::Thread, name: String::new() });
        let outer = builder.call(names[0], None);
        let call = builder.call(names[1], Some(outer));
        let node = builder.node(TaskNode { duration: 1, call, resource, kind: WorkKind::Operation, priority: 0 });
        let part = TransferPart { rank: 0, launch: node, wait: None, issuing: (node, node) };
        let transfer =
            TransferNode { node, operation: CollectiveOperation::AllGather, group: 0, bytes: None, parts: vec![part] };
        Ok(StepGraph { graph: builder.finish()?, transfers: vec![transfer], ..StepGraph::default() })
    }

    fn scenario(step: StepGraph) -> Scenario {
        Scenario { step, communication: CommunicationCosts::default() }
    }

    /// Names of a job of plain `torch.distributed`, and of jobs of both versions of FSDP.
    #[test]
    fn what_others_gather_are_no_shards() -> Result<()> {
        assert!(gather_transfers(&step(["c10d::allgather_", "gloo:all_gather"])?).is_err());
        assert_eq!(gather_transfers(&step(["FSDP::all_gather (0)", "c10d::_allgather_base_"])?)?, [0]);
        assert_eq!(gather_transfers(&step(["FullyShardedDataParallel.forward", "c10d::_allgather_base_"])?)?, [0]);
        // What FSDP reduces are no buckets to choose, though gloo does it by all-reduces.
        let sharded = step(["FSDP::all_gather (0)", "c10d::_allgather_base_"])?;
        let refused = buckets_behind_gradients(&sharded, &simulate(&sharded.graph)).unwrap_err();
        assert!(refused.to_string().contains("FSDP"), "{refused}");
        Ok(())
    }

    /// Calls as PyTorch 2 nests them, each of 10 ns: the unit gathers in forward and again in backward. `unshard` returns at once where parameters are
    /// there, so that of backward the copies in and out and the transfer go, 10 + 10 + 10 + 100 ns, and what gathers in forward stays.
    #[test]
    fn what_is_still_there_is_neither_copied_nor_sent() -> Result<()> {
        let mut builder = GraphBuilder::default();
        let resource = builder.resource(Resource { rank: Some(0), kind: ResourceKind::Thread, name: String::new() });
        let (mut transfers, mut work) = (Vec::new(), Vec::new());
        for hook in ["FSDP::pre_forward (1)", "FSDP::pre_backward (1)"] {
            let hook = builder.call(hook, None);
            let [gather, out] =
                ["FSDP::all_gather (1)", "FSDP::all_gather_copy_out (1)"].map(|name| builder.call(name, Some(hook)));
            let [copy_in, sent, copied] =
                [("fsdp::all_gather_copy_in", gather), ("c10d::_allgather_base_", gather), ("aten::copy_", out)]
                    .map(|(name, around)| builder.call(name, Some(around)));
            let of = |call, kind, duration| TaskNode { duration, call, resource, kind, priority: 0 };
            let own = [copy_in, sent, copied, hook].map(|call| builder.node(of(call, WorkKind::Operation, 10)));
            let node = builder.node(of(sent, WorkKind::Transfer, 100));
            let part = TransferPart { rank: 0, launch: own[1], wait: None, issuing: (own[1], own[2]) };
            let bytes = Some(8);
            transfers.push(TransferNode {
                node,
                operation: CollectiveOperation::AllGather,
                group: 0,
                bytes,
                parts: vec![part],
            });
            work.push([own[0], own[1], own[2], own[3], node]);
        }
        let step = StepGraph { graph: builder.finish()?, transfers, ..StepGraph::default() };
        let mut scenario = scenario(step);
        KeepGathered.apply(&mut scenario)?;
        let times = |ids: &[NodeId; 5]| ids.map(|id| scenario.step.graph.node(id).duration);
        assert_eq!([times(&work[0]), times(&work[1])], [[10, 10, 10, 10, 100], [0, 0, 0, 10, 0]]);
        Ok(())
    }

    /// Two gathers of 100 ns on processors, each launched by its module, which waits for it and computes for 300: 2 x (100 + 300). The second gather that begins when the first
    /// is there runs while the first module computes: 100 + 2 x 300.
    #[test]
    fn a_gather_of_processors_runs_while_the_module_before_computes() -> Result<()> {
        let mut builder = GraphBuilder::default();
        let thread = builder.resource(Resource { rank: Some(0), kind: ResourceKind::Thread, name: String::new() });
        let link = builder.resource(Resource { rank: None, kind: ResourceKind::Link, name: String::new() });
        let (mut transfers, mut last) = (Vec::new(), None);
        for module in ["FSDP::all_gather (0)", "FSDP::all_gather (1)"] {
            let call = builder.call(module, None);
            let mut add = |resource, kind, duration, before: Option<NodeId>, why| {
                let node = builder.node(TaskNode { duration, call, resource, kind, priority: 0 });
                before.into_iter().for_each(|before| builder.edge(before, node, why));
                node
            };
            let launch = add(thread, WorkKind::Operation, 0, last, EdgeKind::Order);
            let node = add(link, WorkKind::Transfer, 100, Some(launch), EdgeKind::Rendezvous);
            let wait = add(thread, WorkKind::Operation, 0, Some(launch), EdgeKind::Order);
            last = Some(add(thread, WorkKind::Operation, 300, Some(wait), EdgeKind::Order));
            builder.edge(node, wait, EdgeKind::Rendezvous);
            let part = TransferPart { rank: 0, launch, wait: Some(wait), issuing: (launch, node) };
            transfers.push(TransferNode {
                node,
                operation: CollectiveOperation::AllGather,
                group: 0,
                bytes: Some(8),
                parts: vec![part],
            });
        }
        let step = StepGraph { graph: builder.finish()?, transfers, ..StepGraph::default() };
        let makespan = |step: &StepGraph| simulate(&step.graph).makespan(&step.graph);
        assert_eq!(makespan(&step), 800);
        let mut scenario = scenario(step);
        Prefetch.apply(&mut scenario)?;
        assert_eq!(makespan(&scenario.step), 700);
        Ok(())
    }
}
