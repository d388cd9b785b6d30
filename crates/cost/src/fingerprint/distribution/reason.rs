//! Reasons why a prediction is less reliable.

use perf4sight_base::units::grouped_digits;
use perf4sight_step::workload::Precision;
use std::fmt;

/// One reason why a prediction is less reliable.
#[derive(Debug, Clone, PartialEq)]
pub enum OutOfDistribution {
    /// A kind of operation, kernel, stride or grouping that no profiled network has.
    Operation(String),
    /// An input of another shape, such as smaller images, than any profiled.
    Input {
        /// The shape of this network.
        shape: String,
        /// The profiled shapes.
        profiled: Vec<String>,
    },
    /// A size outside the profiled range.
    Size {
        /// The name of the size.
        what: String,
        /// The size of this network.
        value: u64,
        /// The smallest and the largest profiled.
        profiled: [u64; 2],
    },
    /// A larger batch than any profiled.
    Batch {
        /// The requested batch size.
        batch: u64,
        /// The largest profiled.
        largest: u64,
    },
    /// Steps at a precision that was not profiled.
    Precision {
        /// The requested precision.
        asked: Precision,
        /// The profiled precision.
        profiled: Precision,
    },
    /// Operations that are not understood and therefore not counted.
    NotUnderstood {
        /// The number of those.
        unknown: usize,
        /// The number of all operations.
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
                write!(
                    f,
                    "{what}: {}, profiled {} to {}",
                    grouped_digits(*value),
                    grouped_digits(*low),
                    grouped_digits(*high)
                )
            }
            OutOfDistribution::Batch { batch, largest } => {
                write!(f, "batch size {} is beyond the {} profiled", grouped_digits(*batch), grouped_digits(*largest))
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
