//! What of a job computes in half precision already, which half precision does not make faster.

use super::class_of_kernel;
use crate::graph::{Graph, NodeId};
use crate::ranks::Job;
use std::collections::BTreeMap;

/// Shares of the calls of operators that had inputs of 16 bits or fewer, by their names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InHalf(BTreeMap<String, f64>);

/// From this share on, all counts as in half precision already.
pub const ALL: f64 = 0.99;

impl InHalf {
    /// Of the shares of operators by their names.
    pub fn new(shares: BTreeMap<String, f64>) -> Self {
        InHalf(shares)
    }

    /// Of a job's traces.
    pub fn of(job: &Job) -> Self {
        let mut calls: BTreeMap<String, [f64; 2]> = BTreeMap::new();
        for trace in job.ranks.iter().map(|rank| &rank.trace) {
            for (name, precision) in &trace.precisions {
                let [half, all] = calls.entry(trace.names.get(*name).to_owned()).or_default();
                *half += f64::from(precision.half);
                *all += f64::from(precision.half) + f64::from(precision.full);
            }
        }
        InHalf::new(calls.into_iter().map(|(name, [half, all])| (name, half / all)).collect())
    }

    /// Whether the traces contain types of inputs.
    pub fn is_recorded(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether gradients are, or, where these are not recorded, what ranks exchange.
    pub fn gradients(&self) -> bool {
        let exchanged = ["torch::autograd::AccumulateGrad", "record_param_comms", "c10d::allreduce_"];
        exchanged.iter().find_map(|name| self.0.get(*name)).is_some_and(|share| *share > 0.5)
    }

    /// The share of the calls in half precision of the innermost operator with known types that a node belongs to.
    fn recorded(&self, graph: &Graph, id: NodeId) -> Option<f64> {
        graph.calls().path(graph.node(id).call).find_map(|name| self.0.get(name)).copied()
    }

    /// Whether a kernel computes in half precision, by its operator, else by its name; none where neither says it.
    pub fn of_kernel(&self, graph: &Graph, id: NodeId) -> Option<bool> {
        self.recorded(graph, id).map(|share| share > 0.5).or_else(|| class_of_kernel(graph, id).1)
    }

    /// The share of a kernel that computes in half precision, by its operator, else by its name; none of it where neither says it.
    pub fn share(&self, graph: &Graph, id: NodeId) -> f64 {
        let by_name = || f64::from(u8::from(class_of_kernel(graph, id).1 == Some(true)));
        self.recorded(graph, id).unwrap_or_else(by_name)
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
