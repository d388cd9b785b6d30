//! A step with other buckets: edits its graph.

use super::{BucketLimits, assign_passes};
use crate::collectives::CollectiveOperation;
use crate::communication::CommunicationCosts;
use crate::graph::{
    EdgeKind, GradientNode, GraphBuilder, NodeId, RankNodes, ResourceKind, StepGraph, TaskGraph, TaskNode,
    TransferNode, TransferPart, WorkKind,
};
use crate::simulate::{NodeSchedule, simulate};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::{Bytes, count_text};
use std::collections::BTreeSet;
use std::ops::Range;

/// A bucket: the index of the transfer that reduces it in [`StepGraph::transfers`], and its gradients in the order in which they are ready.
pub type Bucket = (usize, Range<usize>);

/// The buckets of a step, of one group of ranks after the other.
///
/// # Errors
/// As for [`buckets_of_groups`].
fn buckets_of(step: &StepGraph) -> Result<Vec<Bucket>> {
    Ok(buckets_of_groups(step)?.concat())
}

/// The same of a step whose all-reduces are each issued behind their gradients, by its replay: those of a forward pass may have the sizes of gradients.
///
/// # Errors
/// As for [`buckets_of_groups`]; all-reduces that are issued before their gradients are there, or are of FSDP.
pub fn buckets_behind_gradients(step: &StepGraph, schedule: &NodeSchedule) -> Result<Vec<Bucket>> {
    if step.is_sharded() {
        // Of gloo reduce-scatters are all-reduces, too.
        return Err(Error::input("FSDP reduces what it shards together: there are no buckets to choose")
            .expected("DistributedDataParallel"));
    }
    let buckets = buckets_of(step)?;
    // The last gradient of a bucket is ready when the operation ends that issues the all-reduce.
    let is_early = |(index, bucket): &Bucket| {
        let before_last = bucket.end.checked_sub(2);
        let is_early = |part: &TransferPart| {
            let gradients = &step.ranks[part.rank].gradients;
            let before = before_last.map(|place| gradients[place]);
            let before = before.filter(|before| before.pass == gradients[bucket.start].pass);
            before.is_some_and(|before| schedule.start(part.issuing.0) < schedule.start(before.ready))
        };
        step.transfers[*index].parts.iter().any(is_early)
    };
    match buckets.iter().any(is_early) {
        false => Ok(buckets),
        true => Err(Error::input("all-reduces of the size of gradients are issued before these are there: they reduce something else, as tensor parallelism does")
            .expected("DistributedDataParallel")),
    }
}

/// The buckets of each group of ranks that reduces its gradients: one, or several where tensor parallelism divides the weights.
///
/// # Errors
/// Steps without gradients, ranks with different gradients, all-reduces that are no sums of consecutive gradients, ranks whose gradients no group reduces, or
/// several do.
pub fn buckets_of_groups(step: &StepGraph) -> Result<Vec<Vec<Bucket>>> {
    let sizes = gradient_sizes(step)?;
    let reduces = (0..step.groups.len()).map(|group| buckets_of_group(step, group));
    let groups: Vec<Vec<Bucket>> = reduces.filter(|buckets| gradient_count(buckets) == sizes.len()).collect();
    let times = |rank: usize| groups.iter().filter(|buckets| ranks_of(step, buckets).contains(&rank)).count();
    let times: Vec<usize> = (0..step.ranks.len()).map(times).collect();
    if !groups.is_empty() && times.iter().all(|times| *times == 1) {
        return Ok(groups);
    }
    let others = || {
        format!(
            "the all-reduces of the step are not those of the buckets of its gradients, which have {}: {}",
            Bytes(sizes.iter().sum()),
            reduced_text(step)
        )
    };
    let problem = match (times.iter().any(|times| *times > 1), groups.is_empty()) {
        (true, _) => "several process groups reduce as much as the gradients have, and which of them reduces the gradients is not known".to_owned(),
        (false, false) => "of some ranks no process group reduces the gradients".to_owned(),
        (false, true) => others(),
    };
    Err(Error::input(problem).expected("DistributedDataParallel without gradient compression, with gradients of one type, whose ranks were all recorded with record_shapes=True"))
}

