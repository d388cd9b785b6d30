//! `rank 3 as the others`: a rank without what makes it different, such as a straggler that waits for data.

use super::clause::WhatIfClause;
use super::other_ranks::{RankDifference, difference};
use super::{Scenario, StepChange, WhatIfFacts};
use crate::graph::{EdgeKind, NodeId, ResourceKind, StepGraph, WorkKind};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::{Milliseconds, count_text};
use perf4sight_traces::rank_list;
use perf4sight_traces::shortened::brief;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
struct RankAsOthers {
    rank: u32,
    /// All ranks of which the scenario says so: none of them is one of the others.
    unlike: BTreeSet<u32>,
}

pub(super) fn parse(clause: &WhatIfClause, known: &WhatIfFacts) -> Option<Result<Box<dyn StepChange>>> {
    let unlike = |rank| known.as_others.iter().copied().chain([rank]).collect();
    let change = |rank| Box::new(RankAsOthers { rank, unlike: unlike(rank) }) as Box<dyn StepChange>;
    number(clause).map(|number| number.map(change))
}

/// The number of the rank that a change makes do what the others do; none for another change.
///
/// # Errors
/// A text that is no number.
pub(super) fn number(clause: &WhatIfClause) -> Option<Result<u32>> {
    let number = clause.strip_word("rank ")?.strip_suffix("as the others")?.trim();
    Some(number.parse().map_err(|_| Error::usage(format!("\"{number}\" is not a rank")).expected("its number")))
}

impl RankAsOthers {
    fn difference(&self, step: &StepGraph) -> Result<RankDifference> {
        let traced: BTreeSet<u32> = step.ranks.iter().map(|rank| rank.number).collect();
        if !traced.contains(&self.rank) {
            let error = Error::usage(format!("rank {} has no trace", self.rank));
            return Err(error.expected(format!("one of {}", rank_list(&traced))));
        }
        let others: Vec<u32> = traced.difference(&self.unlike).copied().collect();
        if others.is_empty() {
            return Err(Error::usage(format!("no rank is left that rank {} could be like", self.rank))
                .expected("a rank that the scenario does not name"));
        }
        difference(step, self.rank, &others)
    }
}

impl StepChange for RankAsOthers {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let step = &mut scenario.step;
        let RankDifference { durations, alone, .. } = self.difference(step)?;
        durations.into_iter().for_each(|(id, time)| step.graph.set_duration(id, time));
        if alone.is_empty() {
            return Ok(());
        }
        let mut builder = step.graph.edit();
        let on_thread = |id| step.graph.resource_of(id).kind == ResourceKind::Thread;
        builder.remove_edges(|_, to, kind| kind == EdgeKind::Synchronisation && alone.contains(&to) && on_thread(to));
        alone.iter().for_each(|id| builder.node_mut(*id).duration = 0);
        step.graph = builder.finish()?;
        Ok(())
    }

    fn rank_as_others(&self) -> Option<u32> {
        Some(self.rank)
    }

    fn assumption(&self) -> Option<String> {
        Some(format!("each operation of rank {} takes as long as the median of the other ranks", self.rank))
    }

    /// What the rank alone does, and that the others do not all do the same.
    fn doubts(&self, step: &StepGraph) -> Vec<String> {
        let Ok(RankDifference { alone, compared, .. }) = self.difference(step) else { return Vec::new() };
        let left_out =
            left_out(step, &alone).map(|names| format!("rank {} alone does {names}, which is left out", self.rank));
        let numbers = step.ranks.iter().map(|rank| rank.number);
        let others: BTreeSet<u32> = numbers.filter(|rank| !self.unlike.contains(rank)).collect();
        let some = (compared != others).then(|| {
            format!("the other ranks do not all do the same: rank {} is as {}", self.rank, rank_list(&compared))
        });
        left_out.into_iter().chain(some).collect()
    }
}

/// What is named at most.
const NAMED: usize = 3;

