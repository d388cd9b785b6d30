//! What a network reads: tensors of numbers, of integers such as the ids of words, of truths such as masks.

use super::Op;
use super::effects::{Gradient, Storage};
use super::facts::{Coupling, Facts, Nature};
use super::functions::Activation;
use crate::Shape;

/// What the elements of a tensor are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Element {
    /// Floating-point numbers, as in every tensor that is trained. What comparisons between them say counts as such.
    #[default]
    Number,
    /// Integers of 64 bits: ids of words, places, masks of zeros and ones.
    Integer,
    /// True or false.
    Truth,
}

impl Element {
    /// Bytes of one, where a number takes so many; as in PyTorch.
    pub fn bytes(self, number: u64) -> u64 {
        match self {
            Element::Number => number,
            Element::Integer => 8,
            Element::Truth => 1,
        }
    }

    /// What tables and files call it.
    pub fn name(self) -> &'static str {
        match self {
            Element::Number => "numbers",
            Element::Integer => "integers",
            Element::Truth => "truths",
        }
    }
}

/// One input of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// One sample of it.
    pub shape: Shape,
    /// What its elements are.
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
    /// What the elements of its result are, where it is applied to such. Comparisons and logic say truth as numbers.
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
            // Places are made what they are places of.
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
            Op::MatMul | Op::Attention | Op::Dropout { .. } | Op::DropPath { .. } | Op::Unknown(_) => Element::Number,
        }
    }
}

/// Numbers, such as an image.
impl From<Shape> for Input {
    fn from(shape: Shape) -> Self {
        Input { shape, element: Element::Number }
    }
}
