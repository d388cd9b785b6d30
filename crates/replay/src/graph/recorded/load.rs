//! How much longer the work of each rank took in a step than it usually does. Other programs disturb something else in every
//! step: that is in no median of an operation and in every sum, so that steps are longer than the medians of their operations.
//! One factor for each rank and kind of work holds it.

use crate::graph::step::StepGraph;
use crate::graph::{Graph, Kind, NodeId};
use std::collections::BTreeMap;

/// The rank of work, none for transfers, and its kind.
type Work = (Option<u32>, Kind);

/// Factors of the usual times.
#[derive(Default)]
pub(super) struct Load(BTreeMap<Work, f64>);

impl Load {
    /// The load of a step in which nodes took `own` nanoseconds, which usually take as long as in the graph.
    pub fn of(usual: &Graph, own: &[u64]) -> Self {
        let mut sums: BTreeMap<Work, [u64; 2]> = BTreeMap::new();
        for id in usual.ids() {
            let [all, usually] = sums.entry(work(usual, id)).or_default();
            *all += own[id.index()];
            *usually += usual.node(id).duration;
        }
        let known = sums.into_iter().filter(|(_, [_, usually])| *usually > 0);
        Load(known.map(|(work, [all, usually])| (work, all as f64 / usually as f64)).collect())
    }

    /// The mean of two loads.
    pub fn between(&self, other: &Load) -> Self {
        let mean =
            |(work, factor): (&Work, &f64)| (*work, other.0.get(work).map_or(*factor, |other| factor.midpoint(*other)));
        Load(self.0.iter().map(mean).collect())
    }

    /// A usual step under this load.
    pub fn on(&self, mut usual: StepGraph) -> StepGraph {
        for id in usual.graph.ids() {
            let factor = self.0.get(&work(&usual.graph, id)).copied().unwrap_or(1.0);
            let time = usual.graph.node(id).duration as f64 * factor;
            usual.graph.set_duration(id, time.round() as u64);
        }
        usual
    }
}

fn work(graph: &Graph, id: NodeId) -> Work {
    (graph.resource_of(id).rank, graph.node(id).kind)
}
