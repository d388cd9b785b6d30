//! A prediction in full: the value, how far off it may be, and what about the network nobody has profiled.

mod expected;
mod interval;
mod predicted;
mod predictor;
mod shares;
mod verdict;

pub use expected::Expected;
pub(super) use interval::Band;
pub use interval::{Basis, Interval};
pub use predicted::Predicted;
pub(super) use predictor::{Least, Predictor, Steps};
pub use shares::{Share, Shares, TimedOperation};
pub use verdict::{Call, Counts, MaxBatch, MemoryLimit, Verdict};

use super::novelty::Unlike;

/// What a fingerprint says of one network at one batch size.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The likeliest value.
    pub value: Predicted,
    /// Where nine of ten measurements should lie; none for the published method, which knows no intervals.
    pub interval: Option<Interval>,
    /// What sets the network apart from everything profiled, if anything.
    pub unlike: Vec<Unlike>,
}
