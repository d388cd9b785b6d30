//! Tensors, and what happens to them.

use super::amount::Amount;
use crate::network::NodeId;

/// What a tensor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Weights,
    WeightGradients,
    OptimizerState,
    Activations,
    ActivationGradients,
    Workspace,
}

/// A tensor of the schedule: its size, what it is for and the node it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tensor {
    pub amount: Amount,
    pub role: Role,
    pub node: NodeId,
}

/// Position of a tensor in [`Schedule::tensors`].
pub(super) type TensorId = u32;

/// What happens to one tensor, or to the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Allocate(TensorId),
    Free(TensorId),
    /// Backward is done, the optimizer's turn: here the published profiler reads its counters once more.
    BackwardDone,
}
