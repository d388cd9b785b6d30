//! The discrete-event simulation.

use super::NodeSchedule;
use super::schedule::ScheduleRow;
use crate::graph::{NodeId, TaskGraph, predecessors};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The row of a node, its place in the order, how many nodes it waited for at first; and for a time it is in a queue.
pub(super) const BYTES_OF_NODE: u64 = size_of::<ScheduleRow>() as u64 + 4 + 4 + size_of::<ReadyNode>() as u64;
pub(super) const BYTES_OF_RESOURCE: u64 = size_of::<ResourceQueue>() as u64;

/// A node that is ready: its priority, when it became ready, its index. The lowest runs first.
type ReadyNode = Reverse<(u8, u64, u32)>;

/// What a resource does and what waits for it.
#[derive(Debug, Default)]
struct ResourceQueue {
    ready: BinaryHeap<ReadyNode>,
    busy: bool,
    /// Whether it is in the list of resources to look at.
    listed: bool,
    /// The last node that ran, plus one.
    last: u32,
}

struct EventLoop<'a, D> {
    graph: &'a TaskGraph,
    /// The duration of a node that starts.
    duration: D,
    schedule: NodeSchedule,
    queues: Vec<ResourceQueue>,
    /// Ends of the nodes that run: time and node.
    running: BinaryHeap<Reverse<(u64, u32)>>,
    /// Resources that became free or got a node at this moment.
    changed: Vec<u32>,
}

/// Replays a graph. Of the nodes that are ready when a resource becomes free, the one with the lowest priority starts,
/// of equals the one that was ready first, of these the one that was added first.
pub fn simulate(graph: &TaskGraph) -> NodeSchedule {
    simulate_with(graph, |node, _| graph.node(node).duration)
}

/// The same with durations that may depend on when a node and those before it start.
pub(crate) fn simulate_with(graph: &TaskGraph, duration: impl FnMut(NodeId, &NodeSchedule) -> u64) -> NodeSchedule {
    let mut simulation = EventLoop::new(graph, duration);
    for node in 0..graph.nodes().len() as u32 {
        if simulation.schedule.rows[node as usize].waiting_for == 0 {
            simulation.is_ready(node, 0);
        }
    }
    simulation.start_ready(0);
    while let Some(Reverse((now, node))) = simulation.running.pop() {
        simulation.end(node, now);
        while let Some(Reverse((_, node))) = simulation.running.pop_if_at(now) {
            simulation.end(node, now);
        }
        simulation.start_ready(now);
    }
    simulation.schedule
}

/// Takes the first of a heap if it is at a time.
trait PopAt {
    fn pop_if_at(&mut self, now: u64) -> Option<Reverse<(u64, u32)>>;
}

impl PopAt for BinaryHeap<Reverse<(u64, u32)>> {
    fn pop_if_at(&mut self, now: u64) -> Option<Reverse<(u64, u32)>> {
        self.peek().is_some_and(|Reverse((end, _))| *end == now).then(|| self.pop()).flatten()
    }
}

impl<'a, D: FnMut(NodeId, &NodeSchedule) -> u64> EventLoop<'a, D> {
    fn new(graph: &'a TaskGraph, duration: D) -> Self {
        let nodes = graph.nodes().len();
        let row = |waiting_for| ScheduleRow { start: 0, cause: NodeSchedule::NONE, waiting_for };
        EventLoop {
            graph,
            duration,
            schedule: NodeSchedule {
                rows: predecessors(graph).into_iter().map(row).collect(),
                order: Vec::with_capacity(nodes),
            },
            queues: graph.resources().iter().map(|_| ResourceQueue::default()).collect(),
            running: BinaryHeap::with_capacity(graph.resources().len()),
            changed: Vec::with_capacity(graph.resources().len()),
        }
    }

    /// Puts a node that waits for no other any longer into the queue of its resource.
    fn is_ready(&mut self, node: u32, now: u64) {
        let row = &self.graph.nodes()[node as usize];
        let queue = &mut self.queues[row.resource.index()];
        queue.ready.push(Reverse((row.priority, now, node)));
        if !queue.busy && !queue.listed {
            queue.listed = true;
            self.changed.push(row.resource.0);
        }
    }

    /// Starts the next node of every resource that is free.
    fn start_ready(&mut self, now: u64) {
        while let Some(resource) = self.changed.pop() {
            let queue = &mut self.queues[resource as usize];
            queue.listed = false;
            let Some(Reverse((_, ready, node))) = queue.ready.pop() else { continue };
            let last = std::mem::replace(&mut queue.last, node + 1);
            queue.busy = true;
            if ready < now {
                // It was ready, so that it waited for what ran before.
                self.schedule.rows[node as usize].cause = last - 1;
            }
            self.schedule.rows[node as usize].start = now;
            self.schedule.order.push(node);
            let end = now.saturating_add((self.duration)(NodeId(node), &self.schedule));
            self.running.push(Reverse((end, node)));
        }
    }

    fn end(&mut self, node: u32, now: u64) {
        let resource = self.graph.nodes()[node as usize].resource;
        let queue = &mut self.queues[resource.index()];
        queue.busy = false;
        if !queue.listed && !queue.ready.is_empty() {
            queue.listed = true;
            self.changed.push(resource.0);
        }
        let graph = self.graph;
        for &target in graph.targets_of(node as usize) {
            let row = &mut self.schedule.rows[target as usize];
            row.waiting_for -= 1;
            if row.waiting_for == 0 {
                row.cause = node;
                self.is_ready(target, now);
            }
        }
    }
}
