//! What of a job computes in half precision already, which half precision does not make faster.

use super::class_of_kernel;
use crate::graph::{Graph, NodeId};
use crate::ranks::Job;
use std::collections::BTreeMap;

/// Shares of the calls of operators, by their names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InHalf {
    /// Of those with inputs of 16 bits or fewer.
    half: BTreeMap<String, f64>,
    /// Of those with inputs of 64 bits, which autocast leaves as they are (`cached_cast` in aten/src/ATen/autocast_mode.cpp).
    double: BTreeMap<String, f64>,
}

/// From this share on, all counts as in half precision already.
pub const ALL: f64 = 0.99;

impl InHalf {
    /// Of the shares of operators by their names, where nothing has 64 bits.
    pub fn new(half: BTreeMap<String, f64>) -> Self {
        InHalf { half, double: BTreeMap::new() }
    }

    /// Of a job's traces.
    pub fn of(job: &Job) -> Self {
        let mut calls: BTreeMap<String, [f64; 3]> = BTreeMap::new();
        for trace in job.ranks.iter().map(|rank| &rank.trace) {
            for (name, precision) in &trace.precisions {
                let counts = calls.entry(trace.names.get(*name).to_owned()).or_default();
                let own = [precision.half, precision.full, precision.double];
                counts.iter_mut().zip(own).for_each(|(count, own)| *count += f64::from(own));
            }
        }
        let share = |place: usize| {
            let share = |counts: &[f64; 3]| counts[place] / counts.iter().sum::<f64>();
            calls.iter().map(|(name, counts)| (name.clone(), share(counts))).collect()
        };
        InHalf { half: share(0), double: share(2) }
    }

    /// Whether the traces contain types of inputs.
    pub fn is_recorded(&self) -> bool {
        !self.half.is_empty()
    }

    /// Whether gradients are, or, where these are not recorded, what ranks exchange.
    pub fn gradients(&self) -> bool {
        let exchanged = ["torch::autograd::AccumulateGrad", "record_param_comms", "c10d::allreduce_"];
        exchanged.iter().find_map(|name| self.half.get(*name)).is_some_and(|share| *share > 0.5)
    }

    /// The shares of the calls in half and in double precision of the innermost operator with known types that a node belongs to.
    fn recorded(&self, graph: &Graph, id: NodeId) -> Option<[f64; 2]> {
        let shares = |name: &str| Some([*self.half.get(name)?, self.double.get(name).copied().unwrap_or(0.0)]);
        graph.calls().path(graph.node(id).call).find_map(shares)
    }

    /// Whether a kernel computes in half precision, by its operator, else by its name; none where neither says it.
    pub fn of_kernel(&self, graph: &Graph, id: NodeId) -> Option<bool> {
        self.recorded(graph, id).map(|[half, _]| half > 0.5).or_else(|| class_of_kernel(graph, id).1)
    }

    /// The share of a kernel that half precision does not make faster: what computes in it already, by its operator, else by its name, none of it where
    /// neither says it; and what computes in double precision.
    pub fn share(&self, graph: &Graph, id: NodeId) -> f64 {
        let by_name = || f64::from(u8::from(class_of_kernel(graph, id).1 == Some(true)));
        self.recorded(graph, id).map_or_else(by_name, |[half, double]| half + double)
    }

    /// The share of the time of some nodes.
    pub fn share_of(&self, graph: &Graph, nodes: impl Iterator<Item = NodeId>) -> f64 {
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
    use crate::graph::{Builder, Kind, Node, Resource, ResourceKind};

    /// Autocast leaves double precision as it is, and a product of which a quarter each is in half and in double gets faster by half.
    #[test]
    fn double_precision_stays_as_half_does() {
        let mut builder = Builder::default();
        let resource = builder.resource(Resource { rank: Some(0), kind: ResourceKind::Stream, name: "7".to_owned() });
        let call = builder.call("aten::mm", None);
        let node = builder.node(Node { duration: 8, call, resource, kind: Kind::Kernel, priority: 0 });
        let graph = builder.finish().unwrap();
        let shares = |share| BTreeMap::from([("aten::mm".to_owned(), share)]);
        let mixed = InHalf { half: shares(0.25), double: shares(0.25) };
        assert!((mixed.share(&graph, node) - 0.5).abs() < 1e-12 && mixed.of_kernel(&graph, node) == Some(false));
    }
}
