//! Number formats of a step: of its computation and of its weights.

use serde::{Deserialize, Serialize};

perf4sight_base::words! {
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Precision: "precision" {
        #[default]
        Fp32 = "fp32",
        /// Weights in single precision; forward and loss under PyTorch's autocast, which casts the operands of products to bfloat16.
        AmpBf16 = "amp_bf16",
        /// The same with half precision, whose gradients a scaler keeps within range.
        AmpFp16 = "amp_fp16",
        /// bfloat16 throughout: weights, gradients and optimizer state too.
        Bf16 = "bf16",
    }
}

/// A floating-point format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NumberFormat {
    /// IEEE 754 binary32.
    Fp32,
    /// Half precision (IEEE 754 binary16).
    Fp16,
    /// The upper half of single precision.
    Bf16,
}

/// Whose lists of functions autocast uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutocastDevice {
    /// Code for processors.
    Processor,
    /// CUDA's.
    Accelerator,
}

impl Precision {
    /// The format of weights and data.
    pub const fn held_format(self) -> NumberFormat {
        match self {
            Precision::Fp32 | Precision::AmpBf16 | Precision::AmpFp16 => NumberFormat::Fp32,
            Precision::Bf16 => NumberFormat::Bf16,
        }
    }

    /// The format to which autocast converts operands of products, where it is on.
    pub const fn autocast(self) -> Option<NumberFormat> {
        match self {
            Precision::Fp32 | Precision::Bf16 => None,
            Precision::AmpBf16 => Some(NumberFormat::Bf16),
            Precision::AmpFp16 => Some(NumberFormat::Fp16),
        }
    }
}

impl NumberFormat {
    /// Whether gradients in it have to be scaled to keep within its range (`torch.amp.GradScaler`).
    pub const fn needs_scaler(self) -> bool {
        match self {
            NumberFormat::Fp16 => true,
            NumberFormat::Fp32 | NumberFormat::Bf16 => false,
        }
    }

    /// Bytes of a number.
    pub const fn bytes(self) -> u64 {
        match self {
            NumberFormat::Fp32 => 4,
            NumberFormat::Fp16 | NumberFormat::Bf16 => 2,
        }
    }
}
