//! The result of a replay.

use crate::graph::{NodeId, TaskGraph};

/// When each node starts, and what it waited for last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSchedule {
    pub(super) rows: Vec<ScheduleRow>,
    /// Indices of nodes in the order of their starts; what a node waits for comes before it, even if it takes no time.
    pub(super) order: Vec<u32>,
}

/// What becomes of a node. All of it is needed at the same time, so that it is in one place of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScheduleRow {
    pub start: u64,
    /// The index of the node whose end let it start; [`NodeSchedule::NONE`] if it started at once.
    pub cause: u32,
    /// The number of nodes that it waits for; 0 after the simulation.
    pub waiting_for: u32,
}

impl NodeSchedule {
    pub(super) const NONE: u32 = u32::MAX;

    /// When a node starts: nanoseconds after the first rank begins.
    pub fn start(&self, id: NodeId) -> u64 {
        self.rows[id.index()].start
    }

    /// When a node ends, in the graph that was simulated; the greatest time if it ends behind that.
    pub fn end(&self, graph: &TaskGraph, id: NodeId) -> u64 {
        self.start(id).saturating_add(graph.node(id).duration)
    }

    /// The node whose end let a node start: one that it waits for, or one that kept its resource busy.
    pub fn cause(&self, id: NodeId) -> Option<NodeId> {
        Some(self.rows[id.index()].cause).filter(|cause| *cause != NodeSchedule::NONE).map(NodeId)
    }

    /// Nodes in the order of their starts; what a node waits for comes before it.
    pub fn order(&self) -> impl DoubleEndedIterator<Item = NodeId> + '_ {
        self.order.iter().copied().map(NodeId)
    }

    /// Nanoseconds until the last node ends; 0 without nodes.
    pub fn makespan(&self, graph: &TaskGraph) -> u64 {
        graph.ids().map(|id| self.end(graph, id)).max().unwrap_or(0)
    }

    /// Nanoseconds until the last node of each rank ends, in the order of the ranks.
    pub fn ends_of_ranks(&self, graph: &TaskGraph) -> Vec<(u32, u64)> {
        let mut ends = std::collections::BTreeMap::new();
        for id in graph.ids() {
            if let Some(rank) = graph.resource_of(id).rank {
                let end = ends.entry(rank).or_insert(0);
                *end = self.end(graph, id).max(*end);
            }
        }
        ends.into_iter().collect()
    }
}
