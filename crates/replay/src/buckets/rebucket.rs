//! A step with other buckets: edits its graph.

use super::{Limits, assign_passes};
use crate::collectives::Operation;
use crate::communication::Communication;
use crate::graph::{
    Builder, EdgeKind, Gradient, Graph, Kind, Node, NodeId, RankNodes, ResourceKind, StepGraph, Transfer, TransferPart,
};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::{Bytes, counted};
use std::ops::Range;

/// The transfers of a step that reduce its buckets: the index of each in [`StepGraph::transfers`], and its gradients in
/// the order in which they are ready.
///
/// # Errors
/// Steps without gradients, ranks with different gradients, all-reduces that are no sums of consecutive gradients.
pub fn buckets_of(step: &StepGraph) -> Result<Vec<(usize, Range<usize>)>> {
    let sizes = gradient_sizes(step)?;
    let gradients = &step.ranks[0].gradients;
    let (mut buckets, mut next) = (Vec::new(), 0);
    for (index, transfer) in step.transfers.iter().enumerate() {
        let bytes = transfer.bytes.filter(|_| transfer.operation == Operation::AllReduce);
        if let Some(end) = bytes.and_then(|bytes| end_of_sum(gradients, next, bytes)) {
            buckets.push((index, next..end));
            next = end;
        }
    }
    match next == sizes.len() {
        true => Ok(buckets),
        false => Err(Error::input(format!(
            "the all-reduces of the step are not those of the buckets of its gradients, which have {}: {}",
            Bytes(sizes.iter().sum()),
            reduced(step)
        ))
        .expected("DistributedDataParallel without gradient compression, with gradients of one type, whose ranks were all recorded with record_shapes=True")),
    }
}

/// What a step reduces, in words.
fn reduced(step: &StepGraph) -> String {
    let reduces = step.transfers.iter().filter(|transfer| transfer.operation == Operation::AllReduce);
    let bytes: Vec<u64> = reduces.filter_map(|transfer| transfer.bytes).collect();
    match bytes.len() {
        0 => "there are none".to_owned(),
        count => {
            let all = Bytes(bytes.into_iter().fold(0, u64::saturating_add));
            format!("{} reduce {all} in other parts than consecutive gradients", counted(count as u64, "all-reduce"))
        }
    }
}

