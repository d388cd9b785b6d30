//! Reasons to trust a prediction less.

use perf4sight_base::units::grouped;
use perf4sight_step::workload::Precision;
use std::fmt;

/// One reason to trust a prediction less.
#[derive(Debug, Clone, PartialEq)]
pub enum OutOfDistribution {
    /// A kind of operation, kernel, stride or grouping that no profiled network has.
    Operation(String),
    /// An input of another shape, such as smaller images, than any profiled.
    Input {
        /// This network's.
        shape: String,
        /// Those profiled.
        profiled: Vec<String>,
    },
    /// A size beyond what was profiled.
    Size {
        /// Of what.
        what: String,
        /// This network's.
        value: u64,
        /// The smallest and the largest profiled.
        profiled: [u64; 2],
    },
    /// A larger batch than any profiled.
    Batch {
        /// The one asked for.
        batch: u64,
        /// The largest profiled.
        largest: u64,
    },
    /// Steps that compute with numbers that were not profiled.
    Precision {
        /// Those asked about.
        asked: Precision,
        /// Those profiled.
        profiled: Precision,
    },
    /// Operations that are not understood and therefore not counted.
    NotUnderstood {
        /// How many.
        unknown: usize,
        /// Of how many.
        operations: usize,
    },
}

impl fmt::Display for OutOfDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutOfDistribution::Operation(what) => write!(f, "no profiled network has {what}"),
            OutOfDistribution::Input { shape, profiled } => {
                write!(f, "an input of {shape}, profiled {}", profiled.join(", "))
            }
            OutOfDistribution::Size { what, value, profiled: [low, high] } => {
                write!(f, "{what}: {}, profiled {} to {}", grouped(*value), grouped(*low), grouped(*high))
            }
            OutOfDistribution::Batch { batch, largest } => {
                write!(f, "batch size {} is beyond the {} profiled", grouped(*batch), grouped(*largest))
            }
            OutOfDistribution::Precision { asked, profiled } => {
                write!(f, "steps with precision = {}, profiled {}", asked.name(), profiled.name())
            }
            OutOfDistribution::NotUnderstood { unknown, operations } => {
                write!(f, "{unknown} of {operations} operations are not understood")
            }
        }
    }
}