/// The all-reduces of a group that are sums of gradients that follow one another.
fn buckets_of_group(step: &StepGraph, group: usize) -> Vec<Bucket> {
    let (mut buckets, mut next) = (Vec::new(), 0);
    for (index, transfer) in step.transfers.iter().enumerate().filter(|(_, transfer)| transfer.group == group) {
        let bytes = transfer.bytes.filter(|_| transfer.operation == CollectiveOperation::AllReduce);
        if let Some(end) = bytes.and_then(|bytes| end_of_sum(&step.ranks[0].gradients, next, bytes)) {
            buckets.push((index, next..end));
            next = end;
        }
    }
    buckets
}

/// How many gradients are in some buckets.
fn gradient_count(buckets: &[Bucket]) -> usize {
    buckets.last().map_or(0, |(_, bucket)| bucket.end)
}

/// The ranks that reduce some buckets.
fn ranks_of(step: &StepGraph, buckets: &[Bucket]) -> BTreeSet<usize> {
    buckets.iter().flat_map(|(index, _)| &step.transfers[*index].parts).map(|part| part.rank).collect()
}

/// What a step reduces, in words.
fn reduced_text(step: &StepGraph) -> String {
    let reduces = step.transfers.iter().filter(|transfer| transfer.operation == CollectiveOperation::AllReduce);
    let bytes: Vec<u64> = reduces.filter_map(|transfer| transfer.bytes).collect();
    match bytes.len() {
        0 => "there are none".to_owned(),
        count => {
            let all = Bytes(bytes.into_iter().fold(0, u64::saturating_add));
            format!("{} reduce {all} in other parts than consecutive gradients", count_text(count as u64, "all-reduce"))
        }
    }
}

