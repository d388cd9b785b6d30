//! What kept a network from getting as small as asked.

use super::walk::Goal;
use std::fmt;

/// Why a walk ended before its goal, or too far past it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// No filter of any convolution can go.
    NothingToPrune,
    /// More channels than are followed; those beyond stay.
    TooMany,
    /// What can still go goes together, and is more than may go past the goal.
    Together,
    /// Every layer that can shrink is as narrow as allowed.
    Minimums {
        /// Channels every layer keeps.
        channels: u32,
        /// Percent of their channels that layers joined by residual sums keep, where there are such.
        summed_percent: Option<f64>,
    },
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::NothingToPrune => write!(f, "no filter can go"),
            Limit::TooMany => write!(f, "it has more channels than any network, and those that are not followed stay"),
            Limit::Together => write!(
                f,
                "channels that go together lead more than {} percentage points past the level",
                Goal::TOLERANCE
            ),
            Limit::Minimums { channels, summed_percent: None } => write!(f, "minimum of {channels} channels a layer"),
            Limit::Minimums { channels, summed_percent: Some(percent) } => {
                write!(f, "minimum of {channels} channels a layer, {percent:.0} % of those in residual sums")
            }
        }
    }
}
