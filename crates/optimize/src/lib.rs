//! Parallel training: what a step of a plan takes, from few measured ones, which plan is best, and what to change in a
//! recorded job.

#![warn(missing_docs)]

mod all_reduce;
pub mod changes;
pub mod fusion;
mod memory;
pub mod memory_events;
mod model_file;
pub mod passes;
mod plan;
mod plans_csv;
mod repeated;
pub mod search;
pub mod simulated_memory;
pub mod staged;
pub mod start;
mod step;
pub mod verb;

pub use all_reduce::AllReduceTimes;
pub use memory::{ASSUMED_ERROR, peak as peak_memory};
pub use model_file::{CostModel, load as load_model, save as save_model};
pub use plan::{GPT2_VOCABULARY, MeasuredPlan, TransformerPlan};
pub use plans_csv::{PlanRow, read as read_plans, read_measured as read_measured_plans};
pub use step::{FittedStep, LEAST_ROWS, LeftOutPlans, LeftOutRow, MOST_ROWS, PredictedStep, StepModel};
