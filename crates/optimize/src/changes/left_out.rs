//! Work that a changed step no longer does, with what it waited for.

use perf4sight_base::error::Result;
use perf4sight_replay::graph::{EdgeKind, NodeId, ResourceKind, StepGraph, TaskGraph, TransferPart, WorkKind};
use std::collections::BTreeSet;

/// Takes transfers out of a step, with what enqueues them and what ranks do to take part, and other work. What follows on the same thread or stream no longer
/// waits for what that waited for: a stream that a removed kernel made wait for another one goes on at once.
pub(super) fn leave_out(
    step: &mut StepGraph,
    transfers: &[usize],
    work: impl IntoIterator<Item = NodeId>,
) -> Result<()> {
    let removed = || transfers.iter().map(|index| &step.transfers[*index]);
    let parts = || removed().flat_map(|transfer| &transfer.parts);
    let launches = parts().map(|part| part.launch).filter(|id| step.graph.node(*id).kind == WorkKind::Launch);
    let enqueued = parts().filter_map(|part| part.wait).filter(|id| is_on_stream(&step.graph, *id));
    let mut gone: BTreeSet<NodeId> = parts().flat_map(TransferPart::issuing_nodes).chain(launches).collect();
    gone.extend(enqueued.chain(work));
    gone.extend(step.graph.delays_before(&gone));
    let mut builder = step.graph.edit();
    removed().for_each(|transfer| builder.remove(transfer.node));
    gone.iter().for_each(|id| builder.node_mut(*id).duration = 0);
    builder.remove_edges(|_, to, kind| kind != EdgeKind::Order && gone.contains(&to));
    step.graph = builder.finish()?;
    let kept = step.transfers.iter().enumerate().filter(|(index, _)| !transfers.contains(index));
    step.transfers = kept.map(|(_, transfer)| transfer.clone()).collect();
    Ok(())
}

fn is_on_stream(graph: &TaskGraph, id: NodeId) -> bool {
    graph.resource_of(id).kind == ResourceKind::Stream
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_replay::collectives::CollectiveOperation;
    use perf4sight_replay::graph::{GraphBuilder, Resource, TaskNode, TransferNode};
    use perf4sight_replay::simulate::simulate;

    /// A stream of products of 100 and 200 ns and between them a copy of 30 that waits, after a delay of 5, for a gather of 50; on the stream of NCCL that waits for a
    /// reduction of 500, delays of 2 before each: 2 + 500 + 2 + 50 + 5 + 30 + 200. Without the gather and its copy products wait for nothing, and the reduction ends last.
    #[test]
    fn what_is_gone_makes_no_stream_wait() -> Result<()> {
        let mut builder = GraphBuilder::default();
        let call = builder.call("", None);
        let mut resource = |rank, kind| builder.resource(Resource { rank, kind, name: format!("{kind:?} {rank:?}") });
        let [compute, nccl] = [(); 2].map(|()| resource(Some(0), ResourceKind::Stream));
        let link = resource(None, ResourceKind::Link);
        let mut add = |resource, kind, duration, after: Option<NodeId>| {
            let id = builder.node(TaskNode { duration, call, resource, kind, priority: 0 });
            after.into_iter().for_each(|after| builder.edge(after, id, EdgeKind::Order));
            id
        };
        let first = add(compute, WorkKind::Kernel, 100, None);
        let delay = add(compute, WorkKind::Gap, 5, Some(first));
        let copy = add(compute, WorkKind::Kernel, 30, Some(delay));
        add(compute, WorkKind::Kernel, 200, Some(copy));
        let reduce = add(nccl, WorkKind::Gap, 2, None);
        let reduced = add(nccl, WorkKind::Wait, 0, Some(reduce));
        let gather = add(nccl, WorkKind::Gap, 2, Some(reduced));
        let gathered = add(nccl, WorkKind::Wait, 0, Some(gather));
        let transfer = |builder: &mut GraphBuilder, operation, duration, [launch, wait]: [NodeId; 2]| {
            let node = builder.node(TaskNode { duration, call, resource: link, kind: WorkKind::Transfer, priority: 0 });
            builder.edge(launch, node, EdgeKind::Rendezvous);
            builder.edge(node, wait, EdgeKind::Rendezvous);
            let part = TransferPart { rank: 0, launch, wait: Some(wait), issuing: (launch, launch) };
            TransferNode { node, operation, group: 0, bytes: Some(8), parts: vec![part] }
        };
        let transfers = vec![
            transfer(&mut builder, CollectiveOperation::ReduceScatter, 500, [reduce, reduced]),
            transfer(&mut builder, CollectiveOperation::AllGather, 50, [gather, gathered]),
        ];
        builder.edge(gathered, delay, EdgeKind::Synchronisation);
        let mut step = StepGraph { graph: builder.finish()?, transfers, ..StepGraph::default() };
        let makespan = |step: &StepGraph| simulate(&step.graph).makespan(&step.graph);
        assert_eq!(makespan(&step), 2 + 500 + 2 + 50 + 5 + 30 + 200);
        leave_out(&mut step, &[1], [copy])?;
        assert_eq!((makespan(&step), step.transfers.len()), (2 + 500, 1));
        assert_eq!(simulate(&step.graph).start(copy), 100);
        Ok(())
    }
}
