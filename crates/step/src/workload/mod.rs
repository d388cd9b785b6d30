//! The workload of a network on a device: stage, batch size and measured quantity.

/// What serde needs of a type that is stored as the word it is parsed from.
macro_rules! stored_as_its_word {
    ($Type:ident) => {
        impl TryFrom<String> for $Type {
            type Error = String;

            fn try_from(word: String) -> std::result::Result<Self, String> {
                $Type::parse(&word).map_err(|error| error.to_string())
            }
        }

        impl From<$Type> for String {
            fn from(value: $Type) -> Self {
                value.to_string()
            }
        }
    };
}

mod checkpoint;
mod loss;
mod optimizer;
mod precision;
mod step;
mod trainable;

pub use checkpoint::Checkpoint;
pub use loss::Loss;
pub use optimizer::{Optimizer, ZeroGrad};
pub use precision::{AutocastDevice, NumberFormat, Precision};
pub use step::{Accumulate, Changes, Setting, Step};
pub use trainable::{FrozenNormalisation, Patterns, Trainable};

use perf4sight_base::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// A step of more samples is a slip of the hand: no device holds them.
pub const LARGEST_BATCH: u64 = 1_000_000;

perf4sight_base::words! {
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Stage: "stage" {
        /// Forward, loss, zero_grad, backward, optimizer.
        Training = "training",
        /// Forward in evaluation mode, without gradients.
        Inference = "inference",
    }
}

perf4sight_base::words! {
    /// A measured and predicted quantity of a whole step.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Quantity {
        /// Milliseconds a step takes.
        Latency = "latency",
        Memory = "memory",
    }
}

perf4sight_base::words! {
    /// A variable of a profile; the words of `profile_variables` and `test_var`.
    pub enum Variable: "profile variable" {
        /// Milliseconds a step takes.
        Latency = "latency",
        Memory = "memory",
        /// Milliseconds each operation of a step takes.
        Layers = "layers",
    }
}

/// One step of a network, with its number of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Workload {
    /// What is done with a batch.
    #[serde(flatten)]
    pub step: Step,
    /// Samples per step, at least 1.
    pub batch: u64,
}

perf4sight_base::words! {
    /// The part of a step that a time is of.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum StepPart {
        /// One operation's result.
        Forward = "forward",
        /// One operation's gradients, including the sum of incoming ones.
        Backward = "backward",
        Loss = "loss",
        ZeroGrad = "zero_grad",
        Optimizer = "optimizer",
        Step = "step",
    }
}

impl Workload {
    /// The published step for so many samples.
    pub const fn published(stage: Stage, batch: u64) -> Self {
        Workload { step: Step::published(stage), batch }
    }

    /// Refuses passes without samples.
    ///
    /// # Errors
    /// More passes than samples.
    pub fn check(self) -> Result<()> {
        let passes = self.step.accumulate.passes();
        match passes <= self.batch {
            true => Ok(()),
            false => Err(Error::config(format!(
                "accumulate = {passes} leaves passes without a sample at batch size {}",
                self.batch
            ))
            .expected("at most as many passes as samples: the batch size counts the samples of all passes")
            .help("ask for larger batches or fewer passes")),
        }
    }
}

impl Variable {
    /// The quantity of a whole step that it is, if it is one.
    pub fn quantity(self) -> Option<Quantity> {
        match self {
            Variable::Latency => Some(Quantity::Latency),
            Variable::Memory => Some(Quantity::Memory),
            Variable::Layers => None,
        }
    }
}

impl From<Quantity> for Variable {
    fn from(quantity: Quantity) -> Self {
        match quantity {
            Quantity::Latency => Variable::Latency,
            Quantity::Memory => Variable::Memory,
        }
    }
}
