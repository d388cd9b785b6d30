//! Whether a step fits, and how large it may be.

use perf4sight_base::units::Bytes;
use serde::{Deserialize, Serialize};

/// Memory that a step must fit into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryLimit {
    /// How much is allowed.
    pub bytes: Bytes,
    /// The memory of a step that counts against it.
    pub counts: CountedMemory,
}

perf4sight_base::words! {
    /// The memory of a step that counts against a limit.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum CountedMemory {
        /// All memory that it uses.
        All = "all",
        /// The memory that the allocator takes for its tensors.
        Tensors = "tensors",
    }
}

/// Whether a step fits into the available memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FitVerdict {
    /// Probability from 0 to 1.
    pub fits: f64,
    /// What that probability is called.
    pub call: FitDecision,
}

perf4sight_base::words! {
    /// Whether a step fits, as far as it is sure.
    pub enum FitDecision {
        /// Fits with a probability of at least 90 %.
        Fits = "fits",
        /// Neither probability is at least 90 %.
        Borderline = "borderline",
        /// Does not fit with a probability of at least 90 %.
        DoesNotFit = "does not fit",
    }
}

/// Minimum probability of a verdict that is not borderline.
const SURE: f64 = 0.9;

impl FitVerdict {
    /// The verdict of a probability from 0 to 1 that the step fits.
    pub(in crate::fingerprint) fn new(fits: f64) -> Self {
        let call = match fits {
            _ if fits >= SURE => FitDecision::Fits,
            _ if fits <= 1.0 - SURE => FitDecision::DoesNotFit,
            _ => FitDecision::Borderline,
        };
        FitVerdict { fits, call }
    }
}

/// The largest batch sizes of a network up to which all fit; 0 where not even one sample does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxBatch {
    /// With a safety margin.
    pub safe: u64,
    /// Without a margin: as likely to fit as not.
    pub likely: u64,
}
