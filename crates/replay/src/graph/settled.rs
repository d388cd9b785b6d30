//! When ranks begin a step that follows others like it: each as it ended the one before.

use super::{ResourceId, StepGraph};
use crate::collectives::connected;
use crate::simulate::simulate;
use std::collections::HashMap;

/// Steps one after the other until nothing changes any more; where a rank falls behind without end there is no such step.
const MOST: usize = 8;
/// Smaller differences in nanoseconds are none.
const SAME: u64 = 1_000;

impl StepGraph {
    /// The step as it follows others like it. What was recorded followed a step as recorded: a rank that ended that one late began
    /// late.
    pub(crate) fn settled(mut self) -> Self {
        for _ in 0..MOST {
            let starts = self.next_starts();
            let same = self
                .ranks
                .iter()
                .zip(&starts)
                .all(|(rank, start)| self.graph.node(rank.start).duration.abs_diff(*start) <= SAME);
            if same {
                break;
            }
            for (rank, start) in self.ranks.iter().zip(starts) {
                self.graph.set_duration(rank.start, start);
            }
        }
        self
    }

    /// For each rank, by how many nanoseconds it begins the next step later than the first one that it exchanges with.
    fn next_starts(&self) -> Vec<u64> {
        let schedule = simulate(&self.graph);
        let mut ends: HashMap<ResourceId, u64> = HashMap::new();
        for id in self.graph.ids() {
            let end = ends.entry(self.graph.node(id).resource).or_default();
            *end = schedule.end(&self.graph, id).max(*end);
        }
        let ends: Vec<u64> = self.ranks.iter().map(|rank| ends[&self.graph.node(rank.start).resource]).collect();
        let islands = self.islands();
        let mut first: HashMap<usize, u64> = HashMap::new();
        for (island, end) in islands.iter().zip(&ends) {
            let first = first.entry(*island).or_insert(u64::MAX);
            *first = *end.min(first);
        }
        ends.iter().zip(&islands).map(|(end, island)| end - first[island]).collect()
    }

    /// For each rank, the number of the set of ranks that exchange with each other.
    pub(crate) fn islands(&self) -> Vec<usize> {
        let together: Vec<Vec<usize>> =
            self.transfers.iter().map(|transfer| transfer.parts.iter().map(|part| part.rank).collect()).collect();
        connected(self.ranks.len(), together.iter())
    }
}
