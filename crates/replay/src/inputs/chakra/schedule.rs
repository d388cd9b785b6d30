//! When the operations of Chakra traces without times ran: all ranks are replayed together.

use super::{ChakraRank, ExchangeKey};
use crate::graph::{EdgeKind, GraphBuilder, NodeId, Resource, ResourceId, ResourceKind, TaskGraph, TaskNode, WorkKind};
use crate::simulate::{NodeSchedule, simulate};
use perf4sight_base::error::Result;
use perf4sight_traces::intervals::Interval;
use std::collections::{BTreeMap, HashMap};

/// The nodes of a rank's operations: where each begins, and where it ends; the same unless it is an exchange.
type OperationNodes = Vec<[NodeId; 2]>;

/// When each operation of each rank ran, in nanoseconds after the first.
///
/// # Errors
/// Operations that wait for each other.
pub(super) fn times(ranks: &[ChakraRank]) -> Result<Vec<Vec<Option<Interval>>>> {
    let mut building = ScheduleBuilder::default();
    let nodes: Vec<OperationNodes> = ranks.iter().map(|rank| building.rank(rank, true)).collect();
    let graph = building.builder.finish()?;
    let schedule = simulate(&graph);
    Ok(ranks.iter().zip(&nodes).map(|(rank, nodes)| of_rank(rank, nodes, &graph, &schedule)).collect())
}

/// Refuses a trace whose operations wait for each other.
///
/// # Errors
/// Those operations, named.
pub(super) fn refuse_cycles(rank: &ChakraRank) -> Result<()> {
    let mut building = ScheduleBuilder::default();
    building.rank(rank, false);
    building.builder.finish().map(drop).map_err(|error| error.file(&rank.file))
}

#[derive(Default)]
struct ScheduleBuilder {
    builder: GraphBuilder,
    /// The transfer of each exchange.
    transfers: BTreeMap<ExchangeKey, NodeId>,
    links: HashMap<String, ResourceId>,
}

impl ScheduleBuilder {
    /// Adds the operations of a rank. An exchange is its launch and, `together` with other ranks, a transfer.
    fn rank(&mut self, rank: &ChakraRank, together: bool) -> OperationNodes {
        let meetings = rank.meetings();
        let mut threads: HashMap<String, ResourceId> = HashMap::new();
        let mut nodes = OperationNodes::new();
        for (place, operation) in rank.nodes.iter().enumerate() {
            let name = rank.thread(place);
            let kind = if rank.is_on_cpu(place) { ResourceKind::Thread } else { ResourceKind::Stream };
            let resource = *threads
                .entry(name.clone())
                .or_insert_with(|| self.builder.resource(Resource { rank: Some(rank.number), kind, name }));
            let call = self.builder.call(&operation.name, None);
            let meeting = meetings.get(&place).filter(|_| together);
            let duration = if meeting.is_some() { 0 } else { operation.duration() };
            let own = self.builder.node(TaskNode { duration, call, resource, kind: WorkKind::Operation, priority: 0 });
            let end = meeting.map_or(own, |meeting| self.transfer(meeting, own, operation.duration()));
            nodes.push([own, end]);
        }
        for (place, before) in rank.before.iter().enumerate() {
            before.iter().for_each(|before| self.builder.edge(nodes[*before][1], nodes[place][0], EdgeKind::Data));
        }
        nodes
    }

    /// The transfer of an exchange, which waits for all its ranks. The rank in which it takes least waits for none.
    fn transfer(&mut self, meeting: &ExchangeKey, launch: NodeId, duration: u64) -> NodeId {
        let builder = &mut self.builder;
        let link = *self.links.entry(meeting.group.clone()).or_insert_with(|| {
            builder.resource(Resource { rank: None, kind: ResourceKind::Link, name: meeting.group.clone() })
        });
        let call = builder.call(meeting.kind, None);
        let node = TaskNode { duration, call, resource: link, kind: WorkKind::Transfer, priority: 0 };
        let transfer = *self.transfers.entry(meeting.clone()).or_insert_with(|| builder.node(node));
        let known = builder.node_mut(transfer);
        known.duration = known.duration.min(duration);
        builder.edge(launch, transfer, EdgeKind::Rendezvous);
        transfer
    }
}

/// When the operations of a rank ran. The exchanges of a rank follow one another, as those on a stream do.
fn of_rank(
    rank: &ChakraRank,
    nodes: &OperationNodes,
    graph: &TaskGraph,
    schedule: &NodeSchedule,
) -> Vec<Option<Interval>> {
    let time = |[begin, end]: &[NodeId; 2]| (schedule.start(*begin) as i64, schedule.end(graph, *end) as i64);
    let mut times: Vec<Interval> = nodes.iter().map(time).collect();
    let mut exchanges: Vec<usize> = (0..times.len()).filter(|place| rank.nodes[*place].exchange().is_some()).collect();
    exchanges.sort_by_key(|place| times[*place].1);
    let mut last = 0;
    for place in exchanges {
        times[place].0 = times[place].0.max(last).min(times[place].1);
        last = times[place].1;
    }
    times.into_iter().map(Some).collect()
}
