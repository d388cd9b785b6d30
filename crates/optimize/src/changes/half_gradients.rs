//! Gradients that are sent in half of their bytes: the communication hooks of DistributedDataParallel.

use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats::median;
use perf4sight_replay::buckets::buckets_behind_gradients;
use perf4sight_replay::collectives::CollectiveOperation;
use perf4sight_replay::graph::{NodeId, StepGraph, TransferNode, TransferPart, WorkKind};
use perf4sight_replay::simulate::simulate;
use perf4sight_replay::what_if::{HalfPrecisionShares, Scenario, StepChange};

/// A cast from or to four bytes reads and writes six bytes an element, a copy eight.
const CAST: f64 = 6.0 / 8.0;
/// Copies of smaller gradients are mostly the calls around them, in bytes.
const LARGE: u64 = 1 << 16;

/// Nanoseconds by which a byte of halves takes longer than one of floats at most, where processors add them up: by `benches/gloo_halves.py` up to
/// 1.45 in all, where one of floats takes 0.73 to 0.85.
const ADDING: f64 = 1.5;

/// Every bucket is cast to half of its bytes, reduced, and cast back.
#[derive(Debug, Clone, Default)]
pub struct HalfGradients {
    /// What is in half precision already.
    pub in_half: HalfPrecisionShares,
    /// Whether processors add up halves as slowly as they may.
    pub is_slow: bool,
}

impl StepChange for HalfGradients {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        if self.in_half.gradients() {
            return Err(Error::input("the gradients are recorded in half precision already"));
        }
        let reducing = reducing(&scenario.step)?;
        let on_processors = !has_kernels(&scenario.step);
        let per_byte = CAST * copy_per_byte(&scenario.step).unwrap_or(0.0);
        for index in reducing {
            let transfer = &mut scenario.step.transfers[index];
            let bytes = transfer.bytes.unwrap_or(0);
            let size = scenario.step.groups[transfer.group].size;
            let time = scenario.communication.time(transfer.group, transfer.operation, size, bytes / 2);
            let whole = scenario.communication.time(transfer.group, transfer.operation, size, bytes);
            let (time, whole) = time
                .zip(whole)
                .filter(|(_, whole)| *whole > 0.0)
                .ok_or_else(|| Error::input("how long an all-reduce takes is not known from these traces"))?;
            transfer.bytes = Some(bytes / 2);
            let graph = &mut scenario.step.graph;
            let adding = if self.is_slow && on_processors { ADDING * bytes as f64 / 2.0 } else { 0.0 };
            let shorter = graph.node(transfer.node).duration as f64 * time / whole;
            graph.set_duration(transfer.node, (shorter + adding).round() as u64);
            let cast = (per_byte * bytes as f64).round() as u64;
            let ends = transfer.parts.iter().flat_map(|part| [Some(part.launch), part.wait]).flatten();
            let ends: Vec<NodeId> = ends.collect();
            ends.into_iter().for_each(|id| graph.set_duration(id, graph.node(id).duration.saturating_add(cast)));
        }
        Ok(())
    }

    fn assumption(&self) -> Option<String> {
        Some("casts of gradients take three quarters of copying them on CPUs, and nothing beside it on GPUs; libraries add up halves as fast as floats; on CPUs the interval holds 1.5 ns more for each byte of them".to_owned())
    }

    fn bounds(&self) -> Vec<Box<dyn StepChange>> {
        vec![Box::new(HalfGradients { is_slow: true, ..self.clone() })]
    }
}

/// Part of the names of what FSDP reduces gradients inside, of both versions.
const OF_SHARDS: &str = "post_backward";

