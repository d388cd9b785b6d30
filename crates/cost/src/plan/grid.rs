//! The plan that measures everything, in a given order.

use super::decision::{Decision, Ending, Plan};
use super::ledger::{Ledger, Status};
use super::sweep::Configuration;
use perf4sight_base::error::Result;

/// Every configuration in order, but no batch larger than one that ran out of memory.
#[derive(Debug, Clone)]
pub struct Grid {
    configurations: Vec<Configuration>,
    /// All configurations before this index are done.
    at: usize,
}

impl Grid {
    /// A plan that measures each configuration once, in this order.
    pub fn new(configurations: Vec<Configuration>) -> Self {
        Grid { configurations, at: 0 }
    }
}

impl Plan for Grid {
    fn next(&mut self, ledger: &Ledger, _: f64) -> Result<Decision> {
        let done = |configuration: &&Configuration| ledger.status(configuration) == Status::Done;
        self.at += self.configurations[self.at..].iter().take_while(done).count();
        for configuration in &self.configurations[self.at..] {
            let only = |variables| Configuration { variables, ..configuration.clone() };
            match ledger.status(configuration) {
                Status::Done | Status::UnderWay => {}
                Status::Measure(variables) => return Ok(Decision::Measure(only(variables))),
                Status::Skip { missing, .. } => return Ok(Decision::Skip(only(missing))),
            }
        }
        Ok(if ledger.is_under_way() { Decision::Wait } else { Decision::Stop(Ending::Complete) })
    }

    fn left(&self, ledger: &Ledger) -> usize {
        let ahead = self.configurations[self.at..].iter();
        ahead.filter(|configuration| ledger.status(configuration) != Status::Done).count()
    }
}
