//! Rows of the graph: nodes, the resources they run on, and why one waits for another.

use super::CallId;

/// The index of a node in [`TaskGraph::nodes`](super::TaskGraph::nodes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

/// The index of a resource in [`TaskGraph::resources`](super::TaskGraph::resources).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub(crate) u32);

/// Work that keeps one resource busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskNode {
    /// Nanoseconds.
    pub duration: u64,
    /// Its name, and inside which operations it runs.
    pub call: CallId,
    /// The thread, stream or link that it keeps busy.
    pub resource: ResourceId,
    /// What sort of work it is.
    pub kind: WorkKind,
    /// Of nodes that wait for one resource the lowest runs first, and among equals the one that was ready first.
    pub priority: u8,
}

/// The sort of work of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkKind {
    /// The time by which a rank begins later than the first rank.
    Start,
    /// The time by which the work of earlier steps on a stream outlasts the begin of this one on the CPU.
    Backlog,
    /// An operation on a thread of the CPU.
    Operation,
    /// Time of a thread or stream that no event covers: Python, or the delay until a kernel starts.
    Gap,
    /// A kernel, copy or memset on a stream.
    Kernel,
    /// The launch of a collective operation on one rank.
    Launch,
    /// The transfer of a collective operation, from when the last rank is there.
    Transfer,
    /// The moment at which a rank has the result of a collective operation.
    Wait,
}

/// Why a node waits for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeKind {
    /// It follows on the same thread or stream.
    Order,
    /// It is launched by it.
    Launch,
    /// It waits for its end by an event or a synchronisation.
    Synchronisation,
    /// It waits for its end on another stream by all appearances: the trace says that it waits, and not for what.
    AssumedWait,
    /// It is its backward operation.
    ForwardBackward,
    /// It reads what it wrote.
    Data,
    /// It is a collective operation that needs all ranks, or what waits for its result.
    Rendezvous,
}

/// A thread, stream or link. It does one thing at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resource {
    /// The rank it belongs to; a link between ranks belongs to none.
    pub rank: Option<u32>,
    /// What it is.
    pub kind: ResourceKind,
    /// Its name in the trace: the number of the thread or stream, or the name of the process group.
    pub name: String,
}

/// The kinds of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceKind {
    /// A thread of the CPU.
    Thread,
    /// A stream of an accelerator.
    Stream,
    /// What connects the ranks of a process group.
    Link,
}

impl NodeId {
    /// Its index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl ResourceId {
    /// Its index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 bytes a node with its edges and what simulating it takes are the limit; most nodes have at most three edges.
    #[test]
    fn a_node_takes_twenty_four_bytes_and_an_edge_five() {
        assert_eq!(size_of::<TaskNode>(), 24);
        assert_eq!(super::super::TaskGraph::bytes_of(1, 3), 24 + 4 + 15);
        assert!(super::super::TaskGraph::bytes_of(1, 3) + crate::simulate::bytes_of(1, 0) <= 100);
    }
}
