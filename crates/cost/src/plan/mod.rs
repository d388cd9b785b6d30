//! Plans: which configurations are measured, in which order, and when to stop.

mod adaptive;
mod decision;
mod expected;
mod grid;
mod grid_then_plan;
mod ledger;
mod repetitions;
mod sweep;
#[cfg(test)]
mod tests;

pub use adaptive::{AdaptivePlan, OfferedConfiguration, PlanInputs, RowShare};
pub use decision::{MeasurementPace, Plan, PlanDecision, PlanEnding};
pub use grid::GridPlan;
pub use grid_then_plan::GridThenPlan;
pub use ledger::{ConfigurationStatus, MeasurementLedger};
pub use repetitions::{Repetitions, RowDoubt, doubts};
pub use sweep::{Configuration, Sweep, Test, regroup};
