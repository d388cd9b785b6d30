//! Number formats of a step: of its computation and of its weights.

use super::parse;
use perf4sight_base::error::Result;
use serde::{Deserialize, Serialize};

/// The precision of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// Single precision throughout.
    #[default]
    Fp32,
    /// Weights in single precision; forward and loss under PyTorch's autocast, which casts the operands of products to bfloat16.
    AmpBf16,
    /// The same with half precision, whose gradients a scaler keeps within range.
    AmpFp16,
    /// bfloat16 throughout: weights, gradients and optimizer state too.
    Bf16,
}

/// A kind of number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Number {
    /// Single precision.
    Fp32,
    /// Half precision (IEEE 754 binary16).
    Fp16,
    /// The upper half of single precision.
    Bf16,
}

/// Whose lists of functions autocast uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lists {
    /// A processor's.
    Processor,
    /// CUDA's.
    Accelerator,
}

impl Precision {
    /// All of them, in the order they are listed to people.
    pub const ALL: [Precision; 4] = [Precision::Fp32, Precision::AmpBf16, Precision::AmpFp16, Precision::Bf16];

    /// The word in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Fp32 => "fp32",
            Precision::AmpBf16 => "amp_bf16",
            Precision::AmpFp16 => "amp_fp16",
            Precision::Bf16 => "bf16",
        }
    }

    /// The precision of that name.
    ///
    /// # Errors
    /// An unknown word, with the nearest known one.
    pub fn parse(word: &str) -> Result<Self> {
        parse("precision", word, &Self::ALL, Self::name)
    }

    /// The format of weights and data.
    pub const fn held(self) -> Number {
        match self {
            Precision::Fp32 | Precision::AmpBf16 | Precision::AmpFp16 => Number::Fp32,
            Precision::Bf16 => Number::Bf16,
        }
    }

    /// The format to which autocast converts operands of products, where it is on.
    pub const fn autocast(self) -> Option<Number> {
        match self {
            Precision::Fp32 | Precision::Bf16 => None,
            Precision::AmpBf16 => Some(Number::Bf16),
            Precision::AmpFp16 => Some(Number::Fp16),
        }
    }
}

impl Number {
    /// Bytes of one.
    pub const fn bytes(self) -> u64 {
        match self {
            Number::Fp32 => 4,
            Number::Fp16 | Number::Bf16 => 2,
        }
    }
}
