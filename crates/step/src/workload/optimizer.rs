//! How training changes the weights, and how it clears the gradients afterwards.

use serde::{Deserialize, Serialize};

perf4sight_base::words! {
    /// The rule by which a training step changes the weights, with PyTorch's defaults for everything not listed here.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Optimizer: "optimizer" {
        /// Stochastic gradient descent with momentum 0.9 and weight decay 5e-4, as in the published profiler.
        #[default]
        Sgd = "sgd",
        /// Stochastic gradient descent with momentum 0.9, PyTorch's with `momentum=0.9` and no more.
        SgdWithoutWeightDecay = "sgd_without_weight_decay",
        /// Stochastic gradient descent with neither.
        SgdWithoutMomentum = "sgd_without_momentum",
        /// Adam, without weight decay.
        Adam = "adam",
        /// Adam with decoupled weight decay, which changes the weight in place.
        #[serde(rename = "adamw")]
        AdamW = "adamw",
        /// Gradients divided by a running root of their squares.
        #[serde(rename = "rmsprop")]
        RmsProp = "rmsprop",
    }
}

perf4sight_base::words! {
    /// How a step clears the gradients before the next one.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ZeroGrad: "zero_grad" {
        /// They are filled with zeros in place, after the loss is known, as PyTorch did in the published profiler.
        #[default]
        Keep = "keep",
        /// They are freed before the step begins, PyTorch's default since 2.0.
        Free = "free",
    }
}

impl Optimizer {
    /// How many state tensors it has for each weight.
    pub fn states(self) -> u64 {
        match self {
            Optimizer::Sgd | Optimizer::SgdWithoutWeightDecay | Optimizer::RmsProp => 1,
            Optimizer::SgdWithoutMomentum => 0,
            Optimizer::Adam | Optimizer::AdamW => 2,
        }
    }

    /// The default handling of gradients: as published with the published optimizer, else PyTorch's default.
    pub fn zero_grad(self) -> ZeroGrad {
        match self {
            Optimizer::Sgd => ZeroGrad::Keep,
            Optimizer::SgdWithoutWeightDecay
            | Optimizer::SgdWithoutMomentum
            | Optimizer::Adam
            | Optimizer::AdamW
            | Optimizer::RmsProp => ZeroGrad::Free,
        }
    }
}
