//! Which transfers of a link ran at the same time.

use super::assembly::{AlikeSteps, AssembledStep};
use super::rows::RankStep;
use crate::graph::NodeId;
use perf4sight_traces::intervals::Interval;
use std::collections::BTreeSet;

/// The transfers of each step that began on a rank before all that ended earlier on their link had ended there. Moments of one rank
/// alone are compared, so that the clocks of the others do not matter.
pub(super) fn find(assembly: &AssembledStep, steps: &AlikeSteps<'_>) -> Vec<BTreeSet<NodeId>> {
    steps.iter().map(|(_, ranks)| of_step(assembly, ranks)).collect()
}

fn of_step(assembly: &AssembledStep, ranks: &[RankStep]) -> BTreeSet<NodeId> {
    let mut found = BTreeSet::new();
    for group in 0..assembly.step.groups.len() {
        let numbered = assembly.step.transfers.iter().zip(&assembly.exchanges);
        let own: Vec<(NodeId, usize)> = numbered
            .filter(|(transfer, _)| transfer.group == group)
            .map(|(transfer, number)| (transfer.node, *number))
            .collect();
        for rank in ranks {
            let part =
                |(node, number): &(NodeId, usize)| rank.parts.get(number).map(|part| (*node, (part.begin, part.end)));
            found.extend(of_rank(own.iter().filter_map(part).collect(), rank.rounding()));
        }
    }
    found
}

/// The transfers of a rank, with when it takes part in them, that are not alone: they, or others that end later, began before all others had
/// ended.
fn of_rank(mut parts: Vec<(NodeId, Interval)>, rounding: i64) -> Vec<NodeId> {
    parts.sort_by_key(|(_, (_, end))| *end);
    let mut earliest = i64::MAX;
    let pairs = parts.windows(2).rev().filter_map(|pair| {
        let [(_, (_, before)), (node, (begin, _))] = pair else { return None };
        earliest = earliest.min(*begin);
        (earliest + rounding < *before).then_some(*node)
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlapping(times: &[Interval]) -> Vec<u32> {
        let parts = (0..).map(NodeId).zip(times.iter().copied()).collect();
        let mut found: Vec<u32> = of_rank(parts, 1).into_iter().map(|node| node.0).collect();
        found.sort_unstable();
        found
    }

    /// One thread runs one after the other, but for rounding; two threads begin the next one while another runs.
    #[test]
    fn a_queue_runs_one_at_a_time_and_threads_several() {
        assert_eq!(overlapping(&[(0, 10), (10, 20), (19, 30), (40, 50)]), [0; 0]);
        assert_eq!(overlapping(&[(0, 10), (2, 20), (10, 30), (40, 50)]), [1, 2]);
    }

    /// The last one began before the first had ended, so that none of them ran alone.
    #[test]
    fn a_long_one_overlaps_with_all_that_run_meanwhile() {
        assert_eq!(overlapping(&[(0, 10), (10, 20), (20, 30), (5, 40)]), [1, 2, 3]);
    }
}
