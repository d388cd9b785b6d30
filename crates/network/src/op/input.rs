//! Inputs of a network: tensors of numbers, of integers such as the ids of words, of truths such as masks.

use super::Op;
use super::activations::Activation;
use super::effects::{GradientFlow, ResultStorage};
use super::facts::{ChannelCoupling, OperationFacts, OperationNature};
use crate::Shape;

perf4sight_base::words! {
    /// The element type of a tensor.
    #[derive(Default)]
    pub enum ElementKind {
        /// Floating-point numbers, as in every trained tensor. Results of comparisons between them count as numbers.
        #[default]
        Number = "numbers",
        /// Integers of 64 bits: ids of words, positions, masks of zeros and ones.
        Integer = "integers",
        /// True or false.
        Truth = "truths",
    }
}

impl ElementKind {
    /// Bytes of one element, if a number takes `number` bytes; as in PyTorch.
    pub fn bytes(self, number: u64) -> u64 {
        match self {
            ElementKind::Number => number,
            ElementKind::Integer => 8,
            ElementKind::Truth => 1,
        }
    }
}

/// One input of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkInput {
    /// Shape of one sample.
    pub shape: Shape,
    /// Its element type.
    pub element: ElementKind,
}

impl NetworkInput {
    /// Integers, such as the ids of words.
    pub fn integers(shape: Shape) -> Self {
        NetworkInput { shape, element: ElementKind::Integer }
    }

    /// True or false, such as a mask.
    pub fn truths(shape: Shape) -> Self {
        NetworkInput { shape, element: ElementKind::Truth }
    }

    pub(super) fn facts<'a>() -> OperationFacts<'a> {
        OperationFacts {
            storage: ResultStorage::Resident,
            ..OperationFacts::new(OperationNature::Input, ChannelCoupling::Given, GradientFlow::Ends)
        }
    }
}

impl Op {
    /// The element type of PyTorch's result for inputs of these types, as PyTorch has them: comparisons and logic give truths.
    pub(crate) fn held(&self, inputs: &[ElementKind]) -> ElementKind {
        let compares = matches!(self, Op::Binary(binary) if binary.is_truth());
        let gives_truth = compares || matches!(self, Op::Activation(Activation::Not));
        if gives_truth { ElementKind::Truth } else { self.element(inputs) }
    }

    /// The element type of its result for inputs of these types. Comparisons and logic give truth as numbers.
    pub(crate) fn element(&self, inputs: &[ElementKind]) -> ElementKind {
        let of = |place: usize| inputs.get(place).copied().unwrap_or_default();
        match self {
            Op::Input(input) => input.element,
            Op::Cast(element) => *element,
            Op::Concat { .. } | Op::Flatten | Op::Reshape(_) | Op::Transpose { .. } | Op::Slice { .. } => of(0),
            Op::Contiguous { .. } | Op::Every { .. } | Op::Pick(_) | Op::Pad { .. } | Op::Expand(_) => of(0),
            Op::Where => of(1),
            Op::Binary(binary) if binary.is_truth() => ElementKind::Number,
            Op::Binary(_) | Op::Reduce { .. } | Op::CumSum { .. } => of(0),
            // Positions have the element type of the searched tensor.
            Op::TopK(_) | Op::ArgMax(_) => of(0),
            Op::Activation(Activation::Abs | Activation::Neg | Activation::Sign) => of(0),
            Op::Activation(_)
            | Op::Parameter(_)
            | Op::Embedding(_)
            | Op::Conv(_)
            | Op::ConvTranspose(_)
            | Op::Linear(_) => ElementKind::Number,
            Op::BatchNorm { .. } | Op::LayerNorm { .. } | Op::GroupNorm { .. } | Op::Softmax { .. } => {
                ElementKind::Number
            }
            Op::MaxPool(_) | Op::AvgPool { .. } | Op::AdaptiveAvgPool { .. } | Op::Resize { .. } => ElementKind::Number,
            Op::Conv3d(_) | Op::MaxPool3d(_) | Op::AvgPool3d { .. } | Op::Fold(_) | Op::GridSample(_) => {
                ElementKind::Number
            }
            Op::MatMul | Op::Attention | Op::Dropout { .. } | Op::DropPath { .. } => ElementKind::Number,
            Op::Recurrent(_) | Op::Unknown(_) => ElementKind::Number,
        }
    }
}

/// Numbers, such as an image.
impl From<Shape> for NetworkInput {
    fn from(shape: Shape) -> Self {
        NetworkInput { shape, element: ElementKind::Number }
    }
}
