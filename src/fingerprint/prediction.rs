//! A prediction in full: the value, how far off it may be, and what about the network nobody has profiled.

use super::predicted::Predicted;
use super::unlike::Unlike;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;

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

/// A 90 % prediction interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: Predicted,
    /// Its upper end.
    pub high: Predicted,
    /// What the 90 % rest on.
    pub basis: Basis,
}

impl Interval {
    /// Whether a measured value, in the unit of the profile's columns, lies inside.
    pub fn contains(&self, measured: f64) -> bool {
        (self.low.value()..=self.high.value()).contains(&measured)
    }
}

/// What the 90 % of an interval rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Conformal prediction over at least ten networks, each left out once.
    Conformal,
    /// The same residuals of fewer networks: too few for a guarantee.
    Estimated,
    /// The network was profiled: its own levels, each left out once.
    Levels,
    /// How much networks, levels and rows vary and how uncertain the device's parameters are, learned from networks left out.
    Networks,
    /// The same, and a few rows of this network.
    Rows,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Basis::Conformal => "conformal 90 %",
            Basis::Estimated => "estimated 90 % (fewer than ten networks profiled)",
            Basis::Levels => "estimated 90 % (from other levels of this network)",
            Basis::Networks => "estimated 90 % (from networks left out)",
            Basis::Rows => "estimated 90 % (from rows of this network)",
        })
    }
}

/// Memory that a step must fit into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Room {
    /// How much there is.
    pub bytes: Bytes,
    /// What of a step has to fit into it.
    pub counts: Counts,
}

/// What of a step counts against a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Counts {
    /// All memory that it uses.
    All,
    /// What the allocator takes for its tensors.
    Tensors,
}

/// Whether a step fits into the memory there is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// Probability that it fits, from 0 to 1.
    pub fits: f64,
    /// In one word.
    pub call: Call,
}

/// A verdict in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Fits with a probability of at least 90 %.
    Fits,
    /// Neither is at least 90 % sure.
    Borderline,
    /// Does not fit with a probability of at least 90 %.
    DoesNotFit,
}

/// How sure a verdict must be not to be borderline.
const SURE: f64 = 0.9;

impl Verdict {
    /// The verdict of a probability from 0 to 1 that the step fits.
    pub(super) fn new(fits: f64) -> Self {
        let call = match fits {
            _ if fits >= SURE => Call::Fits,
            _ if fits <= 1.0 - SURE => Call::DoesNotFit,
            _ => Call::Borderline,
        };
        Verdict { fits, call }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Call::Fits => "fits",
            Call::Borderline => "borderline",
            Call::DoesNotFit => "does not fit",
        })
    }
}

/// The largest batch sizes of a network; 0 where not even one sample fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxBatch {
    /// With the margin: meant to hold.
    pub safe: u64,
    /// Without: as likely to fit as not.
    pub likely: u64,
}
