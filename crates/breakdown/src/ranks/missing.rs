//! The ranks whose traces are given, and warnings about missing ranks.

use crate::breakdown::{Breakdown, RankBreakdown, RankPlace};
use perf4sight_traces::{RankTrace, rank_list};
use std::collections::BTreeSet;

impl RankPlace {
    pub(crate) fn from_trace(ranked: &RankTrace) -> Self {
        RankPlace { rank: ranked.trace.rank().unwrap_or(ranked.rank), of: ranked.trace.header.world_size }
    }
}

/// Whether the traces of all ranks are given, as far as the traces show it.
pub(crate) fn are_all(ranks: &[RankTrace]) -> bool {
    ranks.iter().all(|ranked| ranked.trace.header.world_size.is_none_or(|size| size as usize <= ranks.len()))
}

impl Breakdown {
    /// The number of ranks of the run; none if it is unknown, or if traces contradict each other.
    pub fn world_size(&self) -> Option<u32> {
        let sizes = self.sizes();
        sizes.first().copied().filter(|_| sizes.len() == 1)
    }

    fn sizes(&self) -> BTreeSet<u32> {
        self.ranks.iter().filter_map(|rank| rank.place.of.or(rank.correction.ranks)).collect()
    }

    /// Whether all are processes without ranks, which need not have to do with each other.
    pub fn are_processes(&self) -> bool {
        self.ranks.len() > 1
            && self.ranks.iter().all(|rank| rank.correction.alone && rank.place.of.is_none_or(|of| of < 2))
    }

    /// A warning if not all ranks of the run are given.
    pub fn absent(&self) -> Option<String> {
        let sizes = self.sizes();
        if self.are_processes() {
            return Some(
                "these are processes without ranks: whether their iterations belong together is not known, so that means of all may say \
                 nothing; break each trace down by itself"
                    .to_owned(),
            );
        }
        if sizes.len() > 1 {
            let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            return Some(format!(
                "the traces are of runs of {} ranks, and so of different runs: what ranks have in common, as waiting for each other, is \
                 not to be trusted",
                sizes.join(" and ")
            ));
        }
        let size = sizes.first().copied()?;
        let (given, strange): (BTreeSet<u32>, BTreeSet<u32>) =
            self.ranks.iter().map(|rank: &RankBreakdown| rank.place.rank).partition(|rank| *rank < size);
        if !strange.is_empty() {
            return Some(format!(
                "{} cannot be of a run of {size} ranks: the traces contradict each other about it",
                rank_list(&strange)
            ));
        }
        let others = size - given.len() as u32;
        let (are, these) = if given.len() == 1 { ("is", "this one waits") } else { ("are", "these wait") };
        (others > 0).then(|| {
            let [what, them] = match others {
                1 => ["the other one does".to_owned(), "it".to_owned()],
                _ => [format!("the other {others} do"), "them".to_owned()],
            };
            format!(
                "{} of {size} {are} given: what {what} is not known, nor how long {these} for {them}",
                rank_list(&given)
            )
        })
    }
}
