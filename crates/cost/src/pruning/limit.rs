//! Why a network could not be pruned to its goal.

use super::walk::PruningGoal;
use std::fmt;

/// Why pruning ended before its goal, or too far past it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PruningLimit {
    /// No filter of any convolution can go.
    NothingToPrune,
    /// The network has more channels than can be followed; the rest stays.
    TooMany,
    /// The remaining groups are larger than the tolerated overshoot.
    Together,
    /// Every layer that can shrink is at its minimum.
    Minimums {
        /// The minimum of channels per layer.
        channels: u32,
        /// Minimum for layers joined by residual sums, in percent of their channels, where there are any.
        summed_percent: Option<f64>,
    },
}

impl fmt::Display for PruningLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PruningLimit::NothingToPrune => write!(f, "no filter can go"),
            PruningLimit::TooMany => {
                write!(f, "it has more channels than any network, and those that are not followed stay")
            }
            PruningLimit::Together => write!(
                f,
                "channels that go together lead more than {} percentage points past the level",
                PruningGoal::TOLERANCE
            ),
            PruningLimit::Minimums { channels, summed_percent: None } => {
                write!(f, "minimum of {channels} channels a layer")
            }
            PruningLimit::Minimums { channels, summed_percent: Some(percent) } => {
                write!(f, "minimum of {channels} channels a layer, {percent:.0} % of those in residual sums")
            }
        }
    }
}
