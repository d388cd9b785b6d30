//! How far off a prediction may be.

use super::predicted::Predicted;
use std::fmt;

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
    /// What is believed of such devices before anything is measured.
    Prior,
    /// What those of the profiled step rest on, widened by what this one does otherwise: of such a step nothing was measured.
    OtherStep,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Basis::Conformal => "conformal 90 %",
            Basis::Estimated => "estimated 90 % (fewer than ten networks profiled)",
            Basis::Levels => "estimated 90 % (from other levels of this network)",
            Basis::Networks => "estimated 90 % (from networks left out)",
            Basis::Rows => "estimated 90 % (from rows of this network)",
            Basis::Prior => "90 % of a prior: nothing was measured on this device",
            Basis::OtherStep => "as of the profiled step, not tested of this one",
        })
    }
}

/// How wide the intervals of one network are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::fingerprint) struct Band {
    /// Natural logarithms of the factors between a prediction and the lower and upper end of its interval.
    pub ends: [f64; 2],
    /// What the 90 % rest on.
    pub basis: Basis,
}

impl Band {
    /// As far below as above.
    pub fn even(width: f64, basis: Basis) -> Self {
        Band { ends: [-width, width], basis }
    }
}
