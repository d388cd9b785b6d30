//! Parallel training: what a step of a plan takes, from few measured ones, and which plan or grouping of gradients is best.

#![warn(missing_docs)]

mod all_reduce;
mod plan;
mod plans_csv;
mod step;

pub use all_reduce::AllReduce;
pub use plan::{GPT2_VOCABULARY, MeasuredPlan, Plan};
pub use plans_csv::{Row, read as read_plans, read_measured as read_measured_plans};
pub use step::{Fitted, LEAST_ROWS, MOST_ROWS, PredictedStep, StepModel};
