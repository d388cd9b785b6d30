//! Operator fusion: which operations to compute together, searched on the graph of one rank.
//!
//! Ranks that do the same are searched once: one of them stands for all, and what is found is made on each. A state is
//! evaluated by a partial replay: only what a move makes later or earlier is computed again.

mod fused;
mod operations;
mod optimizers;
mod units;

pub use fused::{Fused, Move};
pub use operations::{Class, Operation, operation};
pub use optimizers::{Optimizer, Search, Searched, Visit};
pub use units::{Unit, UnitGraph};

#[cfg(test)]
mod tests;
