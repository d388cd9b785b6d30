//! Which configurations to measure, in which order, and which not to any more.

mod adaptive;
mod grid;
mod ledger;
mod sweep;
mod turn;

pub use adaptive::{Adaptive, Means, Offer, Share};
pub use grid::Grid;
pub use ledger::{Decision, Ledger};
pub use sweep::{Configuration, Sweep, Test, regroup, shuffle_batches};
pub use turn::{Ending, Plan, Turn};
