//! Parallel training: what a step of a plan takes, from few measured ones, and which plan or grouping of gradients is best.

#![warn(missing_docs)]

mod all_reduce;
pub mod fusion;
mod memory;
mod minimize;
mod model_file;
mod plan;
mod plans_csv;
pub mod staged;
mod step;
pub mod verb;

pub use all_reduce::AllReduce;
pub use memory::{ASSUMED_ERROR, peak as peak_memory};
pub use model_file::{Model, load as load_model, save as save_model};
pub use plan::{GPT2_VOCABULARY, MeasuredPlan, Plan};
pub use plans_csv::{Row, read as read_plans, read_measured as read_measured_plans};
pub use step::{Fitted, LEAST_ROWS, LeftOut, MOST_ROWS, PredictedStep, StepModel};
