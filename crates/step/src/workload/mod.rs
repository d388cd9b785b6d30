//! The workload of a network on a device: stage, batch size and measured quantity.

mod checkpoint;
mod loss;
mod optimizer;
mod precision;
mod step;
mod trainable;

pub use checkpoint::Checkpoint;
pub use loss::Loss;
pub use optimizer::{Optimizer, ZeroGrad};
pub use precision::{Lists, Number, Precision};
pub use step::{Accumulate, Changes, Setting, Step};
pub use trainable::{FrozenNormalisation, Patterns, Trainable};

use perf4sight_base::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A step of more samples is a slip of the hand: no device holds them.
pub const LARGEST_BATCH: u64 = 1_000_000;

/// The stage of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Forward, loss, zero_grad, backward, optimizer.
    Training,
    /// Forward in evaluation mode, without gradients.
    Inference,
}

/// A measured and predicted quantity of a whole step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quantity {
    /// Milliseconds a step takes.
    Latency,
    /// Memory a step needs.
    Memory,
}

/// A variable of a profile; the words of `profile_variables` and `test_var`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variable {
    /// Milliseconds a step takes.
    Latency,
    /// Memory a step needs.
    Memory,
    /// Milliseconds each operation of a step takes.
    Layers,
}

/// One step of a network, with its number of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Workload {
    /// The step.
    #[serde(flatten)]
    pub step: Step,
    /// Samples per step, at least 1.
    pub batch: u64,
}

/// The part of a step that a time is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pass {
    /// One operation's result.
    Forward,
    /// One operation's gradients, including the sum of incoming ones.
    Backward,
    /// The loss and its gradient.
    Loss,
    /// Setting gradients to zero.
    ZeroGrad,
    /// Updating the parameters.
    Optimizer,
    /// The whole plain step.
    Step,
}

impl Stage {
    /// All stages, in the order they are listed to people.
    pub const ALL: [Stage; 2] = [Stage::Training, Stage::Inference];

    /// The word in configuration, CSV and file names.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Training => "training",
            Stage::Inference => "inference",
        }
    }

    /// The stage of that name.
    ///
    /// # Errors
    /// An unknown word, with the nearest known one.
    pub fn parse(word: &str) -> Result<Self> {
        parse("stage", word, &Self::ALL, Self::name)
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

impl Quantity {
    /// Both quantities, in the order they are listed to people.
    pub const ALL: [Quantity; 2] = [Quantity::Latency, Quantity::Memory];

    /// The word in configuration, CSV and folder names.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Latency => "latency",
            Quantity::Memory => "memory",
        }
    }
}

impl Variable {
    /// All variables, in the order they are listed to people.
    pub const ALL: [Variable; 3] = [Variable::Latency, Variable::Memory, Variable::Layers];

    /// The word in configuration, CSV and folder names.
    pub fn name(self) -> &'static str {
        match self {
            Variable::Latency => Quantity::Latency.name(),
            Variable::Memory => Quantity::Memory.name(),
            Variable::Layers => "layers",
        }
    }

    /// The variable of that name.
    ///
    /// # Errors
    /// An unknown word, with the nearest known one.
    pub fn parse(word: &str) -> Result<Self> {
        parse("profile variable", word, &Self::ALL, Self::name)
    }

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

fn parse<T: Copy>(what: &str, word: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T> {
    all.iter().copied().find(|&known| name(known) == word).ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|&known| name(known)).collect();
        Error::config(format!("unknown {what} \"{word}\"")).one_of(word, known)
    })
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Pass {
    /// Every pass.
    pub const ALL: [Pass; 6] = [Pass::Forward, Pass::Backward, Pass::Loss, Pass::ZeroGrad, Pass::Optimizer, Pass::Step];

    /// The word in the CSV.
    pub fn name(self) -> &'static str {
        match self {
            Pass::Forward => "forward",
            Pass::Backward => "backward",
            Pass::Loss => "loss",
            Pass::ZeroGrad => "zero_grad",
            Pass::Optimizer => "optimizer",
            Pass::Step => "step",
        }
    }
}
