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

pub use checkpoint::Checkpoint;
pub use fused::{Fused, Move};
pub use operations::{Class, Operation, operation};
pub(crate) use searches::identity;
pub use searches::{GoOn, Searches};
pub(crate) use units::BYTES_OF_OPERATION;
pub use units::{Unit, UnitGraph};
pub use walk::{Search, SearchMethod, Visit, Walk};

#[cfg(test)]
mod tests;
