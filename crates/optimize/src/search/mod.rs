//! Operator fusion: which operations to compute together, searched on the graph of one rank.
//!
//! Ranks that do the same are searched once: one of them stands for all, and what is found is made on each. A state is
//! evaluated by a partial replay: only what a move makes later or earlier is computed again.

mod chain;
mod checkpoint;
mod critical_path;
mod everything;
mod fused;
mod memory;
mod operations;
mod searches;
mod tree;
mod units;
mod walk;

pub use checkpoint::SearchCheckpoint;
pub use fused::{FusionMove, FusionState};
pub use operations::{FusableOperation, FusionClass, operation};
pub(crate) use searches::identity;
pub use searches::{ContinueSearch, SearchSettings};
pub(crate) use units::BYTES_OF_OPERATION;
pub use units::{FusionUnit, UnitGraph};
pub use walk::{EvaluatedMove, SearchMethod, SearchOptions, SearchWalk};

#[cfg(test)]
mod tests;
