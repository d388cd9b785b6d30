//! Makes a graph from nodes and edges, and refuses cycles and graphs that memory has no place for.

use super::{CallId, CallTable, EdgeKind, GraphStructure, NodeId, Resource, ResourceId, TaskGraph, TaskNode, cycle};
use crate::simulate;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::grouped_digits;
use perf4sight_machine::description::MachineDescription;
use std::sync::Arc;

/// An edge: from, to, why.
pub(super) type GraphEdge = (u32, u32, EdgeKind);

/// A graph that is being made or changed. Ids of nodes stay valid: a removed node stays in place without edges and takes
/// no time.
#[derive(Debug, Clone, Default)]
pub struct GraphBuilder {
    nodes: Vec<TaskNode>,
    edges: Vec<GraphEdge>,
    resources: Vec<Resource>,
    calls: CallTable,
    removed: Vec<NodeId>,
}

impl GraphBuilder {
    pub(super) fn with(graph: &TaskGraph) -> Self {
        GraphBuilder {
            nodes: graph.nodes.clone(),
            edges: graph.edges().map(|(from, to, kind)| (from.0, to.0, kind)).collect(),
            resources: graph.structure.resources.clone(),
            calls: graph.structure.calls.clone(),
            removed: Vec::new(),
        }
    }

    /// A builder of nodes with calls that are known.
    pub fn with_calls(calls: CallTable) -> Self {
        GraphBuilder { calls, ..GraphBuilder::default() }
    }

    /// Adds a thread, stream or link.
    pub fn resource(&mut self, resource: Resource) -> ResourceId {
        self.resources.push(resource);
        ResourceId(self.resources.len() as u32 - 1)
    }

    /// The id of a name inside another call.
    pub fn call(&mut self, name: &str, around: Option<CallId>) -> CallId {
        self.calls.intern(name, around)
    }

    /// The calls so far.
    pub(super) fn calls(&self) -> &CallTable {
        &self.calls
    }

    /// Adds a node.
    pub fn node(&mut self, node: TaskNode) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// The nodes so far.
    pub fn nodes(&self) -> &[TaskNode] {
        &self.nodes
    }

    /// A node, to change it.
    pub fn node_mut(&mut self, id: NodeId) -> &mut TaskNode {
        &mut self.nodes[id.index()]
    }

    /// Makes a node wait for another.
    pub fn edge(&mut self, from: NodeId, to: NodeId, kind: EdgeKind) {
        self.edges.push((from.0, to.0, kind));
    }

    /// Removes the edges that fulfil a condition: from, to, why.
    pub fn remove_edges(&mut self, mut condition: impl FnMut(NodeId, NodeId, EdgeKind) -> bool) {
        self.edges.retain(|&(from, to, kind)| !condition(NodeId(from), NodeId(to), kind));
    }

    /// Removes a node with its edges. What waits for it does not wait any longer.
    pub fn remove(&mut self, id: NodeId) {
        self.nodes[id.index()].duration = 0;
        self.removed.push(id);
    }

    /// The graph.
    ///
    /// # Errors
    /// Nodes that wait for each other, named in the message.
    pub fn finish(mut self) -> Result<TaskGraph> {
        self.leave_out_removed();
        let (ends, targets, kinds) = by_source(self.nodes.len(), &self.edges);
        let GraphBuilder { nodes, resources, calls, .. } = self;
        let structure = GraphStructure { ends, targets, kinds, resources, calls };
        let graph = TaskGraph { nodes, structure: Arc::new(structure) };
        cycle::refuse(&graph)?;
        Ok(graph)
    }

    fn leave_out_removed(&mut self) {
        if self.removed.is_empty() {
            return;
        }
        let mut is_removed = vec![false; self.nodes.len()];
        self.removed.iter().for_each(|id| is_removed[id.index()] = true);
        self.edges.retain(|&(from, to, _)| !is_removed[from as usize] && !is_removed[to as usize]);
    }

    /// Refuses a graph before it is built if it and its simulation need more memory than the limit.
    ///
    /// # Errors
    /// More than `limit` bytes for so many nodes and edges, or more nodes than ids.
    pub fn check_memory(nodes: u64, edges: u64, limit: u64) -> Result<()> {
        let needed = TaskGraph::bytes_of(nodes, edges) + simulate::bytes_of(nodes, 0);
        let counted = format!("a graph of {} nodes and {} edges", grouped_digits(nodes), grouped_digits(edges));
        if nodes.max(edges) > u64::from(u32::MAX) {
            let most = grouped_digits(u64::from(u32::MAX));
            return Err(Error::input(format!("{counted} is too large")).expected(format!("at most {most} of each")));
        }
        check_memory(&counted, needed, limit)
            .map_err(|error| error.help("read fewer steps or ranks, or let recorded ranks stand for others"))
    }
}

/// Bytes that this process could use now, by the machine's memory and the limits of its control groups.
pub fn available_memory() -> u64 {
    MachineDescription::here().available().0
}

/// Refuses what takes more bytes than there are.
///
/// # Errors
/// More than `limit` bytes.
pub fn check_memory(what: &str, needed: u64, limit: u64) -> Result<()> {
    match needed <= limit {
        true => Ok(()),
        false => Err(Error::input(format!("{what} takes {} MB of memory", needed / 1_000_000))
            .expected(format!("at most {} MB", limit / 1_000_000))),
    }
}

/// Edges ordered by their source, in the order in which they were added: the end of each node's edges, targets, kinds.
fn by_source(nodes: usize, edges: &[GraphEdge]) -> (Vec<u32>, Vec<u32>, Vec<EdgeKind>) {
    let mut next = vec![0u32; nodes + 1];
    edges.iter().for_each(|(from, _, _)| next[*from as usize + 1] += 1);
    (0..nodes).for_each(|node| next[node + 1] += next[node]);
    let mut targets = vec![0; edges.len()];
    let mut kinds = vec![EdgeKind::Order; edges.len()];
    for &(from, to, kind) in edges {
        let place = next[from as usize] as usize;
        (targets[place], kinds[place]) = (to, kind);
        next[from as usize] += 1;
    }
    // Each node's next free place is now the end of its edges.
    next.pop();
    (next, targets, kinds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_base::error::FailureKind;

    #[test]
    fn edges_are_grouped_by_source_in_the_order_of_adding() {
        let edges = [(2, 0, EdgeKind::Data), (0, 1, EdgeKind::Order), (2, 1, EdgeKind::Launch)];
        let (ends, targets, kinds) = by_source(3, &edges);
        assert_eq!((ends, targets), (vec![1, 1, 3], vec![1, 0, 1]));
        assert_eq!(kinds, [EdgeKind::Order, EdgeKind::Data, EdgeKind::Launch]);
    }

    #[test]
    fn a_graph_beyond_the_memory_is_refused_in_words() {
        assert!(GraphBuilder::check_memory(10_000_000, 20_000_000, 1_000_000_000).is_ok());
        let error =
            GraphBuilder::check_memory(10_000_000, 20_000_000, 500_000_000).err().map(|error| error.to_string());
        assert!(error.is_some_and(|text| text.contains("10,000,000 nodes") && text.contains("at most 500 MB")));
        let too_large = GraphBuilder::check_memory(u64::from(u32::MAX) + 1, 0, u64::MAX).err();
        assert_eq!(too_large.map(|error| error.kind()), Some(FailureKind::Input));
    }
}