/// The operations that are left out, those that take longest first; none where there are none.
fn left_out(step: &StepGraph, alone: &BTreeSet<NodeId>) -> Option<String> {
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    for id in alone.iter().filter(|id| matches!(step.graph.node(**id).kind, WorkKind::Operation | WorkKind::Kernel)) {
        *times.entry(step.graph.name(*id)).or_default() += step.graph.node(*id).duration;
    }
    let mut names: Vec<(&str, u64)> = times.into_iter().collect();
    names.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    let more = names.len().saturating_sub(NAMED) as u64;
    let named = names
        .iter()
        .take(NAMED)
        .map(|(name, time)| format!("'{}' ({})", brief(name), Milliseconds(*time as f64 / 1e6)));
    let named: Vec<String> = named.chain((more > 0).then(|| count_text(more, "other"))).collect();
    (!named.is_empty()).then(|| named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::communication::CommunicationCosts;
    use crate::graph::{GraphBuilder, RankNodes, Resource, TaskNode};
    use crate::what_if::parse_with;

    /// A step in which each rank does named operations on a thread, of so many nanoseconds.
    fn step(ranks: &[&[(&str, u64)]]) -> Scenario {
        let mut builder = GraphBuilder::default();
        let mut of_ranks = Vec::new();
        for (number, operations) in (0..).zip(ranks) {
            let name = "thread".to_owned();
            let thread = builder.resource(Resource { rank: Some(number), kind: ResourceKind::Thread, name });
            let mut nodes = Vec::new();
            for (name, duration) in *operations {
                let call = builder.call(name, None);
                let kind = if name.is_empty() { WorkKind::Gap } else { WorkKind::Operation };
                nodes.push(builder.node(TaskNode { duration: *duration, call, resource: thread, kind, priority: 0 }));
            }
            nodes.windows(2).for_each(|pair| builder.edge(pair[0], pair[1], EdgeKind::Order));
            of_ranks.push(RankNodes {
                number,
                stands_for: 1,
                start: nodes[0],
                gradients: Vec::new(),
                silent_passes: 0,
                copies: Vec::new(),
            });
        }
        let step = StepGraph { graph: builder.finish().unwrap(), ranks: of_ranks, ..StepGraph::default() };
        Scenario { step, communication: CommunicationCosts::default() }
    }

    /// Nanoseconds of a rank's thread after all of these ranks do what the others do.
    fn time_of(mut scenario: Scenario, rank: u32, unlike: &[u32]) -> Result<u64> {
        let known = WhatIfFacts { as_others: unlike.to_vec(), ..WhatIfFacts::default() };
        for number in unlike {
            parse_with(&format!("rank {number} as the others"), &known)?.apply(&mut scenario)?;
        }
        let graph = &scenario.step.graph;
        let own = graph.ids().filter(|id| graph.resource_of(*id).rank == Some(rank));
        Ok(own.map(|id| graph.node(id).duration).sum())
    }

    const USUAL: [(&str, u64); 4] = [("", 1), ("a", 10), ("", 1), ("b", 20)];

    /// Rank 1 logs between a and b, and nothing is recorded for a while after it: without this it takes 1 + 10 + 1 + 20 as the others.
    #[test]
    fn what_a_rank_alone_does_goes_with_the_time_after_it() {
        let logs: [(&str, u64); 7] = [("", 1), ("a", 12), ("", 2), ("log", 50), ("", 300), ("b", 25), ("", 0)];
        let scenario = step(&[&USUAL, &logs, &USUAL]);
        let doubts = parse_with("rank 1 as the others", &WhatIfFacts::default()).unwrap().doubts(&scenario.step);
        assert_eq!(doubts, ["rank 1 alone does 'log' (0.000 ms), which is left out"]);
        assert_eq!(time_of(scenario, 1, &[1]), Ok(32));
    }

    /// Rank 1 does b within a range of its own, of which 1 before and 2 after b are its own.
    #[test]
    fn a_range_around_what_a_rank_does_is_no_other_work() {
        let mut scenario = step(&[&USUAL, &[("", 1), ("a", 10), ("", 1), ("mine", 1), ("b", 90), ("mine", 2)], &USUAL]);
        let mut builder = scenario.step.graph.edit();
        let range = builder.call("mine", None);
        let inner = builder.call("b", Some(range));
        builder.node_mut(NodeId(scenario.step.ranks[1].start.0 + 4)).call = inner;
        scenario.step.graph = builder.finish().unwrap();
        assert_eq!(time_of(scenario, 1, &[1]), Ok(32));
    }

    /// The others do c of 3, 9 % of their work, between a and b: it takes its time on rank 1 too.
    #[test]
    fn what_the_others_alone_do_takes_its_time() {
        let others: [(&str, u64); 5] = [("", 1), ("a", 10), ("c", 3), ("", 1), ("b", 20)];
        assert_eq!(time_of(step(&[&others, &[("", 1), ("a", 90), ("", 1), ("b", 20)]]), 1, &[1]), Ok(35));
    }

    /// Of 32 the rank does 12.
    #[test]
    fn a_rank_with_other_work_is_not_as_the_others() {
        let error = time_of(step(&[&USUAL, &[("", 1), ("a", 10), ("", 1), ("other", 20)]]), 1, &[1]).unwrap_err();
        assert!(error.to_string().contains("by time, it does 37.5 %"), "{error}");
    }

    /// Ranks 2 and 3 do the same; rank 0 does something else beside it, and rank 1, which waits, is not as rank 0.
    #[test]
    fn the_others_are_those_that_do_the_same() {
        let logs: [(&str, u64); 6] = [("", 1), ("a", 10), ("", 1), ("log", 50), ("", 1), ("b", 20)];
        let more: [(&str, u64); 5] = [("", 1), ("a", 90), ("x", 7), ("", 1), ("b", 20)];
        let scenario = step(&[&logs, &more, &USUAL, &USUAL]);
        let doubts = parse_with("rank 1 as the others", &WhatIfFacts::default()).unwrap().doubts(&scenario.step);
        assert_eq!(doubts[1], "the other ranks do not all do the same: rank 1 is as ranks 2 and 3");
        assert_eq!(time_of(scenario, 1, &[1]), Ok(32));
    }

    /// Two of three ranks wait 40 longer: neither is one of the others for the other.
    #[test]
    fn ranks_that_are_named_are_none_of_the_others() {
        let late: [(&str, u64); 4] = [("", 41), ("a", 10), ("", 1), ("b", 20)];
        let scenario = step(&[&late, &late, &USUAL]);
        assert_eq!([0, 1].map(|rank| time_of(scenario.clone(), rank, &[0, 1])), [Ok(32), Ok(32)]);
        let error = time_of(scenario, 0, &[0, 1, 2]).unwrap_err();
        assert!(error.to_string().contains("no rank is left"), "{error}");
    }
}
