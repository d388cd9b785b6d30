//! The chain of operations that decides when the step ends.

use super::NodeSchedule;
use crate::graph::{NodeId, TaskGraph, WorkKind};
use std::collections::BTreeMap;

/// Time on the critical path of one rank (none for links) and kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CriticalShare {
    /// The rank; none for transfers between ranks.
    pub rank: Option<u32>,
    /// The sort of work.
    pub kind: WorkKind,
    /// Nanoseconds.
    pub time: u64,
}

/// The nodes from the beginning to the end of the step each of which starts when the one before it ends. Of several that
/// end last, the one that was added first counts.
pub fn critical_path(graph: &TaskGraph, schedule: &NodeSchedule) -> Vec<NodeId> {
    let last = graph.ids().rev().max_by_key(|id| schedule.end(graph, *id));
    let mut path: Vec<NodeId> = std::iter::successors(last, |id| schedule.cause(*id)).collect();
    path.reverse();
    path
}

/// The last `time` nanoseconds of a critical path by rank and kind, the largest first. They add up to that time: a step is
/// as long as that of its slowest rank, and the path begins with the first rank.
pub fn shares(graph: &TaskGraph, path: &[NodeId], time: u64) -> Vec<CriticalShare> {
    let mut times = BTreeMap::new();
    for (id, time) in last(graph, path, time) {
        *times.entry((graph.resource_of(id).rank, graph.node(id).kind)).or_insert(0) += time;
    }
    let share = |((rank, kind), time)| CriticalShare { rank, kind, time };
    let mut shares: Vec<CriticalShare> = times.into_iter().map(share).filter(|share| share.time > 0).collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.time));
    shares
}

/// The nodes in the last `time` nanoseconds of a path, from its end, each with its nanoseconds in them.
pub(super) fn last<'a>(
    graph: &'a TaskGraph,
    path: &'a [NodeId],
    time: u64,
) -> impl Iterator<Item = (NodeId, u64)> + 'a {
    let mut left = time;
    path.iter().rev().map(move |id| {
        let own = graph.node(*id).duration.min(left);
        left -= own;
        (*id, own)
    })
}