/// The end of the consecutive gradients of one pass from `start` whose sizes add up to `bytes`.
fn end_of_sum(gradients: &[GradientNode], start: usize, bytes: u64) -> Option<usize> {
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
/// As for [`buckets_of_groups`]; a group whose cost is not known.
pub fn with_limits(step: &StepGraph, communication: &CommunicationCosts, limits: BucketLimits) -> Result<StepGraph> {
    buckets_behind_gradients(step, &simulate(&step.graph))?;
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
/// As for [`buckets_of_groups`]; a group whose cost is not known.
pub fn with_buckets(
    step: &StepGraph,
    communication: &CommunicationCosts,
    buckets: &[Range<usize>],
) -> Result<StepGraph> {
    let groups = buckets_of_groups(step)?;
    if groups.iter().all(|old| old.iter().map(|(_, bucket)| bucket).eq(buckets)) {
        return Ok(step.clone());
    }
    let (mut builder, mut new) = (step.graph.edit(), Vec::new());
    for old in &groups {
        let mut change = Rebucketing { step, builder, old };
        new.extend(change.replace(communication, buckets)?);
        builder = change.builder;
    }
    let graph = builder.finish()?;
    let is_old = |index: &usize| groups.iter().flatten().any(|(bucket, _)| bucket == index);
    let others = step.transfers.iter().enumerate().filter(|(index, _)| !is_old(index));
    let transfers = others.map(|(_, transfer)| transfer.clone()).chain(new).collect();
    Ok(StepGraph { graph, transfers, ranks: step.ranks.clone(), groups: step.groups.clone() })
}

/// How much longer the recorded buckets take than the costs say that are fitted to all steps: new ones are as much off.
fn recorded_by_fitted(step: &StepGraph, communication: &CommunicationCosts, old: &[Bucket]) -> f64 {
    let transfers = || old.iter().map(|(index, _)| &step.transfers[*index]);
    let fitted = transfers().filter_map(|transfer| {
        let size = step.groups[transfer.group].size;
        communication.time(transfer.group, CollectiveOperation::AllReduce, size, transfer.bytes?)
    });
    let fitted: f64 = fitted.sum();
    let recorded: u64 = transfers().map(|transfer| step.graph.node(transfer.node).duration).sum();
    if fitted > 0.0 { recorded as f64 / fitted } else { 1.0 }
}

struct Rebucketing<'a> {
    step: &'a StepGraph,
    builder: GraphBuilder,
    old: &'a [Bucket],
}

impl<'a> Rebucketing<'a> {
    /// Replaces the buckets of a group of ranks.
    fn replace(&mut self, communication: &CommunicationCosts, buckets: &[Range<usize>]) -> Result<Vec<TransferNode>> {
        let sizes = gradient_sizes(self.step)?;
        let slower = recorded_by_fitted(self.step, communication, self.old);
        let ranks = ranks_of(self.step, self.old);
        let issue_times: Vec<(usize, u64)> = ranks.into_iter().map(|rank| (rank, self.issue_time(rank))).collect();
        self.remove_old();
        let group = self.step.transfers[self.old[0].0].group;
        let size = self.step.groups[group].size;
        let add = |bucket: Range<usize>| {
            let bytes = sizes[bucket.clone()].iter().copied().fold(0, u64::saturating_add);
            let time = communication.time(group, CollectiveOperation::AllReduce, size, bytes);
            let time =
                time.ok_or_else(|| Error::input("how long an all-reduce takes is not known from these traces"))?;
            Ok(self.add(bucket, bytes, (slower * time) as u64, &issue_times))
        };
        buckets.iter().cloned().map(add).collect()
    }

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
        for rank in ranks_of(self.step, self.old) {
            let issuing: Vec<NodeId> = self.old_parts(rank).flat_map(TransferPart::issuing_nodes).collect();
            issuing.into_iter().for_each(|id| self.builder.node_mut(id).duration = 0);
        }
        for (index, _) in self.old {
            self.builder.remove(self.step.transfers[*index].node);
        }
    }

    fn add(&mut self, bucket: Range<usize>, bytes: u64, duration: u64, issue_times: &[(usize, u64)]) -> TransferNode {
        let model = &self.step.transfers[self.old[0].0];
        let node = TaskNode { duration, ..*self.step.graph.node(model.node) };
        let node = self.builder.node(node);
        let parts = issue_times.iter().map(|(rank, time)| self.add_part(*rank, node, &bucket, *time)).collect();
        TransferNode { node, operation: CollectiveOperation::AllReduce, group: model.group, bytes: Some(bytes), parts }
    }

    /// The last old part of a rank in the pass of a gradient.
    fn last_of_pass(&self, rank: usize, gradient: usize) -> Option<&'a TransferPart> {
        let gradients = &self.step.ranks[rank].gradients;
        let is_own = |bucket: &Range<usize>| gradients[bucket.start].pass == gradients[gradient].pass;
        let own = self.old.iter().filter(|(_, bucket)| is_own(bucket)).map(|(index, _)| &self.step.transfers[*index]);
        own.flat_map(|transfer| transfer.parts.iter().filter(|part| part.rank == rank)).last()
    }

    /// Whether a recorded node is behind another one of its thread or stream, or is of another.
    fn is_later(&self, node: NodeId, other: NodeId) -> bool {
        let graph = &self.step.graph;
        node > other || graph.node(node).resource != graph.node(other).resource
    }

    /// Lets a rank launch a bucket behind its last gradient, and wait for it before it copies its first gradient out.
    fn add_part(&mut self, rank: usize, transfer: NodeId, bucket: &Range<usize>, issue_time: u64) -> TransferPart {
        let own = &self.step.ranks[rank];
        let GradientNode { ready, kernel, .. } = own.gradients[bucket.end - 1];
        let call = self.builder.call("c10d::allreduce_", None);
        let row = *self.step.graph.node(ready);
        let launch = self.builder.node(TaskNode { duration: issue_time, call, kind: WorkKind::Launch, ..row });
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
        // What goes on before the bucket is launched does not wait for it.
        let is_later = |wait: &NodeId| self.is_later(*wait, ready);
        let wait = of_stream.or(copy).or(old).filter(is_later);
        wait.into_iter().for_each(|wait| self.builder.edge(transfer, wait, EdgeKind::Rendezvous));
        TransferPart { rank, launch, wait, issuing: (launch, NodeId(launch.0 + 1)) }
    }
}

