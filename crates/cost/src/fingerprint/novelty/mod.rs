//! What sets a network apart from everything that was profiled, and which networks are levels of one another.

mod architecture;
mod forms;
mod profiled;
mod understood;
mod unlike;

pub(super) use architecture::{architecture, level};
pub use forms::taught;
pub(super) use profiled::{Novelty, Profiled};
pub use understood::{LEAST_COVERAGE, check_understood};
pub use unlike::Unlike;
