//! A training step of all ranks as a graph: operations on threads, streams and links, and what each waits for.

mod builder;
mod calls;
mod cycle;
mod node;
pub(crate) mod queues;
pub mod recorded;
mod settled;
mod shards;
mod step;

use perf4sight_traces::LOADER_WITH_WORKERS;
use std::collections::BTreeSet;
use std::sync::Arc;

pub use builder::{GraphBuilder, available_memory, check_memory};
pub use calls::{CallId, CallTable};
pub(crate) use cycle::predecessors;
pub use node::{EdgeKind, NodeId, Resource, ResourceId, ResourceKind, TaskNode, WorkKind};
pub(crate) use step::share_of_ranks;
pub use step::{GradientNode, ProcessGroup, RankNodes, StepGraph, TransferNode, TransferPart};

/// A graph without cycles, whose durations can be changed; [`TaskGraph::edit`] makes copies with other nodes and edges. Clones
/// share all but the nodes.
#[derive(Debug, Clone, Default)]
pub struct TaskGraph {
    nodes: Vec<TaskNode>,
    structure: Arc<GraphStructure>,
}

/// What graphs with other durations have in common.
#[derive(Debug, Default)]
struct GraphStructure {
    /// For each node the end of its edges in `targets`; the next node's edges begin there.
    ends: Vec<u32>,
    targets: Vec<u32>,
    kinds: Vec<EdgeKind>,
    resources: Vec<Resource>,
    calls: CallTable,
}

impl TaskGraph {
    /// The nodes; a [`NodeId`] is an index here.
    pub fn nodes(&self) -> &[TaskNode] {
        &self.nodes
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> &TaskNode {
        &self.nodes[id.index()]
    }

    /// The ids of all nodes, in their order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// Replaces the duration of a node, in nanoseconds. The edges stay as they are, so that no check is needed.
    pub fn set_duration(&mut self, id: NodeId, duration: u64) {
        self.nodes[id.index()].duration = duration;
    }

    /// Nodes that wait for a node, each with the reason.
    pub fn successors(&self, id: NodeId) -> impl Iterator<Item = (NodeId, EdgeKind)> + '_ {
        let range = self.range(id.index());
        range.map(|edge| (NodeId(self.structure.targets[edge]), self.structure.kinds[edge]))
    }

    /// All edges: a node, one that waits for it, and the reason.
    pub fn edges(&self) -> impl Iterator<Item = (NodeId, NodeId, EdgeKind)> + '_ {
        self.ids().flat_map(|from| self.successors(from).map(move |(to, kind)| (from, to, kind)))
    }

    /// The number of edges.
    pub fn edge_count(&self) -> usize {
        self.structure.targets.len()
    }

    /// The indices of the nodes that wait for a node.
    pub(crate) fn targets_of(&self, node: usize) -> &[u32] {
        &self.structure.targets[self.range(node)]
    }

    fn range(&self, node: usize) -> std::ops::Range<usize> {
        let start = node.checked_sub(1).map_or(0, |before| self.structure.ends[before]);
        start as usize..self.structure.ends[node] as usize
    }

    /// Threads, streams and links; a [`ResourceId`] is an index here.
    pub fn resources(&self) -> &[Resource] {
        &self.structure.resources
    }

    /// The resource that a node runs on.
    pub fn resource_of(&self, id: NodeId) -> &Resource {
        &self.structure.resources[self.node(id).resource.index()]
    }

    /// The names of the operations, and inside which others they ran.
    pub fn calls(&self) -> &CallTable {
        &self.structure.calls
    }

    /// The name of a node.
    pub fn name(&self, id: NodeId) -> &str {
        self.structure.calls.name(self.node(id).call)
    }

    /// Whether a thread waits in it for a batch of a loader's workers, which the trace does not show.
    pub fn waits_for_batch(&self, id: NodeId) -> bool {
        self.name(id).contains(LOADER_WITH_WORKERS)
    }

    /// The delays until some of the work on streams begins, which hold what it waits for.
    pub fn delays_before(&self, work: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
        let is_delay =
            |from: NodeId| self.node(from).kind == WorkKind::Gap && self.resource_of(from).kind == ResourceKind::Stream;
        let ordered = self.edges().filter(|(_, to, kind)| *kind == EdgeKind::Order && work.contains(to));
        ordered.map(|(from, ..)| from).filter(|from| is_delay(*from)).collect()
    }

    /// A builder that holds all of this graph, to add and remove nodes and edges. Ids of nodes stay valid.
    pub fn edit(&self) -> GraphBuilder {
        GraphBuilder::with(self)
    }

    /// The memory of the graph in bytes, without names.
    pub fn bytes(&self) -> u64 {
        TaskGraph::bytes_of(self.nodes.len() as u64, self.structure.targets.len() as u64)
    }

    /// The memory in bytes that a graph of so many nodes and edges takes, to be known before it is built.
    pub fn bytes_of(nodes: u64, edges: u64) -> u64 {
        let node = size_of::<TaskNode>() + size_of::<u32>();
        let edge = size_of::<u32>() + size_of::<EdgeKind>();
        nodes * node as u64 + edges * edge as u64
    }
}
