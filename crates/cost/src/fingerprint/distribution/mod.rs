//! Differences between a network and the profiled ones, and which networks are levels of one another.

mod architecture;
mod kinds;
mod profiled;
mod reason;
mod understood;

pub(super) use architecture::{architecture, level};
pub use kinds::calibration_kinds;
pub(super) use profiled::{Extrapolation, ProfiledNetworks};
pub use reason::OutOfDistribution;
pub use understood::{LEAST_COVERAGE, check_understood};
