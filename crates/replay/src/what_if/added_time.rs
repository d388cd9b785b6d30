//! `add 2 ms after operations 'gelu*'`: more work behind operations.

use super::clause::{WhatIfClause, pattern, positive};
use super::operations::{matches, matching};
use super::{Scenario, StepChange};
use crate::graph::WorkKind;
use perf4sight_base::error::{Error, Result};

#[derive(Debug)]
struct AddedTime {
    pattern: String,
    nanoseconds: u64,
}

pub(super) fn parse(clause: &WhatIfClause) -> Option<Result<Box<dyn StepChange>>> {
    let (time, operations) = clause.strip_word("add ")?.split_once(" after ")?;
    let pattern = pattern(operations)?.to_owned();
    let added =
        nanoseconds(time).map(|nanoseconds| Box::new(AddedTime { pattern, nanoseconds }) as Box<dyn StepChange>);
    Some(added)
}

fn nanoseconds(text: &str) -> Result<u64> {
    let units = [("ms", 1e6), ("us", 1e3), ("ns", 1.0), ("s", 1e9)];
    let found = units.iter().find_map(|(unit, scale)| text.strip_suffix(unit).map(|number| (number.trim(), scale)));
    match found {
        Some((number, scale)) => positive(number).map(|number| (number * scale).round() as u64),
        None => Err(Error::usage(format!("\"{text}\" is no time")).expected("a time such as 2 ms, 50 us")),
    }
}

impl StepChange for AddedTime {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let graph = &mut scenario.step.graph;
        let mut found = matching(graph, &self.pattern)?;
        // Behind an operation of a thread nothing is added to the kernels that it launched.
        found.retain(|id| graph.node(*id).kind != WorkKind::Kernel || matches(&self.pattern, graph.name(*id)));
        // The nodes of an operation follow one another; the work comes behind the last.
        let is_last = |pair: &[crate::graph::NodeId]| {
            pair[1].index() != pair[0].index() + 1 || graph.node(pair[1]).resource != graph.node(pair[0]).resource
        };
        let mut last: Vec<_> = found.windows(2).filter(|pair| is_last(pair)).map(|pair| pair[0]).collect();
        last.extend(found.last());
        for id in last {
            graph.set_duration(id, graph.node(id).duration.saturating_add(self.nanoseconds));
        }
        Ok(())
    }
}
