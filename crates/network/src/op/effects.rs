//! What an operation does to memory: what is trained, read, written, kept for backward.

use crate::Shape;

/// A trained tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weight {
    /// Its dimensions.
    pub dims: Shape,
    /// Which of them follow the channels.
    pub spans: Spans,
}

/// Along which axes of what is read and given a trained tensor extends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spans {
    /// Its first axis along the result's channels, its second along that axis of the input.
    Filters {
        /// The axis that it sums over.
        input: usize,
    },
    /// Its first axis along that axis of the input, its second along the result's channels.
    Transposed {
        /// The axis that it sums over.
        input: usize,
    },
    /// Its axes along the result's.
    Result {
        /// The one that its first extends along.
        first: usize,
    },
    /// Its second axis along the result's last, its first along none.
    Rows,
    /// None that is known.
    Nothing,
}

/// Elements read and written; backward where a gradient flows on.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// Forward in training.
    pub training: f64,
    /// Forward in inference.
    pub inference: f64,
    /// Backward.
    pub backward: Backward,
    /// Not in memory order.
    pub strided: bool,
}

/// Elements that backward reads and writes.
#[derive(Debug, Clone, PartialEq)]
pub enum Backward {
    /// For all inputs together.
    Once(f64),
    /// For each input whose gradient is computed.
    Each(Vec<f64>),
    /// Of what normalises by the batch's statistics, and where it keeps those that it has.
    Normalised {
        /// With the gradients of the statistics.
        batch: f64,
        /// Without.
        kept: f64,
    },
}

/// Where a result is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// In memory of its own, which the operation needs no more: another may overwrite it.
    Own,
    /// In memory of its own that stays as it is.
    Needed,
    /// In that of the first input: a view.
    View,
    /// Where it is kept between steps.
    Resident,
}

/// What backward needs of an operation's operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
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

/// What forward makes for backward beside the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// A mean and an inverse deviation for each of so many.
    Statistics(u64),
    /// An index for every element of the result.
    Indices,
    /// The logarithm of a sum for each of so many.
    Sums(u64),
    /// A number drawn for every sample.
    Draw,
}

/// What an operation makes of the gradient that comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gradient {
    /// It has no inputs, or nothing that a gradient could say about them.
    Ends,
    /// A tensor for each input.
    Made,
    /// It hands it on as it is, or a part of it.
    Passed,
}

impl Traffic {
    /// Forward whatever the stage, and backward.
    pub(super) fn new(forward: f64, backward: f64) -> Self {
        Traffic { training: forward, inference: forward, backward: Backward::Once(backward), strided: false }
    }
}
