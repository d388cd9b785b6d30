//! What sets a network apart from everything that was profiled, and which networks are levels of one another.

mod architecture;
mod unlike;

pub(super) use architecture::{architecture, level};
pub use unlike::{LEAST_COVERAGE, Unlike, check_understood};
pub(super) use unlike::{News, Profiled};
