//! Makes nodes and edges of the rows of all ranks.

use super::joins::{self, ThreadJoin};
use super::meeting::{ExchangeMeeting, ExchangeMember};
use super::rows::{GradientRow, PartRows, RankStep, RowEdge};
use super::waits;
use crate::collectives::{CollectiveOperation, RankExchange, RankExchanges};
use crate::graph::step::{
    GradientNode, ProcessGroup, RankNodes, StepGraph, TransferNode, TransferPart, share_of_ranks,
};
use crate::graph::{CallTable, EdgeKind, GraphBuilder, NodeId, Resource, ResourceId, ResourceKind, TaskNode, WorkKind};
use crate::ranks::{JobRank, TrainingJob};
use perf4sight_base::error::Result;
use std::collections::BTreeMap;

/// The graph of a step, and where the rows of each rank are in it.
pub(super) struct AssembledStep {
    pub step: StepGraph,
    /// The id of the first row of each rank; the others follow.
    pub first_rows: Vec<u32>,
    /// The number in the step of the exchange of each of the graph's transfers.
    pub exchanges: Vec<usize>,
}

/// A step of a job: its index, and the rows of each rank.
pub(super) type AlikeSteps<'a> = [(usize, &'a [RankStep])];

struct StepAssembler<'a> {
    builder: GraphBuilder,
    job: &'a TrainingJob,
    steps: &'a AlikeSteps<'a>,
    /// The step whose operations decide which edges there are.
    reference: &'a [RankStep],
    /// Of each rank.
    joins: Vec<Vec<ThreadJoin>>,
    first_rows: Vec<u32>,
}

impl AssembledStep {
    /// The graph of steps in which all ranks did the same, still without durations.
    pub fn build(
        job: &TrainingJob,
        exchanges: &RankExchanges,
        steps: &AlikeSteps<'_>,
        calls: CallTable,
    ) -> Result<Self> {
        let Some((reference_step, reference)) = reference(steps) else {
            let nothing = StepGraph { graph: GraphBuilder::with_calls(calls).finish()?, ..StepGraph::default() };
            return Ok(AssembledStep { step: nothing, first_rows: Vec::new(), exchanges: Vec::new() });
        };
        let joins = (0..reference.len()).map(|rank| joins::all(&of_rank(steps, rank), &calls)).collect();
        let builder = GraphBuilder::with_calls(calls);
        let mut assembling = StepAssembler { builder, job, steps, reference, joins, first_rows: Vec::new() };
        let ranks: Vec<RankNodes> = (0..job.ranks.len()).map(|rank| assembling.rank(rank)).collect();
        let of_step: Vec<&RankExchange> =
            exchanges.all.iter().filter(|exchange| exchange.step == Some(reference_step)).collect();
        let (groups, transfers): (Vec<ProcessGroup>, Vec<(usize, TransferNode)>) =
            assembling.transfers(exchanges, &of_step);
        let StepAssembler { builder, first_rows, .. } = assembling;
        let (exchanges, transfers) = transfers.into_iter().unzip();
        Ok(AssembledStep {
            step: StepGraph { graph: builder.finish()?, ranks, groups, transfers },
            first_rows,
            exchanges,
        })
    }
}

/// The step of median length.
fn reference<'a>(steps: &AlikeSteps<'a>) -> Option<(usize, &'a [RankStep])> {
    let mut by_time = steps.to_vec();
    by_time.sort_by_key(|(_, ranks)| ranks.iter().map(RankStep::time).max());
    by_time.get(by_time.len() / 2).copied()
}

/// The rows of a rank in each step.
pub(super) fn of_rank<'a>(steps: &AlikeSteps<'a>, rank: usize) -> Vec<&'a RankStep> {
    steps.iter().map(|(_, ranks)| &ranks[rank]).collect()
}

