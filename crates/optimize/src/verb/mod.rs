//! `perf4sight cost-model` and `perf4sight optimize`, with their sections.

mod candidates;
mod choose_plan;
pub mod cost_model;
pub mod half_precision;
pub mod optimize;
mod plan_table;
pub mod strategy;
