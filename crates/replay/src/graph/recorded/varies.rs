//! Whether steps are longer than the usual times of their operations because of what the job does in them, such as batches of
//! different sizes, or because other programs disturb them: these make many operations of processors a little longer each, and
//! leave the kernels of GPUs alone.

use crate::graph::{NodeId, TaskGraph, WorkKind};
use std::collections::BTreeMap;

/// The share of what steps are longer by that one operation in each, or the kernels of one rank, explain.
const EXPLAINED: f64 = 0.5;

/// Whether the job explains by how much steps, recorded with these durations of nodes, are longer than `usual` nanoseconds.
pub(super) fn explains_variation(graph: &TaskGraph, durations: &[Vec<u64>], recorded: &[u64], usual: u64) -> bool {
    let longer: Vec<u64> = recorded.iter().map(|time| time.saturating_sub(usual)).collect();
    let explained = durations.iter().zip(&longer).map(|(own, longer)| explained_excess(graph, own).min(*longer));
    explained.sum::<u64>() as f64 >= EXPLAINED * longer.iter().sum::<u64>().max(1) as f64
}

/// Nanoseconds by which the operation that is longer than usual by most, or all kernels of a rank together, are longer.
fn explained_excess(graph: &TaskGraph, own: &[u64]) -> u64 {
    let longer = |id: NodeId| own[id.index()].saturating_sub(graph.node(id).duration);
    let of_ranks = |id: &NodeId| graph.resource_of(*id).rank.is_some();
    let mut kernels: BTreeMap<Option<u32>, u64> = BTreeMap::new();
    for id in graph.ids().filter(of_ranks).filter(|id| graph.node(*id).kind == WorkKind::Kernel) {
        *kernels.entry(graph.resource_of(id).rank).or_default() += longer(id);
    }
    let longest = graph.ids().filter(of_ranks).map(longer).max();
    kernels.into_values().max().max(longest).unwrap_or(0)
}
