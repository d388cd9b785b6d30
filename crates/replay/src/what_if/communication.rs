//! `communication x 2`: all exchanges between ranks that take longer or shorter.

use super::bandwidth::{scale_transfers, scaled};
use super::clause::WhatIfClause;
use super::{Scenario, StepChange};
use perf4sight_base::error::Result;

#[derive(Debug)]
struct OtherCommunication(f64);

pub(super) fn parse(clause: &WhatIfClause) -> Option<Result<Box<dyn StepChange>>> {
    let factor = clause.factor_of("communication")?;
    Some(factor.map(|factor| Box::new(OtherCommunication(factor)) as Box<dyn StepChange>))
}

impl StepChange for OtherCommunication {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        scale_transfers(scenario, |latency, bytes| self.0 * (latency + bytes));
        for cost in scenario.communication.groups.iter_mut().flatten() {
            cost.latency = scaled(cost.latency, self.0);
            cost.per_byte = scaled(cost.per_byte, self.0);
            cost.per_byte_within_node = cost.per_byte_within_node.map(|per_byte| per_byte * self.0);
        }
        Ok(())
    }
}
