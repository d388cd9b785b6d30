//! A step of a job as a graph, with what is known of its ranks and of the transfers between them.

use super::{NodeId, Resource, ResourceId, TaskGraph, WorkKind};
use crate::collectives::CollectiveOperation;
use crate::simulate::NodeSchedule;

/// A step of all ranks.
#[derive(Debug, Clone, Default)]
pub struct StepGraph {
    /// The operations of all ranks and the transfers between them.
    pub graph: TaskGraph,
    /// The ranks, in the order of their numbers.
    pub ranks: Vec<RankNodes>,
    /// The process groups that exchange data.
    pub groups: Vec<ProcessGroup>,
    /// The transfers, in the order in which the first rank launched them.
    pub transfers: Vec<TransferNode>,
}

/// A rank's part of the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankNodes {
    /// Its number.
    pub number: u32,
    /// How many ranks of the job it stands for, itself included: others that do the same at the same time.
    pub stands_for: u32,
    /// The node of the time by which it begins later than the first rank.
    pub start: NodeId,
    /// The gradients of the backward passes that reduce them, in the order in which they are ready.
    pub gradients: Vec<GradientNode>,
    /// How many backward passes reduce none of their gradients, as under `no_sync`, beside those that do.
    pub silent_passes: usize,
    /// The nodes before each copy out of a bucket of `DistributedDataParallel`, in their order: the waits.
    pub copies: Vec<NodeId>,
}

/// How many of a job's ranks the recorded one at a place stands for, if `recorded` ones stand for all.
pub(crate) fn share_of_ranks(all: u32, recorded: u32, place: usize) -> u32 {
    all / recorded + u32::from((place as u32) < all % recorded)
}

/// The gradient of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GradientNode {
    /// The node at whose end it is in its bucket.
    pub ready: NodeId,
    /// The last kernel that its thread launched until then: a collective waits for it too. None on a CPU.
    pub kernel: Option<NodeId>,
    /// Its size.
    pub bytes: u64,
    /// The number of its backward pass: a bucket has gradients of one pass alone.
    pub pass: u32,
}

/// A process group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessGroup {
    /// Its name; empty if no trace contains it.
    pub name: String,
    /// The number of ranks, those without a trace included.
    pub size: u32,
    /// The link between them.
    pub link: ResourceId,
}

/// A collective operation, or a send with its receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferNode {
    /// The node of the transfer on the link.
    pub node: NodeId,
    /// Its kind.
    pub operation: CollectiveOperation,
    /// The index of its group in [`StepGraph::groups`].
    pub group: usize,
    /// Bytes that a rank passes in, if known.
    pub bytes: Option<u64>,
    /// What each rank does for it.
    pub parts: Vec<TransferPart>,
}

/// A rank's part in a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferPart {
    /// The index of the rank in [`StepGraph::ranks`].
    pub rank: usize,
    /// The node at whose end the rank takes part.
    pub launch: NodeId,
    /// The node that waits for the result, if any.
    pub wait: Option<NodeId>,
    /// The nodes of the call on the CPU that enqueues it: the first, and the one after the last.
    pub issuing: (NodeId, NodeId),
}

impl TransferPart {
    /// The nodes of the call that enqueues it.
    pub fn issuing_nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (self.issuing.0.0..self.issuing.1.0).map(NodeId)
    }
}

impl TransferNode {
    /// Bytes that a rank passes in, if known; a barrier passes none.
    pub fn payload(&self) -> Option<u64> {
        if self.operation == CollectiveOperation::Barrier { Some(0) } else { self.bytes }
    }
}

impl StepGraph {
    /// The nanoseconds of a replayed step for each rank, on the thread or stream on which it takes longest: from when it begins there, on a
    /// stream after the work of earlier steps, until its last work ends. Of a settled step that is the time from one step to the next.
    pub fn rank_times(&self, schedule: &NodeSchedule) -> Vec<u64> {
        let place = |resource: &Resource| self.ranks.binary_search_by_key(&resource.rank?, |rank| rank.number).ok();
        let places: Vec<Option<usize>> = self.graph.resources().iter().map(place).collect();
        let start = |place: &Option<usize>| place.map_or(0, |place| schedule.end(&self.graph, self.ranks[place].start));
        let mut begins: Vec<u64> = places.iter().map(start).collect();
        let mut ends = begins.clone();
        for id in self.graph.ids() {
            let (node, end) = (self.graph.node(id), schedule.end(&self.graph, id));
            let resource = node.resource.index();
            ends[resource] = ends[resource].max(end);
            if node.kind == WorkKind::Backlog {
                begins[resource] = end;
            }
        }
        let mut times = vec![0; self.ranks.len()];
        for ((place, begin), end) in places.iter().zip(begins).zip(ends) {
            place.iter().for_each(|place| times[*place] = end.saturating_sub(begin).max(times[*place]));
        }
        times
    }

    /// The nanoseconds of a replayed step: the longest of the ranks'.
    pub fn time(&self, schedule: &NodeSchedule) -> u64 {
        self.rank_times(schedule).into_iter().max().unwrap_or(0)
    }
}
