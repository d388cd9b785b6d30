//! What optimizers keep for every weight, and what they borrow while they update it.

use crate::error::{Error, Result};
use std::fmt;

/// The rule by which a training step changes the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Optimizer {
    /// Stochastic gradient descent with weight decay.
    Sgd,
    /// The same with momentum; what the published profiler runs.
    Momentum,
    /// Adam with weight decay added to the gradient.
    Adam,
    /// Adam with weight decay of its own.
    AdamW,
}

/// One tensor, as large as the weight, that an update makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Update {
    /// It stays, made in the first step.
    State,
    /// It goes when the weight is done.
    Borrow,
}

impl Optimizer {
    /// All of them, in the order they are listed to people.
    pub const ALL: [Optimizer; 4] = [Optimizer::Sgd, Optimizer::Momentum, Optimizer::Adam, Optimizer::AdamW];

    /// The word in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Optimizer::Sgd => "sgd",
            Optimizer::Momentum => "momentum",
            Optimizer::Adam => "adam",
            Optimizer::AdamW => "adamw",
        }
    }

    /// The optimizer of that name.
    ///
    /// # Errors
    /// An unknown word, with the nearest known one.
    pub fn parse(word: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|optimizer| optimizer.name() == word);
        found.ok_or_else(|| {
            Error::config(format!("unknown optimizer \"{word}\"")).one_of(word, Self::ALL.map(Self::name))
        })
    }

    /// What an update of one weight makes, in order, in PyTorch's one-tensor-at-a-time form (torch/csrc/api/src/optim/sgd.cpp,
    /// adam.cpp, adamw.cpp; torch/optim from 1.5 on).
    pub(super) fn updates(self) -> &'static [Update] {
        use Update::{Borrow, State};
        match self {
            // grad.add(weight, decay) is a new tensor, momentum starts as its clone.
            Optimizer::Sgd => &[Borrow],
            Optimizer::Momentum => &[Borrow, State],
            // Two averages; then the decayed gradient, the root and the denominator.
            Optimizer::Adam => &[State, State, Borrow, Borrow, Borrow],
            Optimizer::AdamW => &[State, State, Borrow, Borrow],
        }
    }
}

impl fmt::Display for Optimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