impl StepAssembler<'_> {
    fn id(&self, rank: usize, row: usize) -> NodeId {
        NodeId(self.first_rows[rank] + row as u32)
    }

    /// Adds a rank's rows, and the edges between them.
    fn rank(&mut self, place: usize) -> RankNodes {
        let (rank, rows) = (&self.job.ranks[place], &self.reference[place]);
        let resources: Vec<ResourceId> = (0..rows.tracks.len()).map(|track| self.track(rank, rows, track)).collect();
        let main = rows.tracks.iter().position(|(track, _)| rank.main == Some(*track)).unwrap_or(0);
        let main = resources.get(main).copied().unwrap_or_else(|| self.builder.resource(without_track(rank)));
        let call = self.builder.call("begin", None);
        let start =
            self.builder.node(TaskNode { duration: 0, call, resource: main, kind: WorkKind::Start, priority: 0 });
        self.first_rows.push(start.0 + 1);
        for ((_, range), resource) in rows.tracks.iter().zip(resources) {
            let mut before = start;
            for row in &rows.rows[range.clone()] {
                let node = TaskNode { duration: 0, call: row.call, resource, kind: row.kind, priority: 0 };
                let node = self.builder.node(node);
                self.builder.edge(before, node, EdgeKind::Order);
                before = node;
            }
        }
        self.edges_within(place);
        let rows = &self.reference[place];
        RankNodes {
            number: rank.number,
            stands_for: self.stands_for(place),
            start,
            gradients: self.gradients(place),
            silent_passes: rows.silent_passes,
            copies: rows.copies.iter().map(|row| self.id(place, *row)).collect(),
        }
    }

    fn gradients(&self, place: usize) -> Vec<GradientNode> {
        let rows = &self.reference[place];
        let kernels = self.kernels(place);
        let track_of = |row: usize| rows.tracks.iter().find(|(_, range)| range.contains(&row));
        let gradient = |one: &GradientRow| {
            let first = track_of(one.row).map_or(one.row, |(_, range)| range.start);
            let kernel = kernels.range(first..=one.row).next_back().map(|(_, kernel)| self.id(place, *kernel));
            GradientNode { ready: self.id(place, one.row), kernel, bytes: one.bytes, pass: one.pass }
        };
        rows.gradients.iter().map(gradient).collect()
    }

    /// The last kernel that each row of a rank's threads launched: in all steps.
    fn kernels(&self, place: usize) -> BTreeMap<usize, usize> {
        let rows = &self.reference[place];
        let own = of_rank(self.steps, place);
        let launches = rows.launches().filter(|edge| waits::always_ends_before(&own, edge.awaited, edge.waiting));
        let kernels = launches.map(|edge| (edge.awaited, edge.waiting + 1));
        kernels.filter(|(_, kernel)| rows.rows[*kernel].kind == WorkKind::Kernel).collect()
    }

    /// How many ranks of the job a recorded one stands for: those without a trace are shared out.
    fn stands_for(&self, place: usize) -> u32 {
        let recorded = self.job.ranks.len() as u32;
        let all = self.job.world_size.unwrap_or(recorded).max(recorded);
        share_of_ranks(all, recorded, place)
    }

    fn track(&mut self, rank: &JobRank, rows: &RankStep, track: usize) -> ResourceId {
        let (id, _) = &rows.tracks[track];
        let kind = if rows.is_stream(track) { ResourceKind::Stream } else { ResourceKind::Thread };
        let name = rank.trace.tracks[id.index()].thread.clone();
        self.builder.resource(Resource { rank: Some(rank.number), kind, name })
    }

    /// What rows of the rank wait for: by the trace, and what threads and streams waited for by all appearances.
    fn edges_within(&mut self, place: usize) {
        let rows = &self.reference[place];
        let own = of_rank(self.steps, place);
        let mut recorded = rows.edges.clone();
        recorded.sort_by_key(|edge| edge.kind);
        let joins = self.joins[place].iter();
        let joins =
            joins.map(|join| RowEdge { awaited: join.last, waiting: join.row, kind: EdgeKind::Synchronisation });
        let edges = recorded.into_iter().chain(waits::between_tracks(rows, &own)).chain(joins);
        let is_true = |edge: &RowEdge| waits::always_ends_before(&own, edge.awaited, edge.waiting);
        for RowEdge { awaited, waiting, kind } in edges.filter(is_true) {
            self.builder.edge(self.id(place, awaited), self.id(place, waiting), kind);
        }
    }

    fn transfers(
        &mut self,
        exchanges: &RankExchanges,
        of_step: &[&RankExchange],
    ) -> (Vec<ProcessGroup>, Vec<(usize, TransferNode)>) {
        let calls = self.builder.calls();
        let of_ranks = self.joins.iter().enumerate();
        let waits: Vec<_> =
            of_ranks.map(|(rank, joins)| waits::for_exchanges(self.steps, rank, joins, calls)).collect();
        let mut groups: Vec<(String, ProcessGroup)> = Vec::new();
        let mut transfers = Vec::new();
        for (nth, exchange) in of_step.iter().enumerate() {
            let has = |rank: &usize| self.reference[*rank].parts.get(&nth).copied().map(|part| (*rank, part));
            let parts: Vec<(usize, PartRows)> = (0..self.reference.len()).filter_map(|rank| has(&rank)).collect();
            if parts.is_empty() {
                continue;
            }
            let group = self.group(exchanges, exchange, &mut groups);
            let call = self.builder.call(exchange.operation.label(), None);
            let resource = groups[group].1.link;
            let node =
                self.builder.node(TaskNode { duration: 0, call, resource, kind: WorkKind::Transfer, priority: 0 });
            let members = parts.into_iter().map(|(rank, part)| {
                let wait = part.wait.or_else(|| waits[rank].get(&nth).copied());
                ExchangeMember { rank, part, wait: wait.filter(|wait| self.follows_row(rank, *wait, part.launch)) }
            });
            let parts = self.parts(node, nth, exchange.operation, &members.collect::<Vec<_>>());
            let RankExchange { operation, bytes, .. } = **exchange;
            transfers.push((nth, TransferNode { node, operation, group, bytes, parts }));
        }
        (groups.into_iter().map(|(_, group)| group).collect(), transfers)
    }

    /// Whether a row follows another one of the same thread or stream, or is of another. Which row of its call an exchange begins
    /// after may differ from step to step.
    fn follows_row(&self, rank: usize, row: usize, before: usize) -> bool {
        let step = &self.reference[rank];
        row > before || step.track_of(row) != step.track_of(before)
    }

    /// The index of an exchange's group, which is added if it is new. Two ranks have a link of their own in either direction.
    fn group(
        &mut self,
        exchanges: &RankExchanges,
        exchange: &RankExchange,
        groups: &mut Vec<(String, ProcessGroup)>,
    ) -> usize {
        let pair = exchanges.end_ranks(exchange).map(|ends| ends.map(|rank| self.job.ranks[rank].number));
        let key = format!("{} {} {pair:?}", exchange.group, exchange.ranks);
        if let Some(known) = groups.iter().position(|(other, _)| *other == key) {
            return known;
        }
        let size = exchanges.call(exchange.parts[0]).arguments.group_size;
        let size = if size > 0 { size } else { self.job.world_size.unwrap_or(exchange.parts.len() as u32) };
        let (size, name) = match pair {
            Some([source, destination]) => {
                (2, format!("{} {source} to {destination}", exchange.group).trim().to_owned())
            }
            None => (size, exchange.group.clone()),
        };
        let link = self.builder.resource(Resource { rank: None, kind: ResourceKind::Link, name: name.clone() });
        groups.push((key, ProcessGroup { name, size, link }));
        groups.len() - 1
    }

    /// The parts of a transfer's members, and the edges between them.
    fn parts(
        &mut self,
        node: NodeId,
        nth: usize,
        operation: CollectiveOperation,
        members: &[ExchangeMember],
    ) -> Vec<TransferPart> {
        let meeting = ExchangeMeeting::from_steps(self.steps, nth, operation, members);
        let launches: Vec<NodeId> = members.iter().map(|member| self.id(member.rank, member.part.launch)).collect();
        let part = |(place, member): (usize, &ExchangeMember)| {
            let wait = member.wait.map(|wait| self.id(member.rank, wait));
            let gets = wait.filter(|_| meeting.receives(place));
            if meeting.sends(place) {
                self.builder.edge(launches[place], node, EdgeKind::Rendezvous);
            }
            gets.into_iter().for_each(|wait| self.builder.edge(node, wait, EdgeKind::Rendezvous));
            for met in meeting.members_awaited(place) {
                wait.into_iter().for_each(|wait| self.builder.edge(launches[met], wait, EdgeKind::Rendezvous));
            }
            let [first, last] = [member.part.issuing.0, member.part.issuing.1].map(|row| self.id(member.rank, row));
            TransferPart { rank: member.rank, launch: launches[place], wait: gets, issuing: (first, last) }
        };
        members.iter().enumerate().map(part).collect()
    }
}

/// Where a rank without any event begins.
fn without_track(rank: &JobRank) -> Resource {
    Resource { rank: Some(rank.number), kind: ResourceKind::Thread, name: String::new() }
}
