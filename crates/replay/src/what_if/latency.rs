//! `latency x 2`: messages that take longer or shorter to arrive.

use super::bandwidth::{scale_transfers, scaled};
use super::clause::WhatIfClause;
use super::{Scenario, StepChange};
use perf4sight_base::error::{Error, Result};

#[derive(Debug)]
struct OtherLatency(f64);

pub(super) fn parse(clause: &WhatIfClause) -> Option<Result<Box<dyn StepChange>>> {
    let factor = clause.factor_of("latency")?;
    Some(factor.map(|factor| Box::new(OtherLatency(factor)) as Box<dyn StepChange>))
}

impl StepChange for OtherLatency {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        if !scenario.communication.groups.iter().flatten().any(|cost| cost.latency_known) {
            return Err(Error::input("the latency of messages is not known: all operations have nearly the same size")
                .help("record operations of several sizes, or give a table of nccl-tests; communication x 2 changes latency and bytes alike"));
        }
        scale_transfers(scenario, |latency, bytes| latency * self.0 + bytes);
        for cost in scenario.communication.groups.iter_mut().flatten() {
            cost.latency = scaled(cost.latency, self.0);
        }
        Ok(())
    }
}