/// The end of the consecutive gradients of one pass from `start` whose sizes add up to `bytes`.
fn end_of_sum(gradients: &[Gradient], start: usize, bytes: u64) -> Option<usize> {
    let pass = gradients.get(start)?.pass;
    let own = gradients[start..].iter().take_while(|gradient| gradient.pass == pass);
    let sums = own.scan(0, |sum: &mut u64, gradient| {
        *sum = sum.saturating_add(gradient.bytes);
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= bytes).position(|sum| sum == bytes).map(|place| start + place + 1)
}

/// The sizes of the gradients, the same on all ranks, in the order in which they are ready.
///
/// # Errors
/// Steps without gradients, ranks with different gradients.
pub fn gradient_sizes(step: &StepGraph) -> Result<Vec<u64>> {
    let sizes = |rank: &RankNodes| rank.gradients.iter().map(|gradient| gradient.bytes).collect::<Vec<_>>();
    let first = step.ranks.first().map(sizes).unwrap_or_default();
    if first.is_empty() {
        return Err(Error::input("the traces contain no gradients with sizes")
            .expected("torch::autograd::AccumulateGrad with its Input Dims")
            .help("record with record_shapes=True"));
    }
    match step.ranks.iter().find(|rank| sizes(rank) != first) {
        Some(other) => Err(Error::input(format!(
            "the gradients of rank {} are others than those of rank {}, or are ready in another order",
            other.number, step.ranks[0].number
        ))
        .expected("ranks that train the same model")),
        None => Ok(first),
    }
}

/// The step with buckets of other limits.
///
/// # Errors
/// As for [`buckets_of`]; a group whose cost is not known.
pub fn with_limits(step: &StepGraph, communication: &Communication, limits: Limits) -> Result<StepGraph> {
    gradient_sizes(step)?;
    with_buckets(
        step,
        communication,
        &assign_passes(step.ranks[0].gradients.iter().map(|one| (one.pass, one.bytes)), limits),
    )
}

/// The step with other buckets: the gradients of each, which follow one another in the order in which they are ready. With
/// the buckets that it has, it stays as it is.
///
/// # Errors
/// As for [`buckets_of`]; a group whose cost is not known.
pub fn with_buckets(step: &StepGraph, communication: &Communication, buckets: &[Range<usize>]) -> Result<StepGraph> {
    let old = buckets_of(step)?;
    if old.iter().map(|(_, bucket)| bucket).eq(buckets) {
        return Ok(step.clone());
    }
    let sizes = gradient_sizes(step)?;
    let mut change = Change { step, builder: step.graph.edit(), old: &old };
    let slower = recorded_by_fitted(step, communication, &old);
    let issue_times: Vec<u64> = (0..step.ranks.len()).map(|rank| change.issue_time(rank)).collect();
    change.remove_old();
    let group = step.transfers[old[0].0].group;
    let new: Result<Vec<Transfer>> = buckets
        .iter()
        .cloned()
        .map(|bucket| {
            let bytes = sizes[bucket.clone()].iter().copied().fold(0, u64::saturating_add);
            let time = communication.time(group, Operation::AllReduce, step.groups[group].size, bytes);
            let time =
                time.ok_or_else(|| Error::input("how long an all-reduce takes is not known from these traces"))?;
            Ok(change.add(bucket, bytes, (slower * time) as u64, &issue_times))
        })
        .collect();
    let (graph, new) = (change.builder.finish()?, new?);
    let is_old = |index: &usize| old.iter().any(|(bucket, _)| bucket == index);
    let others = step.transfers.iter().enumerate().filter(|(index, _)| !is_old(index));
    let transfers = others.map(|(_, transfer)| transfer.clone()).chain(new).collect();
    Ok(StepGraph { graph, transfers, ranks: step.ranks.clone(), groups: step.groups.clone() })
}

/// How much longer the recorded buckets take than the costs say that are fitted to all steps: new ones are as much off.
fn recorded_by_fitted(step: &StepGraph, communication: &Communication, old: &[(usize, Range<usize>)]) -> f64 {
    let transfers = || old.iter().map(|(index, _)| &step.transfers[*index]);
    let fitted = transfers().filter_map(|transfer| {
        let size = step.groups[transfer.group].size;
        communication.time(transfer.group, Operation::AllReduce, size, transfer.bytes?)
    });
    let fitted: f64 = fitted.sum();
    let recorded: u64 = transfers().map(|transfer| step.graph.node(transfer.node).duration).sum();
    if fitted > 0.0 { recorded as f64 / fitted } else { 1.0 }
}

struct Change<'a> {
    step: &'a StepGraph,
    builder: Builder,
    old: &'a [(usize, Range<usize>)],
}

