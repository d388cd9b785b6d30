//! `rank 3 as the others`: a rank without what makes it different, such as a straggler that waits for data.

use super::clause::WhatIfClause;
use super::{Scenario, StepChange};
use crate::graph::{NodeId, ResourceId, StepGraph, WorkKind};
use perf4sight_base::error::{Error, Result};
use std::collections::BTreeMap;

#[derive(Debug)]
struct RankAsOthers(u32);

pub(super) fn parse(clause: &WhatIfClause) -> Option<Result<Box<dyn StepChange>>> {
    let number = clause.strip_word("rank ")?.strip_suffix("as the others")?.trim();
    let number = number.parse().map_err(|_| Error::usage(format!("\"{number}\" is not a rank")).expected("its number"));
    Some(number.map(|number| Box::new(RankAsOthers(number)) as Box<dyn StepChange>))
}

impl StepChange for RankAsOthers {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let step = &mut scenario.step;
        let own = nodes_of(step, self.0);
        if !step.ranks.iter().any(|rank| rank.number == self.0) {
            let known: Vec<String> = step.ranks.iter().map(|rank| rank.number.to_string()).collect();
            return Err(
                Error::usage(format!("rank {} has no trace", self.0)).expected(format!("one of {}", known.join(", ")))
            );
        }
        let others = step.ranks.iter().map(|rank| rank.number).filter(|number| *number != self.0);
        let others: Vec<Vec<NodeId>> =
            others.map(|number| nodes_of(step, number)).filter(|other| is_same_work(step, &own, other)).collect();
        if others.is_empty() {
            return Err(Error::input(format!("no other rank does the same operations as rank {}", self.0))
                .expected("ranks with the same operations in the same order"));
        }
        for (place, id) in own.iter().enumerate() {
            let mut times: Vec<u64> = others.iter().map(|other| step.graph.node(other[place]).duration).collect();
            times.sort_unstable();
            let median = times[(times.len() - 1) / 2].midpoint(times[times.len() / 2]);
            step.graph.set_duration(*id, median);
        }
        Ok(())
    }

    fn rank_as_others(&self) -> Option<u32> {
        Some(self.0)
    }

    fn assumption(&self) -> Option<String> {
        Some(format!("each operation of rank {} takes as long as the median of the other ranks", self.0))
    }
}

/// The nodes of a rank by thread and stream, in the order of what these do: their own is that in which they come in a trace.
fn nodes_of(step: &StepGraph, rank: u32) -> Vec<NodeId> {
    let is_own =
        |id: &NodeId| step.graph.resource_of(*id).rank == Some(rank) && step.graph.node(*id).kind != WorkKind::Launch;
    let mut tracks: BTreeMap<ResourceId, Vec<NodeId>> = BTreeMap::new();
    for id in step.graph.ids().filter(is_own) {
        tracks.entry(step.graph.node(id).resource).or_default().push(id);
    }
    let work = |id: &NodeId| (step.graph.node(*id).kind, step.graph.node(*id).call);
    let mut tracks: Vec<Vec<NodeId>> = tracks.into_values().collect();
    tracks.sort_by_cached_key(|nodes| nodes.iter().map(work).collect::<Vec<_>>());
    tracks.concat()
}

fn is_same_work(step: &StepGraph, own: &[NodeId], other: &[NodeId]) -> bool {
    let alike = |(a, b): (&NodeId, &NodeId)| {
        let (a, b) = (step.graph.node(*a), step.graph.node(*b));
        a.kind == b.kind && a.call == b.call
    };
    own.len() == other.len() && own.iter().zip(other).all(alike)
}
