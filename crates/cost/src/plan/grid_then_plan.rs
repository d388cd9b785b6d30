//! Runs one plan after another: first a fixed grid, then a plan that chooses.

use super::decision::{Plan, PlanDecision};
use super::grid::GridPlan;
use super::ledger::MeasurementLedger;
use crate::records::ErrorEstimate;
use perf4sight_base::error::Result;

/// All configurations of a grid, then those of another plan.
pub struct GridThenPlan {
    first: GridPlan,
    then: Box<dyn Plan>,
}

impl GridThenPlan {
    /// All of `first`, then the choices of `then`, which does not choose among the configurations of `first`.
    pub fn new(first: GridPlan, then: Box<dyn Plan>) -> Self {
        GridThenPlan { first, then }
    }
}

impl Plan for GridThenPlan {
    fn next(&mut self, ledger: &MeasurementLedger, seconds: f64) -> Result<PlanDecision> {
        match self.first.next(ledger, seconds)? {
            PlanDecision::Stop(_) | PlanDecision::Wait => self.then.next(ledger, seconds),
            decision @ (PlanDecision::Measure(_) | PlanDecision::Repeat { .. } | PlanDecision::Skip(_)) => Ok(decision),
        }
    }

    fn remaining(&self, ledger: &MeasurementLedger) -> usize {
        self.first.remaining(ledger) + self.then.remaining(ledger)
    }

    fn error_estimates(&self) -> &[ErrorEstimate] {
        self.then.error_estimates()
    }
}
