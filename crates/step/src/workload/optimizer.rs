//! How training changes the weights, and how it clears the gradients afterwards.

use super::parse;
use perf4sight_base::error::Result;
use serde::{Deserialize, Serialize};

/// The rule by which a training step changes the weights, with PyTorch's defaults for everything not listed here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Optimizer {
    /// Stochastic gradient descent with momentum 0.9 and weight decay 5e-4, as in the published profiler.
    #[default]
    Sgd,
    /// Stochastic gradient descent with neither.
    SgdWithoutMomentum,
    /// Adam, without weight decay.
    Adam,
    /// Adam with decoupled weight decay, which changes the weight in place.
    #[serde(rename = "adamw")]
    AdamW,
    /// Gradients divided by a running root of their squares.
    #[serde(rename = "rmsprop")]
    RmsProp,
}

/// How a step clears the gradients before the next one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZeroGrad {
    /// They are filled with zeros in place, after the loss is known, as PyTorch did in the published profiler.
    #[default]
    Keep,
    /// They are freed before the step begins, PyTorch's default since 2.0.
    Free,
}

impl Optimizer {
    /// All of them, in the order they are listed to people.
    pub const ALL: [Optimizer; 5] =
        [Optimizer::Sgd, Optimizer::SgdWithoutMomentum, Optimizer::Adam, Optimizer::AdamW, Optimizer::RmsProp];

    /// The word in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Optimizer::Sgd => "sgd",
            Optimizer::SgdWithoutMomentum => "sgd_without_momentum",
            Optimizer::Adam => "adam",
            Optimizer::AdamW => "adamw",
            Optimizer::RmsProp => "rmsprop",
        }
    }

    /// The optimizer of that name.
    ///
    /// # Errors
    /// An unknown word, with the nearest known one.
    pub fn parse(word: &str) -> Result<Self> {
        parse("optimizer", word, &Self::ALL, Self::name)
    }

    /// How many state tensors it has for each weight.
    pub fn states(self) -> u64 {
        match self {
            Optimizer::Sgd | Optimizer::RmsProp => 1,
            Optimizer::SgdWithoutMomentum => 0,
            Optimizer::Adam | Optimizer::AdamW => 2,
        }
    }

    /// The default handling of gradients: as published with the published optimizer, else PyTorch's default.
    pub fn zero_grad(self) -> ZeroGrad {
        match self {
            Optimizer::Sgd => ZeroGrad::Keep,
            Optimizer::SgdWithoutMomentum | Optimizer::Adam | Optimizer::AdamW | Optimizer::RmsProp => ZeroGrad::Free,
        }
    }
}

impl ZeroGrad {
    /// Both, in the order they are listed to people.
    pub const ALL: [ZeroGrad; 2] = [ZeroGrad::Keep, ZeroGrad::Free];

    /// The word in configuration.
    pub fn name(self) -> &'static str {
        match self {
            ZeroGrad::Keep => "keep",
            ZeroGrad::Free => "free",
        }
    }

    /// The value of that name.
    ///
    /// # Errors
    /// An unknown word, with the nearest known one.
    pub fn parse(word: &str) -> Result<Self> {
        parse("zero_grad", word, &Self::ALL, Self::name)
    }
}
