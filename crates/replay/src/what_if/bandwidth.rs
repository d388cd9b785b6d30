//! `bandwidth x 0.5`: links that carry more or fewer bytes a second.

use super::clause::WhatIfClause;
use super::{Scenario, StepChange};
use crate::communication::{CostEstimate, GroupCost};
use crate::graph::{StepGraph, TransferNode};
use perf4sight_base::error::Result;

#[derive(Debug)]
struct OtherBandwidth(f64);

pub(super) fn parse(clause: &WhatIfClause) -> Option<Result<Box<dyn StepChange>>> {
    let factor = clause.factor_of("bandwidth")?;
    Some(factor.map(|factor| Box::new(OtherBandwidth(factor)) as Box<dyn StepChange>))
}

impl StepChange for OtherBandwidth {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        scale_transfers(scenario, |latency, bytes| latency + bytes / self.0);
        for cost in scenario.communication.groups.iter_mut().flatten() {
            cost.per_byte = scaled(cost.per_byte, 1.0 / self.0);
            cost.per_byte_within_node = cost.per_byte_within_node.map(|per_byte| per_byte / self.0);
        }
        Ok(())
    }
}

/// An estimate times a factor.
pub(super) fn scaled(estimate: CostEstimate, factor: f64) -> CostEstimate {
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
