//! `perf4sight cost-model` and `perf4sight optimize`, with their sections.

mod candidates;
pub mod cost_model;
pub mod optimize;
mod plan_table;
mod staged;
