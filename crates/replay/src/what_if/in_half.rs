//! What of a job computes in half precision already, which half precision does not make faster.

use super::kernel::{KernelBits, bits_in_name};
use crate::graph::{NodeId, TaskGraph};
use crate::ranks::TrainingJob;
use std::collections::BTreeMap;

/// The types that calls of operators compute with, by the names of these.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HalfPrecisionShares {
    shares: BTreeMap<String, PrecisionShares>,
    /// Whether a change before lowered all that was in single precision.
    is_lowered: bool,
}

/// The kinds of [`PrecisionShares`], in their order.
const BITS: [KernelBits; 4] = [KernelBits::Eight, KernelBits::Half, KernelBits::Single, KernelBits::Double];

/// Shares of the calls of an operator by the type of their inputs, as [`BITS`] has them. Those of 64 bits autocast leaves as they are (`cached_cast` in
/// aten/src/ATen/autocast_mode.cpp).
#[derive(Debug, Clone, Copy, PartialEq)]
struct PrecisionShares([f64; 4]);

/// From this share on, all counts as in half precision already.
pub const ALL: f64 = 0.99;

impl PrecisionShares {
    /// What all calls compute with; none where they differ.
    fn all(self) -> Option<KernelBits> {
        self.most().filter(|(_, share)| *share >= ALL).map(|(bits, _)| bits)
    }

    fn most(self) -> Option<(KernelBits, f64)> {
        BITS.into_iter().zip(self.0).max_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// The share that half precision makes faster.
    fn single(self) -> f64 {
        let [_, _, single, _] = self.0;
        single
    }
}

impl HalfPrecisionShares {
    /// Of the shares of operators in half precision by their names, where all others are in single.
    pub fn new(half: BTreeMap<String, f64>) -> Self {
        let shares = half.into_iter().map(|(name, half)| (name, PrecisionShares([0.0, half, 1.0 - half, 0.0])));
        HalfPrecisionShares { shares: shares.collect(), is_lowered: false }
    }

    /// Of a job's traces.
    pub fn from_job(job: &TrainingJob) -> Self {
        let mut calls: BTreeMap<String, [u64; 4]> = BTreeMap::new();
        for trace in job.ranks.iter().map(|rank| &rank.trace) {
            for (name, precision) in &trace.precisions {
                let counts = calls.entry(trace.names.get(*name).to_owned()).or_default();
                let own = [precision.eight, precision.half, precision.full, precision.double];
                counts.iter_mut().zip(own).for_each(|(count, own)| *count += u64::from(own));
            }
        }
        HalfPrecisionShares::of_calls(calls)
    }

    /// Of how many calls operators have in 8, 16, 32 and 64 bits.
    pub(super) fn of_calls(calls: BTreeMap<String, [u64; 4]>) -> Self {
        let shares = |counts: [u64; 4]| {
            let all = counts.iter().sum::<u64>().max(1) as f64;
            PrecisionShares(counts.map(|count| count as f64 / all))
        };
        HalfPrecisionShares {
            shares: calls.into_iter().map(|(name, counts)| (name, shares(counts))).collect(),
            is_lowered: false,
        }
    }

    /// The same after a change that lowers what is in single precision.
    pub(super) fn lowered(&self) -> Self {
        HalfPrecisionShares { is_lowered: true, ..self.clone() }
    }

    /// Whether the traces contain types of inputs.
    pub fn is_recorded(&self) -> bool {
        !self.shares.is_empty()
    }

    /// Whether gradients are, or, where these are not recorded, what ranks exchange.
    pub fn gradients(&self) -> bool {
        let exchanged = ["torch::autograd::AccumulateGrad", "record_param_comms", "c10d::allreduce_"];
        let shares = exchanged.iter().find_map(|name| self.shares.get(*name));
        self.is_lowered || shares.is_some_and(|PrecisionShares([eight, half, ..])| eight + half > 0.5)
    }

    /// The shares of the calls of the innermost operator with known types that a node belongs to.
    fn recorded(&self, graph: &TaskGraph, id: NodeId) -> Option<PrecisionShares> {
        graph.calls().path(graph.node(id).call).find_map(|name| self.shares.get(name).copied())
    }

