//! What a fit sees: the rows of a profile, each with its network.

mod gather;
mod networks;
mod observations;
mod selection;

pub use gather::{Gathered, MOST_FITTED, gather};
pub use networks::Networks;
pub use observations::{Attempt, Observations, Row};
pub use selection::{Levels, Selection};
