//! Which configurations to measure, in which order, and which not to any more.

mod adaptive;
mod before;
mod expected;
mod grid;
mod ledger;
mod sweep;
mod turn;
mod visits;

pub use adaptive::{Adaptive, Means, Offer, Share};
pub use before::Before;
pub use grid::Grid;
pub use ledger::{Decision, Ledger};
pub use sweep::{Configuration, Sweep, Test, regroup};
pub use turn::{Ending, Pace, Plan, Turn};
pub use visits::{Doubt, Visits, doubts};