/// The transfers that reduce gradients: into shards, by all-reduces where the library has nothing else, or of buckets.
fn reducing(step: &StepGraph) -> Result<Vec<usize>> {
    if !step.is_sharded() {
        let buckets = buckets_behind_gradients(step, &simulate(&step.graph))?;
        return Ok(buckets.into_iter().map(|(index, _)| index).collect());
    }
    let is_after_backward = |part: &TransferPart| {
        step.graph.calls().path(step.graph.node(part.issuing.0).call).any(|name| name.contains(OF_SHARDS))
    };
    let reduces = |transfer: &TransferNode| {
        matches!(transfer.operation, CollectiveOperation::ReduceScatter | CollectiveOperation::AllReduce)
            && transfer.parts.iter().any(is_after_backward)
    };
    let found: Vec<usize> = (0..step.transfers.len()).filter(|index| reduces(&step.transfers[*index])).collect();
    match found.is_empty() {
        false => Ok(found),
        true => Err(Error::input("no reduction of sharded gradients was recorded")),
    }
}

/// Whether GPUs compute.
pub fn has_kernels(step: &StepGraph) -> bool {
    step.graph.nodes().iter().any(|node| node.kind == WorkKind::Kernel)
}

/// Nanoseconds per byte of copying a gradient into its bucket on a CPU; none where kernels do it.
fn copy_per_byte(step: &StepGraph) -> Option<f64> {
    if has_kernels(step) {
        return None;
    }
    let gradients = step.ranks.iter().flat_map(|rank| &rank.gradients).filter(|gradient| gradient.bytes >= LARGE);
    let times = gradients.map(|gradient| step.graph.node(gradient.ready).duration as f64 / gradient.bytes as f64);
    let times: Vec<f64> = times.collect();
    (!times.is_empty()).then(|| median(&times))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_replay::communication::{CommunicationCosts, CostEstimate, GroupCost};
    use perf4sight_replay::graph::{GraphBuilder, ProcessGroup, Resource, ResourceKind, TaskNode};

    /// Two ranks that gather and reduce shards of 1,000 bytes at 1 ns a byte: what is reduced takes half of its time, what is gathered stays.
    #[test]
    fn what_fsdp_reduces_is_sent_in_half_and_what_it_gathers_is_not() -> Result<()> {
        let mut builder = GraphBuilder::default();
        let [thread, link] = [ResourceKind::Thread, ResourceKind::Link]
            .map(|kind| builder.resource(Resource { rank: None, kind, name: String::new() }));
        let transfers = [
            ("FSDP::all_gather (0)", CollectiveOperation::AllGather),
            ("FSDP::post_backward_reduce (0)", CollectiveOperation::ReduceScatter),
            ("c10d::allreduce_", CollectiveOperation::AllReduce),
        ];
        let transfers = transfers.map(|(name, operation)| {
            let call = builder.call(name, None);
            let [launch, node] =
                [(thread, WorkKind::Kernel, 0), (link, WorkKind::Transfer, 1_000)].map(|(resource, kind, duration)| {
                    builder.node(TaskNode { duration, call, resource, kind, priority: 0 })
                });
            let part = TransferPart { rank: 0, launch, wait: None, issuing: (launch, node) };
            TransferNode { node, operation, group: 0, bytes: Some(1_000), parts: vec![part] }
        });
        let groups = vec![ProcessGroup { name: String::new(), size: 2, link }];
        let step =
            StepGraph { graph: builder.finish()?, transfers: transfers.to_vec(), groups, ..StepGraph::default() };
        let exactly = |value| CostEstimate { value, low: value, high: value };
        let cost = GroupCost {
            latency: exactly(0.0),
            unknown_latency: None,
            per_byte: exactly(1.0),
            per_byte_within_node: None,
        };
        let communication = CommunicationCosts { groups: vec![Some(cost)], ..CommunicationCosts::default() };
        let mut scenario = Scenario { step, communication };
        HalfGradients::default().apply(&mut scenario)?;
        let times = transfers.map(|transfer| scenario.step.graph.node(transfer.node).duration);
        assert_eq!(times, [1_000, 500, 1_000]);
        Ok(())
    }
}
