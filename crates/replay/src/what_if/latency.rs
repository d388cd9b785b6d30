//! `latency x 2`: messages that take longer or shorter to arrive.

use super::bandwidth::{scale_transfers, scaled};
use super::clause::Clause;
use super::{Change, Scenario};
use perf4sight_base::error::{Error, Result};

#[derive(Debug)]
struct Latency(f64);

pub(super) fn parse(clause: &Clause) -> Option<Result<Box<dyn Change>>> {
    let factor = clause.factor_of("latency")?;
    Some(factor.map(|factor| Box::new(Latency(factor)) as Box<dyn Change>))
}

impl Change for Latency {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        if !scenario.communication.groups.iter().flatten().any(|cost| cost.latency_known) {
            return Err(Error::input("the latency of messages is not known: all operations have nearly the same size")
                .help("record operations of several sizes, or give a table of nccl-tests"));
        }
        scale_transfers(scenario, |latency, bytes| latency * self.0 + bytes);
        for cost in scenario.communication.groups.iter_mut().flatten() {
            cost.latency = scaled(cost.latency, self.0);
        }
        Ok(())
    }
}
