//! The plan that measures everything, in a given order.

use super::decision::{Plan, PlanDecision, PlanEnding};
use super::ledger::{ConfigurationStatus, MeasurementLedger};
use super::sweep::Configuration;
use perf4sight_base::error::Result;

/// Every configuration in order, but no batch larger than one that ran out of memory.
#[derive(Debug, Clone)]
pub struct GridPlan {
    configurations: Vec<Configuration>,
    /// All configurations before this index are done.
    at: usize,
}

impl GridPlan {
    /// A plan that measures each configuration once, in this order.
    pub fn new(configurations: Vec<Configuration>) -> Self {
        GridPlan { configurations, at: 0 }
    }
}

impl Plan for GridPlan {
    fn next(&mut self, ledger: &MeasurementLedger, _: f64) -> Result<PlanDecision> {
        let done = |configuration: &&Configuration| ledger.status(configuration) == ConfigurationStatus::Done;
        self.at += self.configurations[self.at..].iter().take_while(done).count();
        for configuration in &self.configurations[self.at..] {
            let only = |variables| Configuration { variables, ..configuration.clone() };
            match ledger.status(configuration) {
                ConfigurationStatus::Done | ConfigurationStatus::UnderWay => {}
                ConfigurationStatus::Measure(variables) => return Ok(PlanDecision::Measure(only(variables))),
                ConfigurationStatus::Skip { missing, .. } => return Ok(PlanDecision::Skip(only(missing))),
            }
        }
        Ok(if ledger.is_under_way() { PlanDecision::Wait } else { PlanDecision::Stop(PlanEnding::Complete) })
    }

    fn remaining(&self, ledger: &MeasurementLedger) -> usize {
        let ahead = self.configurations[self.at..].iter();
        ahead.filter(|configuration| ledger.status(configuration) != ConfigurationStatus::Done).count()
    }
}
