//! The memory effects of an operation: trained tensors, traffic, storage, and what backward needs.

use crate::Shape;

/// A trained tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainedTensor {
    /// Its dimensions.
    pub dims: Shape,
    /// Which of them follow the channels.
    pub spans: WeightSpans,
}

/// The axes of the input and of the result along which a trained tensor extends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightSpans {
    /// Its first axis along the result's channels, its second along this axis of the input.
    Filters {
        /// The axis that it sums over.
        input: usize,
    },
    /// Its first axis along this axis of the input, its second along the result's channels.
    Transposed {
        /// The axis that it sums over.
        input: usize,
    },
    /// Its axes along the result's.
    Result {
        /// The axis of the result that its first extends along.
        first: usize,
    },
    /// Its second axis along the result's last, its first along none.
    Rows,
    /// No known axes.
    Nothing,
}

/// Elements read and written; backward only if a gradient flows on.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryTraffic {
    /// Forward in training.
    pub training: f64,
    /// Forward in inference.
    pub inference: f64,
    /// Backward.
    pub backward: BackwardTraffic,
    /// Not in memory order.
    pub strided: bool,
}

/// Elements that backward reads and writes.
#[derive(Debug, Clone, PartialEq)]
pub enum BackwardTraffic {
    /// For all inputs together.
    Once(f64),
    /// For each input whose gradient is computed.
    Each(Vec<f64>),
    /// For batch normalisation, by the batch's statistics or by the running ones.
    Normalised {
        /// With the gradients of the batch's statistics.
        batch: f64,
        /// Without them, with running statistics.
        kept: f64,
    },
}

/// Where a result is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultStorage {
    /// In its own memory, which the operation no longer needs: another one may overwrite it.
    Own,
    /// In its own memory, which must stay unchanged.
    Needed,
    /// In the memory of the first input: a view.
    View,
    /// In memory that is kept between steps.
    Resident,
}

/// What backward needs of an operation's operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackwardNeeds {
    /// Nothing.
    Nothing,
    /// The first input.
    First,
    /// Every input.
    Inputs,
    /// The result.
    Result,
    /// Every input and the result.
    All,
}

/// Additional results of forward for backward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuxiliaryResult {
    /// This many means and inverse deviations.
    Statistics(u64),
    /// An index for every element of the result.
    Indices,
    /// This many logarithms of sums.
    Sums(u64),
    /// A random number for every sample.
    Draw,
    /// Which elements of the result are zeros.
    Mask,
    /// The states and gates of all time steps.
    States,
}

/// How an operation computes the gradients of its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GradientFlow {
    /// It has no inputs, or none of them has a gradient.
    Ends,
    /// It makes a tensor for each input.
    Made,
    /// It passes on the incoming gradient, or a part of it.
    Passed,
}

impl MemoryTraffic {
    /// The same forward in all stages, and backward.
    pub(super) fn new(forward: f64, backward: f64) -> Self {
        MemoryTraffic {
            training: forward,
            inference: forward,
            backward: BackwardTraffic::Once(backward),
            strided: false,
        }
    }
}
