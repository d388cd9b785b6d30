//! Plans: which configurations are measured, in which order, and when to stop.

mod adaptive;
mod before;
mod decision;
mod expected;
mod grid;
mod ledger;
mod repetitions;
mod sweep;
#[cfg(test)]
mod tests;

pub use adaptive::{Adaptive, Means, Offer, Share};
pub use before::Before;
pub use decision::{Decision, Ending, Pace, Plan};
pub use grid::Grid;
pub use ledger::{Ledger, Status};
pub use repetitions::{Doubt, Repetitions, doubts};
pub use sweep::{Configuration, Sweep, Test, regroup};
