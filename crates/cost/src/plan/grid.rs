//! The plan that measures everything, in a given order.

use super::ledger::{Decision, Ledger};
use super::sweep::Configuration;
use super::turn::{Ending, Plan, Turn};
use perf4sight_base::error::Result;

/// Every configuration in turn, but none larger than one that ran out of memory.
#[derive(Debug, Clone)]
pub struct Grid {
    configurations: Vec<Configuration>,
    /// Those before it are done.
    at: usize,
}

impl Grid {
    /// All of these, in this order.
    pub fn new(configurations: Vec<Configuration>) -> Self {
        Grid { configurations, at: 0 }
    }
}

impl Plan for Grid {
    fn next(&mut self, ledger: &Ledger, _: f64) -> Result<Turn> {
        let done = |configuration: &&Configuration| ledger.decide(configuration) == Decision::Done;
        self.at += self.configurations[self.at..].iter().take_while(done).count();
        for configuration in &self.configurations[self.at..] {
            let only = |variables| Configuration { variables, ..configuration.clone() };
            match ledger.decide(configuration) {
                Decision::Done | Decision::UnderWay => {}
                Decision::Measure(variables) => return Ok(Turn::Measure(only(variables))),
                Decision::Skip { missing, .. } => return Ok(Turn::Skip(only(missing))),
            }
        }
        Ok(if ledger.is_under_way() { Turn::Wait } else { Turn::Stop(Ending::Complete) })
    }

    fn left(&self, ledger: &Ledger) -> usize {
        let ahead = self.configurations[self.at..].iter();
        ahead.filter(|configuration| ledger.decide(configuration) != Decision::Done).count()
    }
}
