//! `bandwidth x 0.5`, `latency x 2`, `communication x 2`: exchanges whose bytes or messages take longer or shorter.

use super::clause::WhatIfClause;
use super::{Scenario, StepChange};
use crate::communication::{CommunicationCosts, CostEstimate, GroupCost};
use crate::graph::{StepGraph, TransferNode};
use perf4sight_base::error::{Error, Result};

/// What times are multiplied by.
#[derive(Debug)]
struct OtherLinks {
    latency: f64,
    bytes: f64,
}

/// What a factor does to links.
type ParseLinks = fn(f64) -> OtherLinks;

/// Each subject with what its factor does.
const SUBJECTS: [(&str, ParseLinks); 3] = [
    ("bandwidth", |factor| OtherLinks { latency: 1.0, bytes: 1.0 / factor }),
    ("latency", |factor| OtherLinks { latency: factor, bytes: 1.0 }),
    ("communication", |factor| OtherLinks { latency: factor, bytes: factor }),
];

pub(super) fn parse(clause: &WhatIfClause) -> Option<Result<Box<dyn StepChange>>> {
    let change = |(subject, links): (&str, ParseLinks)| Some(clause.factor_of(subject)?.map(links));
    let found = SUBJECTS.into_iter().find_map(change)?;
    Some(found.map(|links| Box::new(links) as Box<dyn StepChange>))
}

impl StepChange for OtherLinks {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let OtherLinks { latency, bytes } = *self;
        // Of the latency alone it has to be known how long it is.
        if bytes == 1.0 && latency != 1.0 {
            check_latency(&scenario.communication)?;
        }
        scale_transfers(scenario, |of_messages, of_bytes| latency * of_messages + bytes * of_bytes);
        for cost in scenario.communication.groups.iter_mut().flatten() {
            cost.latency = scaled(cost.latency, latency);
            cost.per_byte = scaled(cost.per_byte, bytes);
            cost.per_byte_within_node = cost.per_byte_within_node.map(|per_byte| per_byte * bytes);
        }
        Ok(())
    }
}

/// Refuses a change of latency where that of no group is known.
fn check_latency(communication: &CommunicationCosts) -> Result<()> {
    let groups = || communication.groups.iter().flatten();
    match groups().find_map(|cost| cost.unknown_latency) {
        Some(unknown) if groups().all(|cost| cost.unknown_latency.is_some()) => {
            let (operations, remedy) = (unknown.operations(), unknown.remedy());
            let help =
                format!("{remedy}, or give a table of nccl-tests; communication x 2 changes latency and bytes alike");
            Err(Error::input(format!("the latency of messages is not known: {operations} do not show it")).help(help))
        }
        Some(_) | None => Ok(()),
    }
}

/// An estimate times a factor.
fn scaled(estimate: CostEstimate, factor: f64) -> CostEstimate {
    CostEstimate { value: estimate.value * factor, low: estimate.low * factor, high: estimate.high * factor }
}

/// Changes the time of every transfer by what becomes of its shares that are latency and bytes.
pub(super) fn scale_transfers(scenario: &mut Scenario, scale: impl Fn(f64, f64) -> f64) {
    for transfer in &scenario.step.transfers {
        let cost = scenario.communication.groups.get(transfer.group).copied().flatten();
        let bytes =
            cost.map_or(1.0, |cost| share_of_bytes(&scenario.step, transfer, &cost, scenario.communication.algorithm));
        let time = scenario.step.graph.node(transfer.node).duration as f64;
        scenario.step.graph.set_duration(transfer.node, (time * scale(1.0 - bytes, bytes)).round() as u64);
    }
}

/// The share of a transfer's time that its bytes take by the fitted cost; all of it where its size is not known.
fn share_of_bytes(
    step: &StepGraph,
    transfer: &TransferNode,
    cost: &GroupCost,
    algorithm: crate::communication::CollectiveAlgorithm,
) -> f64 {
    let ranks = step.groups[transfer.group].size;
    let Some(bytes) = transfer.payload() else { return 1.0 };
    let shape = crate::communication::shape(transfer.operation, algorithm, ranks, bytes);
    let time = cost.time(shape);
    match time > 0.0 {
        true => cost.time_of_bytes(shape) / time,
        false => 0.0,
    }
}