    /// What a kernel computes with: by its operator, where all its calls are alike, else by its own name; none where neither says it.
    fn certain(&self, graph: &TaskGraph, id: NodeId) -> Option<KernelBits> {
        let recorded = self.recorded(graph, id).and_then(PrecisionShares::all);
        recorded.or_else(|| bits_in_name(graph.name(id)))
    }

    /// What a kernel computes with: as `certain` says, else as most calls of its operator; none where nothing says it.
    pub fn of_kernel(&self, graph: &TaskGraph, id: NodeId) -> Option<KernelBits> {
        let most = || self.recorded(graph, id).and_then(PrecisionShares::most).map(|(bits, _)| bits);
        let own = self.certain(graph, id).or_else(most);
        let is_lowered = self.is_lowered && matches!(own, Some(KernelBits::Single) | None);
        if is_lowered { Some(KernelBits::Half) } else { own }
    }

    /// The share of a kernel that half precision does not make faster: what computes in it already, or in eight bits, and what computes in double
    /// precision. None of it where nothing says it.
    pub fn share(&self, graph: &TaskGraph, id: NodeId) -> f64 {
        match (self.is_lowered, self.certain(graph, id)) {
            (true, _) | (false, Some(KernelBits::Eight | KernelBits::Half | KernelBits::Double)) => 1.0,
            (false, Some(KernelBits::Single)) => 0.0,
            (false, None) => self.recorded(graph, id).map_or(0.0, |shares| 1.0 - shares.single()),
        }
    }

    /// The share of the time of some nodes.
    pub fn share_of(&self, graph: &TaskGraph, nodes: impl Iterator<Item = NodeId>) -> f64 {
        let [half, all] = nodes.fold([0.0, 0.0], |[half, all], id| {
            let time = graph.node(id).duration as f64;
            [half + time * self.share(graph, id), all + time]
        });
        if all > 0.0 { half / all } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{GraphBuilder, Resource, ResourceKind, TaskNode, WorkKind};

    /// A stream with kernels of these names, all of the same operator.
    fn graph(kernels: &[&str]) -> TaskGraph {
        let mut builder = GraphBuilder::default();
        let resource = builder.resource(Resource { rank: Some(0), kind: ResourceKind::Stream, name: "7".to_owned() });
        let operator = builder.call("aten::mm", None);
        for name in kernels {
            let call = builder.call(name, Some(operator));
            builder.node(TaskNode { duration: 8, call, resource, kind: WorkKind::Kernel, priority: 0 });
        }
        builder.finish().unwrap()
    }

    fn from_counts(calls: [u64; 4]) -> HalfPrecisionShares {
        HalfPrecisionShares::of_calls(BTreeMap::from([("aten::mm".to_owned(), calls)]))
    }

    /// Autocast leaves double precision as it is, and a product of which a quarter each is in half and in double gets faster by half.
    #[test]
    fn double_precision_stays_as_half_does() {
        let (graph, mixed) = (graph(&["kernel"]), from_counts([0, 1, 2, 1]));
        let node = graph.ids().next().unwrap();
        assert!((mixed.share(&graph, node) - 0.5).abs() < 1e-12);
        assert_eq!(mixed.of_kernel(&graph, node), Some(KernelBits::Single));
    }

    /// Of an operator that is called in several types, each kernel says its own.
    #[test]
    fn kernels_of_one_operator_differ_in_precision() {
        let graph = graph(&["ampere_sgemm_128x64_nn", "ampere_bf16_s16816gemm_bf16_128x64", "nvjet_qqtst_128x256"]);
        let mixed = from_counts([1, 1, 1, 0]);
        let all: Vec<(Option<KernelBits>, f64)> =
            graph.ids().map(|id| (mixed.of_kernel(&graph, id), mixed.share(&graph, id))).collect();
        assert_eq!(
            all,
            [(Some(KernelBits::Single), 0.0), (Some(KernelBits::Half), 1.0), (Some(KernelBits::Eight), 1.0)]
        );
    }
}
