//! When ranks begin a step that follows others like it: each as it ended the one before.

use super::{RankNodes, StepGraph};
use crate::collectives::connected;
use crate::simulate::simulate;

/// Steps one after the other until nothing changes any more; where a rank falls behind without end there is no such step.
const MOST: usize = 8;
/// Smaller differences in nanoseconds are none.
const SAME: u64 = 1_000;

impl StepGraph {
    /// The step as it follows others like it. What was recorded followed a step as recorded: a rank that ended that one late began
    /// late.
    pub(crate) fn settled(mut self) -> Self {
        let islands = self.islands();
        for _ in 0..MOST {
            let starts = self.next_starts(&islands);
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

    /// For each rank, by how many nanoseconds it begins the next step later than the first of its island.
    fn next_starts(&self, islands: &[usize]) -> Vec<u64> {
        let schedule = simulate(&self.graph);
        let mut last = vec![0; self.graph.resources().len()];
        for id in self.graph.ids() {
            let end = &mut last[self.graph.node(id).resource.0 as usize];
            *end = schedule.end(&self.graph, id).max(*end);
        }
        let main = |rank: &RankNodes| last[self.graph.node(rank.start).resource.0 as usize];
        let ends: Vec<u64> = self.ranks.iter().map(main).collect();
        // Islands are numbered by the first of their ranks.
        let mut first = vec![u64::MAX; ends.len()];
        islands.iter().zip(&ends).for_each(|(island, end)| first[*island] = first[*island].min(*end));
        ends.iter().zip(islands).map(|(end, island)| end - first[*island]).collect()
    }

    /// For each rank, the number of the set of ranks that exchange with each other.
    pub(crate) fn islands(&self) -> Vec<usize> {
        let together: Vec<Vec<usize>> =
            self.transfers.iter().map(|transfer| transfer.parts.iter().map(|part| part.rank).collect()).collect();
        connected(self.ranks.len(), together.iter())
    }
}
