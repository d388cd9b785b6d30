//! Runs one plan after another: first a fixed grid, then a plan that chooses.

use super::decision::{Decision, Plan};
use super::grid::Grid;
use super::ledger::Ledger;
use crate::records::Learned;
use perf4sight_base::error::Result;

/// All configurations of a grid, then those of another plan.
pub struct Before {
    first: Grid,
    then: Box<dyn Plan>,
}

impl Before {
    /// All of `first`, then the choices of `then`, which does not choose among the configurations of `first`.
    pub fn new(first: Grid, then: Box<dyn Plan>) -> Self {
        Before { first, then }
    }
}

impl Plan for Before {
    fn next(&mut self, ledger: &Ledger, seconds: f64) -> Result<Decision> {
        match self.first.next(ledger, seconds)? {
            Decision::Stop(_) | Decision::Wait => self.then.next(ledger, seconds),
            decision @ (Decision::Measure(_) | Decision::Repeat { .. } | Decision::Skip(_)) => Ok(decision),
        }
    }

    fn left(&self, ledger: &Ledger) -> usize {
        self.first.left(ledger) + self.then.left(ledger)
    }

    fn learned(&self) -> &[Learned] {
        self.then.learned()
    }
}
