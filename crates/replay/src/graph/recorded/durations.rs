//! How long each node took in each step: from the last end of what it waited for until its own.

use super::assembly::{AlikeSteps, AssembledStep};
use super::rows::RankStep;
use crate::graph::{NodeId, TaskGraph};

/// The durations of all nodes in each step, in nanoseconds. Where a node ended before something that it should wait for,
/// its duration is 0.
pub(super) fn compute(assembly: &AssembledStep, steps: &AlikeSteps<'_>) -> Vec<Vec<u64>> {
    let edges: Vec<(usize, usize)> =
        assembly.step.graph.edges().map(|(from, to, _)| (from.index(), to.index())).collect();
    steps.iter().map(|(_, ranks)| of_step(assembly, &edges, ranks)).collect()
}

fn of_step(assembly: &AssembledStep, edges: &[(usize, usize)], ranks: &[RankStep]) -> Vec<u64> {
    let begin = ranks.iter().map(|rank| rank.start).min().unwrap_or(0);
    let ends = end_times(assembly, ranks, begin);
    let mut ready = vec![begin; ends.len()];
    for (first, begin) in assembly.first_rows.iter().zip(begin_times(assembly, ranks)) {
        ready[*first as usize - 1] = begin;
    }
    edges.iter().for_each(|&(from, to)| ready[to] = ready[to].max(ends[from]));
    for (before, after) in consecutive(assembly, &ends) {
        ready[after] = ready[after].max(ends[before]);
    }
    let mut durations: Vec<u64> = ends.iter().zip(ready).map(|(end, ready)| (end - ready).max(0) as u64).collect();
    for (rank, first) in ranks.iter().zip(&assembly.first_rows) {
        for (row, held) in &rank.held {
            let duration = &mut durations[*first as usize + row];
            *duration = duration.saturating_sub(*held as u64);
        }
    }
    durations
}

/// When the first of the ranks that each rank exchanges with begins: of ranks that nothing synchronises, one may be any time ahead.
fn begin_times(assembly: &AssembledStep, ranks: &[RankStep]) -> Vec<i64> {
    let islands = assembly.step.islands();
    let begin = |island: &usize| {
        let own = ranks.iter().zip(&islands).filter(|(_, other)| *other == island);
        own.map(|(rank, _)| rank.start).min().unwrap_or(0)
    };
    islands.iter().map(begin).collect()
}

fn end_times(assembly: &AssembledStep, ranks: &[RankStep], begin: i64) -> Vec<i64> {
    let mut ends = vec![begin; assembly.step.graph.nodes().len()];
    for (rank, first) in ranks.iter().zip(&assembly.first_rows) {
        let first = *first as usize;
        ends[first - 1] = rank.start;
        rank.rows.iter().zip(&mut ends[first..]).for_each(|(row, end)| *end = row.end);
    }
    for (transfer, number) in assembly.step.transfers.iter().zip(&assembly.exchanges) {
        // Of ranks that need not wait for all others, those that do show when the transfer ends.
        let waits = !transfer.operation.synchronises() && transfer.parts.iter().any(|part| part.wait.is_some());
        let end = transfer.parts.iter().filter(|part| !waits || part.wait.is_some()).filter_map(|part| {
            let own = ranks[part.rank].parts.get(number)?;
            // A thread that waited goes on a little before the range of the library ends.
            Some(part.wait.map_or(own.end, |wait| own.end.min(ends[wait.index()])))
        });
        ends[transfer.node.index()] = end.min().unwrap_or(begin);
    }
    ends
}

/// Pairs of transfers on the same link, one of which ended right after the other.
fn consecutive(assembly: &AssembledStep, ends: &[i64]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for group in 0..assembly.step.groups.len() {
        let own = assembly.step.transfers.iter().filter(|transfer| transfer.group == group);
        let mut own: Vec<usize> = own.map(|transfer| transfer.node.index()).collect();
        own.sort_by_key(|node| ends[*node]);
        pairs.extend(own.windows(2).map(|pair| (pair[0], pair[1])));
    }
    pairs
}

/// Gives every node what `of` makes of its durations in some of the steps.
pub(super) fn set(graph: &mut TaskGraph, durations: &[Vec<u64>], steps: &[usize], of: impl Fn(&mut [u64]) -> u64) {
    let ids: Vec<NodeId> = graph.ids().collect();
    let mut all = Vec::new();
    for id in ids {
        all.clear();
        all.extend(steps.iter().map(|step| durations[*step][id.index()]));
        graph.set_duration(id, if all.is_empty() { 0 } else { of(&mut all) });
    }
}

/// The median.
pub(super) fn median(times: &mut [u64]) -> u64 {
    let is_odd = times.len() % 2 == 1;
    let (shorter, middle, _) = times.select_nth_unstable(times.len() / 2);
    shorter.iter().max().filter(|_| !is_odd).map_or(*middle, |other| other.midpoint(*middle))
}

/// The shortest.
pub(super) fn least(times: &mut [u64]) -> u64 {
    times.iter().min().copied().unwrap_or(0)
}
