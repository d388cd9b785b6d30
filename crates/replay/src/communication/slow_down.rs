//! How much slower operations are while their rank communicates: libraries take processors, streaming multiprocessors and
//! memory bandwidth away from them.

use crate::graph::{NodeId, StepGraph, TaskGraph, WorkKind};
use crate::simulate::{NodeSchedule, simulate};
use perf4sight_base::stats::{median, weighted_quantile};
use perf4sight_traces::intervals::{Interval, union};
use std::collections::{BTreeMap, HashMap};

/// The factor by which operations take longer while their rank communicates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OverlapSlowDown {
    /// The factor, from 1 on.
    pub factor: f64,
    /// The number of kinds of operations that it rests on; without any the factor is assumed to be 1.
    pub operations: usize,
}

impl Default for OverlapSlowDown {
    /// Nothing is known to be slowed down.
    fn default() -> Self {
        OverlapSlowDown { factor: 1.0, operations: 0 }
    }
}

/// Operations that are overlapped by at least this share count as overlapped, by at most the rest as alone.
const OVERLAPPED: f64 = 0.9;
/// Shorter operations are timed too roughly, in nanoseconds.
const SHORTEST: u64 = 50_000;
/// Operations of one kind that have to run both overlapped and alone.
const LEAST: usize = 3;
/// Repetitions after which durations and overlap agree: a change of overlap changes durations by a fraction of itself.
const ROUNDS: usize = 3;

/// Equal operations have to take equally long while they run alone: their median absolute deviation from the median, as a
/// share of it. Operations of one name with inputs of other sizes differ by more.
const ALIKE: f64 = 0.15;

/// Times of operations of a kind: overlapped, and alone.
type OverlapTimes = [Vec<f64>; 2];

impl OverlapSlowDown {
    /// Compares equal operations of a typical step that run while their rank communicates with those that do not: the
    /// median over the kinds of operations, each counted by its time.
    pub fn fit(step: &StepGraph) -> Self {
        let shares = overlap(step);
        let places = occurrences(&step.graph);
        let mut kinds: BTreeMap<_, OverlapTimes> = BTreeMap::new();
        for id in step.graph.ids().filter(|id| is_slowed(&step.graph, *id)) {
            let (node, share) = (step.graph.node(id), shares[id.index()]);
            let alone = usize::from(share < OVERLAPPED);
            if node.duration >= SHORTEST && !(1.0 - OVERLAPPED..OVERLAPPED).contains(&share) {
                let kind = (node.call, places[id.index()], step.graph.resource_of(id).rank);
                kinds.entry(kind).or_default()[alone].push(node.duration as f64);
            }
        }
        kinds.retain(|_, times| times.iter().all(|times| times.len() >= LEAST) && are_alike(&times[1]));
        let total = |times: &OverlapTimes| times.iter().flatten().sum::<f64>();
        let weighted = kinds.values().map(|times| (median(&times[0]) / median(&times[1]), total(times))).collect();
        let half = kinds.values().map(total).sum::<f64>() / 2.0;
        let factor = weighted_quantile(weighted, half).unwrap_or(1.0);
        OverlapSlowDown { factor: factor.max(1.0), operations: kinds.len() }
    }

    /// For every node the share of its time during which its rank communicates; nothing where that slows nothing down.
    pub fn overlap(&self, step: &StepGraph) -> Vec<f64> {
        if self.factor == 1.0 { Vec::new() } else { overlap(step) }
    }

    /// Fits the durations of operations to how much of each is overlapped now, where it was `before` until now.
    pub fn adjust(&self, step: &mut StepGraph, before: &[f64]) {
        if self.factor == 1.0 {
            return;
        }
        let slowed = |share: f64| 1.0 + (self.factor - 1.0) * share;
        let was = |id: NodeId| before.get(id.index()).copied().unwrap_or(0.0);
        let own: Vec<(NodeId, f64)> = step
            .graph
            .ids()
            .filter(|id| is_slowed(&step.graph, *id))
            .map(|id| (id, step.graph.node(id).duration as f64 / slowed(was(id))))
            .collect();
        for _ in 0..ROUNDS {
            let shares = overlap(step);
            for (id, alone) in &own {
                step.graph.set_duration(*id, (alone * slowed(shares[id.index()])).round() as u64);
            }
        }
    }
}