impl<'a> Change<'a> {
    fn old_parts(&self, rank: usize) -> impl Iterator<Item = &'a TransferPart> {
        let transfers = self.old.iter().map(|(index, _)| &self.step.transfers[*index]);
        transfers.flat_map(move |transfer| transfer.parts.iter().filter(move |part| part.rank == rank))
    }

    /// How long a rank's call that enqueues an all-reduce takes on average.
    fn issue_time(&self, rank: usize) -> u64 {
        let parts: Vec<&TransferPart> = self.old_parts(rank).collect();
        let times = parts.iter().flat_map(|part| part.issuing_nodes()).map(|id| self.step.graph.node(id).duration);
        times.fold(0, u64::saturating_add) / parts.len().max(1) as u64
    }

    /// Removes the old all-reduces, and the time of the calls that enqueued them.
    fn remove_old(&mut self) {
        for rank in 0..self.step.ranks.len() {
            let issuing: Vec<NodeId> = self.old_parts(rank).flat_map(TransferPart::issuing_nodes).collect();
            issuing.into_iter().for_each(|id| self.builder.node_mut(id).duration = 0);
        }
        for (index, _) in self.old {
            self.builder.remove(self.step.transfers[*index].node);
        }
    }

    fn add(&mut self, bucket: Range<usize>, bytes: u64, duration: u64, issue_times: &[u64]) -> Transfer {
        let model = &self.step.transfers[self.old[0].0];
        let node = Node { duration, ..*self.step.graph.node(model.node) };
        let node = self.builder.node(node);
        let parts =
            issue_times.iter().enumerate().map(|(rank, time)| self.add_part(rank, node, &bucket, *time)).collect();
        Transfer { node, operation: Operation::AllReduce, group: model.group, bytes: Some(bytes), parts }
    }

    /// The last old part of a rank in the pass of a gradient.
    fn last_of_pass(&self, rank: usize, gradient: usize) -> Option<&'a TransferPart> {
        let gradients = &self.step.ranks[rank].gradients;
        let is_own = |bucket: &Range<usize>| gradients[bucket.start].pass == gradients[gradient].pass;
        let own = self.old.iter().filter(|(_, bucket)| is_own(bucket)).map(|(index, _)| &self.step.transfers[*index]);
        own.flat_map(|transfer| transfer.parts.iter().filter(|part| part.rank == rank)).last()
    }

    /// Lets a rank launch a bucket behind its last gradient, and wait for it before it copies its first gradient out.
    fn add_part(&mut self, rank: usize, transfer: NodeId, bucket: &Range<usize>, issue_time: u64) -> TransferPart {
        let own = &self.step.ranks[rank];
        let Gradient { ready, kernel, .. } = own.gradients[bucket.end - 1];
        let call = self.builder.call("c10d::allreduce_", None);
        let row = *self.step.graph.node(ready);
        let launch = self.builder.node(Node { duration: issue_time, call, kind: Kind::Launch, ..row });
        self.builder.edge(ready, launch, EdgeKind::Order);
        // The stream of the library waits for the one that gradients are computed on (`syncStreams` of ProcessGroupNCCL.cpp).
        if let Some(kernel) = kernel {
            self.builder.edge(kernel, transfer, EdgeKind::Synchronisation);
        }
        for next in next_in_order(&self.step.graph, ready) {
            self.builder.edge(launch, next, EdgeKind::Order);
        }
        self.builder.edge(launch, transfer, EdgeKind::Rendezvous);
        let old = self.last_of_pass(rank, bucket.start).and_then(|last| last.wait);
        // On a GPU a stream waits, and not the thread that launches the copies out of buckets.
        let of_stream = old.filter(|wait| self.step.graph.resource_of(*wait).kind == ResourceKind::Stream);
        let copy = (own.copies.len() == own.gradients.len()).then(|| own.copies[bucket.start]);
        let wait = of_stream.or(copy).or(old);
        wait.into_iter().for_each(|wait| self.builder.edge(transfer, wait, EdgeKind::Rendezvous));
        TransferPart { rank, launch, wait, issuing: (launch, NodeId(launch.0 + 1)) }
    }
}

fn next_in_order(graph: &Graph, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
    graph.successors(id).filter(|(_, kind)| *kind == EdgeKind::Order).map(|(next, _)| next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::simulate;
    use crate::synthetic::{Cluster, cluster};

    /// Twelve layers, four in each all-reduce, which took 10 % longer than the costs that are fitted to all steps say.
    #[test]
    fn the_buckets_of_the_step_change_nothing() {
        let mut made = cluster(&Cluster { layers: 12, ..Cluster::default() }, 1).unwrap();
        for transfer in &made.job.transfers {
            let time = made.job.graph.node(transfer.node).duration;
            made.job.graph.set_duration(transfer.node, time + time / 10);
        }
        let time = |step: &StepGraph| step.time(&simulate(&step.graph));
        let with = |buckets: &[Range<usize>]| time(&with_buckets(&made.job, &made.communication, buckets).unwrap());
        assert_eq!(with(&[0..4, 4..8, 8..12]), time(&made.job));
        assert_ne!(with(&[0..4, 4..12]), time(&made.job));
        // A cap that two layers do not fill.
        let cap = Limits::of_cap(30.0);
        assert_eq!(time(&with_limits(&made.job, &made.communication, cap).unwrap()), time(&made.job));
    }
}
