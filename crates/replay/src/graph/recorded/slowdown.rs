//! How much longer the work of each rank took in a step than it usually does.
//!
//! Other programs slow different operations in each step. Medians of operations hide this, sums do not: steps are longer than the medians of
//! their operations. One factor for each rank, kind of work and span between the collectives of the rank describes it.

use crate::graph::queues::{self, LaunchQueues};
use crate::graph::step::StepGraph;
use crate::graph::{NodeId, WorkKind};
use crate::simulate::simulate;
use std::collections::{HashMap, HashSet};

/// The rank of work, its kind, and how many collectives the rank launched before. Transfers are of no rank, and all alike.
type WorkKey = (Option<u32>, WorkKind, u32);

/// Factors of the usual times by the number of the work; none where that usually takes no time.
#[derive(Default)]
pub(super) struct SlowdownFactors(Vec<Option<f64>>);

/// The number of the work that each node of a graph is a part of.
pub(super) struct WorkIndex(Vec<usize>);

impl WorkIndex {
    pub fn from_step(step: &StepGraph) -> Self {
        let graph = &step.graph;
        let launches: HashSet<NodeId> =
            step.transfers.iter().flat_map(|transfer| transfer.parts.iter().map(|part| part.launch)).collect();
        let mut launched = vec![0; graph.nodes().len()];
        for id in simulate(graph).order().filter(|id| graph.resource_of(*id).rank.is_some()) {
            let after = launched[id.index()] + u32::from(launches.contains(&id));
            for (next, _) in graph.successors(id).filter(|(next, _)| graph.resource_of(*next).rank.is_some()) {
                launched[next.index()] = after.max(launched[next.index()]);
            }
        }
        let mut numbers: HashMap<WorkKey, usize> = HashMap::new();
        let number = |id: NodeId| {
            let next = numbers.len();
            *numbers.entry((graph.resource_of(id).rank, graph.node(id).kind, launched[id.index()])).or_insert(next)
        };
        WorkIndex(graph.ids().map(number).collect())
    }
}

impl SlowdownFactors {
    /// Those of a step in which nodes took `own` nanoseconds, which usually take as long as in the graph.
    pub fn compute(usual: &StepGraph, index: &WorkIndex, own: &[u64]) -> Self {
        let mut sums = vec![[0, 0]; index.0.iter().max().map_or(0, |last| last + 1)];
        for ((node, work), own) in usual.graph.nodes().iter().zip(&index.0).zip(own) {
            let [all, usually]: &mut [u64; 2] = &mut sums[*work];
            *all += own;
            *usually += node.duration;
        }
        let factor = |[all, usually]: [u64; 2]| (usually > 0).then(|| all as f64 / usually as f64);
        SlowdownFactors(sums.into_iter().map(factor).collect())
    }

    /// The mean of both.
    pub fn mean_with(&self, other: &SlowdownFactors) -> Self {
        let mean = |(one, other): (&Option<f64>, &Option<f64>)| Some(one.as_ref()?.midpoint(*other.as_ref()?));
        SlowdownFactors(self.0.iter().zip(&other.0).map(mean).collect())
    }

    /// Applies the factors to a usual step, and returns the delays before its kernels that result.
    pub fn apply_to(&self, step: &mut StepGraph, index: &WorkIndex) -> LaunchQueues {
        queues::edit(step, |step| {
            for (id, work) in step.graph.ids().zip(&index.0) {
                let factor = self.0.get(*work).copied().flatten().unwrap_or(1.0);
                let time = step.graph.node(id).duration as f64 * factor;
                step.graph.set_duration(id, time.round() as u64);
            }
        })
    }
}