fn are_alike(times: &[f64]) -> bool {
    let middle = median(times);
    let deviations: Vec<f64> = times.iter().map(|time| (time - middle).abs()).collect();
    median(&deviations) <= ALIKE * middle
}

/// For each node how many of the same call came before it inside the same operation: of the two products of a layer's
/// backward pass, which have one name, one is the first and one the second. An operation begins behind a node of the
/// operation around it.
fn occurrences(graph: &TaskGraph) -> Vec<u32> {
    let calls = graph.calls();
    let mut last_begin: HashMap<_, usize> = HashMap::new();
    let mut last_seen: HashMap<_, (usize, u32)> = HashMap::new();
    let place = |id: NodeId| {
        let node = graph.node(id);
        let begin = calls
            .caller(node.call)
            .and_then(|operation| last_begin.get(&(node.resource, calls.caller(operation))).copied());
        let place = match last_seen.get(&(node.resource, node.call)) {
            Some((seen, place)) if begin.is_some_and(|begin| begin < *seen) => place + 1,
            Some(_) | None => 0,
        };
        let around = (node.kind != WorkKind::Gap).then_some(node.call);
        last_begin.insert((node.resource, around), id.index());
        last_seen.insert((node.resource, node.call), (id.index(), place));
        place
    };
    graph.ids().map(place).collect()
}

fn is_slowed(graph: &TaskGraph, id: NodeId) -> bool {
    match graph.node(id).kind {
        WorkKind::Operation | WorkKind::Kernel => true,
        WorkKind::Start
        | WorkKind::Backlog
        | WorkKind::Gap
        | WorkKind::Launch
        | WorkKind::Transfer
        | WorkKind::Wait => false,
    }
}

/// For each node the share of its time during which its rank communicates.
fn overlap(step: &StepGraph) -> Vec<f64> {
    let schedule = &simulate(&step.graph);
    let busy: BTreeMap<u32, Vec<Interval>> =
        step.ranks.iter().enumerate().map(|(place, rank)| (rank.number, busy(step, schedule, place))).collect();
    let share = |id: NodeId| {
        let rank = step.graph.resource_of(id).rank.and_then(|rank| busy.get(&rank));
        let window = window(step, schedule, id);
        rank.map_or(0.0, |busy| covered_share(busy, window))
    };
    step.graph.ids().map(share).collect()
}

/// When a rank communicates.
fn busy(step: &StepGraph, schedule: &NodeSchedule, rank: usize) -> Vec<Interval> {
    let own = step.transfers.iter().filter(|transfer| transfer.parts.iter().any(|part| part.rank == rank));
    union(own.map(|own| window(step, schedule, own.node)))
}

/// When a node runs; a changed step may be so long that its times are the greatest.
fn window(step: &StepGraph, schedule: &NodeSchedule, id: NodeId) -> Interval {
    let time = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
    (time(schedule.start(id)), time(schedule.end(&step.graph, id)))
}

/// The share of a window that ordered intervals cover.
fn covered_share(union: &[Interval], (begin, end): Interval) -> f64 {
    if end <= begin {
        return 0.0;
    }
    let first = union.partition_point(|(_, stop)| *stop <= begin);
    let within = union[first..].iter().take_while(|(start, _)| *start < end);
    let covered: i64 = within.map(|(start, stop)| stop.min(&end) - start.max(&begin)).sum();
    covered as f64 / (end - begin) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_covered_by_what_is_in_it() {
        let union = [(0, 10), (20, 30), (40, 50)];
        assert_eq!(covered_share(&union, (5, 25)), 0.5);
        assert_eq!(covered_share(&union, (10, 20)), 0.0);
        assert_eq!(covered_share(&union, (22, 24)), 1.0);
        assert_eq!(covered_share(&union, (45, 45)), 0.0);
    }
}