fn next_in_order(graph: &TaskGraph, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
    graph.successors(id).filter(|(_, kind)| *kind == EdgeKind::Order).map(|(next, _)| next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{SyntheticCluster, cluster};

    /// Twelve layers, four in each all-reduce, which took 10 % longer than the costs that are fitted to all steps say.
    #[test]
    fn the_buckets_of_the_step_change_nothing() {
        let mut made = cluster(&SyntheticCluster { layers: 12, ..SyntheticCluster::default() }, 1).unwrap();
        for transfer in &made.job.transfers {
            let time = made.job.graph.node(transfer.node).duration;
            made.job.graph.set_duration(transfer.node, time + time / 10);
        }
        let time = |step: &StepGraph| step.time(&simulate(&step.graph));
        let with = |buckets: &[Range<usize>]| time(&with_buckets(&made.job, &made.communication, buckets).unwrap());
        assert_eq!(with(&[0..4, 4..8, 8..12]), time(&made.job));
        assert_ne!(with(&[0..4, 4..12]), time(&made.job));
        // A cap that two layers do not fill.
        let cap = BucketLimits::of_cap(30.0);
        assert_eq!(time(&with_limits(&made.job, &made.communication, cap).unwrap()), time(&made.job));
    }

    /// What goes on until a gradient is there does not wait for the bucket that is launched behind it.
    #[test]
    fn a_wait_before_the_launch_is_none() {
        let mut made = cluster(&SyntheticCluster { layers: 12, ..SyntheticCluster::default() }, 1).unwrap();
        for part in &mut made.job.transfers[2].parts {
            part.wait = Some(made.job.ranks[part.rank].gradients[11].ready);
        }
        let changed = with_buckets(&made.job, &made.communication, std::slice::from_ref(&(0..12))).unwrap();
        assert!(changed.transfers[0].parts.iter().all(|part| part.wait.is_none()), "{changed:?}");
    }

    /// Two groups of a job with tensor parallelism, each of which half of the ranks reduces their gradients in, and a step whose other group reduces as much of something else on ranks
    /// of the first.
    #[test]
    fn each_group_of_ranks_gets_the_buckets() {
        let shape = SyntheticCluster { layers: 12, ranks: 4, ..SyntheticCluster::default() };
        let mut made = cluster(&shape, 1).unwrap();
        let ambiguous = {
            let mut step = made.job.clone();
            step.groups.push(step.groups[0].clone());
            let others = step.transfers.clone().into_iter().map(|transfer| TransferNode { group: 1, ..transfer });
            step.transfers.extend(others);
            buckets_of_groups(&step).unwrap_err().to_string()
        };
        assert!(ambiguous.contains("several process groups"), "{ambiguous}");
        made.communication.groups.push(made.communication.groups[0]);
        let step = &mut made.job;
        step.groups.push(step.groups[0].clone());
        let mut builder = step.graph.edit();
        for index in 0..step.transfers.len() {
            let transfer = &mut step.transfers[index];
            let node = builder.node(*step.graph.node(transfer.node));
            let (own, parts) = transfer.parts.drain(..).partition(|part| part.rank % 2 == 0);
            transfer.parts = own;
            let other = TransferNode { node, group: 1, parts, ..transfer.clone() };
            step.transfers.push(other);
        }
        step.graph = builder.finish().unwrap();
        let changed = with_buckets(step, &made.communication, std::slice::from_ref(&(0..12))).unwrap();
        let ranks = |transfer: &TransferNode| transfer.parts.iter().map(|part| part.rank).collect::<Vec<_>>();
        let all: Vec<(usize, Vec<usize>)> =
            changed.transfers.iter().map(|transfer| (transfer.group, ranks(transfer))).collect();
        assert_eq!(all, [(0, vec![0, 2]), (1, vec![1, 3])]);
    }
}
