//! Which configurations to measure, in which order, and which not to any more.

mod ledger;
mod sweep;

pub use ledger::{Decision, Ledger};
pub use sweep::{Configuration, Sweep, Test, regroup, shuffle_batches};
