//! Inputs of a network: tensors of numbers, of integers such as the ids of words, of truths such as masks.

use super::Op;
use super::activations::Activation;
use super::effects::{Gradient, Storage};
use super::facts::{Coupling, Facts, Nature};
use crate::Shape;

perf4sight_base::words! {
    /// The element type of a tensor.
    #[derive(Default)]
    pub enum Element {
        /// Floating-point numbers, as in every trained tensor. Results of comparisons between them count as numbers.
        #[default]
        Number = "numbers",
        /// Integers of 64 bits: ids of words, positions, masks of zeros and ones.
        Integer = "integers",
        /// True or false.
        Truth = "truths",
    }
}

impl Element {
    /// Bytes of one element, if a number takes `number` bytes; as in PyTorch.
    pub fn bytes(self, number: u64) -> u64 {
        match self {
            Element::Number => number,
            Element::Integer => 8,
            Element::Truth => 1,
        }
    }
}

/// One input of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Shape of one sample.
    pub shape: Shape,
    /// Its element type.
    pub element: Element,
}

impl Input {
    /// Integers, such as the ids of words.
    pub fn integers(shape: Shape) -> Self {
        Input { shape, element: Element::Integer }
    }

    /// True or false, such as a mask.
    pub fn truths(shape: Shape) -> Self {
        Input { shape, element: Element::Truth }
    }

    pub(super) fn facts<'a>() -> Facts<'a> {
        Facts { storage: Storage::Resident, ..Facts::new(Nature::Input, Coupling::Given, Gradient::Ends) }
    }
}

impl Op {
    /// The element type of its result for inputs of these types. Comparisons and logic give truth as numbers.
    pub(crate) fn element(&self, inputs: &[Element]) -> Element {
        let of = |place: usize| inputs.get(place).copied().unwrap_or_default();
        match self {
            Op::Input(input) => input.element,
            Op::Cast(element) => *element,
            Op::Concat { .. } | Op::Flatten | Op::Reshape(_) | Op::Transpose { .. } | Op::Slice { .. } => of(0),
            Op::Contiguous { .. } | Op::Every { .. } | Op::Pick(_) | Op::Pad { .. } | Op::Expand(_) => of(0),
            Op::Where => of(1),
            Op::Binary(binary) if binary.is_truth() => Element::Number,
            Op::Binary(_) | Op::Reduce { .. } | Op::CumSum { .. } => of(0),
            // Positions have the element type of the searched tensor.
            Op::TopK(_) | Op::ArgMax(_) => of(0),
            Op::Activation(Activation::Abs | Activation::Neg | Activation::Sign) => of(0),
            Op::Activation(_)
            | Op::Parameter(_)
            | Op::Embedding(_)
            | Op::Conv(_)
            | Op::ConvTranspose(_)
            | Op::Linear(_) => Element::Number,
            Op::BatchNorm { .. } | Op::LayerNorm { .. } | Op::GroupNorm { .. } | Op::Softmax { .. } => Element::Number,
            Op::MaxPool(_) | Op::AvgPool { .. } | Op::AdaptiveAvgPool { .. } | Op::Resize { .. } => Element::Number,
            Op::Conv3d(_) | Op::MaxPool3d(_) | Op::AvgPool3d { .. } | Op::Fold(_) | Op::GridSample(_) => {
                Element::Number
            }
            Op::MatMul | Op::Attention | Op::Dropout { .. } | Op::DropPath { .. } => Element::Number,
            Op::Recurrent(_) | Op::Unknown(_) => Element::Number,
        }
    }
}

/// Numbers, such as an image.
impl From<Shape> for Input {
    fn from(shape: Shape) -> Self {
        Input { shape, element: Element::Number }
    }
}
