//! The tensors that one operation allocates, keeps and borrows: moves in the order its library makes them.

use crate::amount::BatchBytes;

/// One operation's rule.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct MemoryRule {
    /// Its trainable tensors.
    pub weights: Vec<BatchBytes>,
    /// Tensors it keeps between steps that are not trained.
    pub buffers: Vec<BatchBytes>,
    /// Autocast's conversions of its operands before it runs.
    pub casts: OperandCasts,
    pub forward: Vec<RuleAction>,
    /// The tensors that autograd saves until its backward ran.
    pub saves: Vec<SavedTensor>,
    /// The moves of its backward; the incoming gradient and the saved tensors are freed afterwards.
    pub backward: Vec<RuleAction>,
}

/// One allocation, release or hand-over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleAction {
    /// The result, in memory of its own.
    Output,
    /// The result is the first input's memory: a view, an identity, an overwritten input.
    Reuse,
    /// The result exists between the steps: the batch, a free-standing parameter.
    Resident,
    /// A tensor apart from the result that backward needs: statistics, indices, masks.
    Keep(BatchBytes),
    /// Borrowed memory.
    Take(BatchBytes),
    /// Borrowed memory is freed: the latest still held, or the one that many before it.
    Drop(usize),
    InputGradient(usize),
    /// The gradient of an input is the incoming one, or a part of it.
    PassGradient(usize),
    /// The gradient of a trainable tensor.
    WeightGradient(usize),
    /// The gradient of a trainable tensor is a part of the incoming one, which stays alive as a whole.
    PassWeightGradient(usize),
    /// The incoming gradient is copied into a layout without gaps, and freed.
    CopyGradient,
    /// One of several steps of a backward is done: the incoming gradient is freed with the first, and the tensor kept
    /// last with each.
    StepDone,
    /// A tensor kept for backward is freed: the latest still held, or the one that many before it.
    DropKept(usize),
}

/// A tensor that autograd saves without a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SavedTensor {
    Input(usize),
    /// The converted copy of a weight; a weight without one is held anyway.
    Cast(usize),
    /// The result.
    Output,
}

/// Operands that an operation reads in other formats; their gradients have these formats, and are cast back.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct OperandCasts {
    pub by: CastBy,
    pub inputs: Vec<Option<BatchBytes>>,
    pub weights: Vec<Option<BatchBytes>>,
}

/// What casts the operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum CastBy {
    /// Autocast, before the operation runs: autograd saves the copies.
    #[default]
    Autocast,
    /// The operation itself, whose operands differ in type: autograd saves them as they are. Processors' kernels read copies
    /// (`common_dtype` in aten/src/ATen/TensorIterator.cpp).
    Kernel,
    /// The same where kernels cast number by number, as CUDA's do.
    KernelWithoutCopy,
}

impl OperandCasts {
    pub fn input(&self, index: usize) -> Option<BatchBytes> {
        self.inputs.get(index).copied().flatten()
    }

    pub fn weight(&self, index: usize) -> Option<BatchBytes> {
        self.weights.get(index).copied().flatten()
    }
}

impl MemoryRule {
    /// Appends moves to those of forward.
    pub fn forward(mut self, moves: impl IntoIterator<Item = RuleAction>) -> Self {
        self.forward.extend(moves);
        self
    }

    /// Works both ways on a copy of that size.
    pub fn copying(self, amount: BatchBytes) -> Self {
        let rule = self.copying_gradient(amount);
        MemoryRule { forward: borrowing(rule.forward, amount), ..rule }
    }

    /// Works backward on a copy of the incoming gradient, which is of that size.
    pub fn copying_gradient(self, amount: BatchBytes) -> Self {
        MemoryRule { backward: borrowing(self.backward, amount), ..self }
    }

    /// Saves more tensors for backward.
    pub fn saves(mut self, saved: impl IntoIterator<Item = SavedTensor>) -> Self {
        self.saves.extend(saved);
        self
    }

    /// Appends moves to those of backward.
    pub fn backward(mut self, moves: impl IntoIterator<Item = RuleAction>) -> Self {
        self.backward.extend(moves);
        self
    }
}

pub(super) fn borrowing(moves: Vec<RuleAction>, amount: BatchBytes) -> Vec<RuleAction> {
    [RuleAction::Take(amount)].into_iter().chain(moves).chain([RuleAction::Drop(0)]).collect()
}
