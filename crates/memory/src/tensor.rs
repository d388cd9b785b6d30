//! Tensors and their events.

use crate::amount::Amount;
use perf4sight_network::NodeId;
use smallvec::SmallVec;

/// The role of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Trained weights and running statistics.
    Weights,
    /// The optimizer's state.
    OptimizerState,
    /// Gradients of the weights.
    WeightGradients,
    /// Activations, and other tensors kept for backward.
    Activations,
    /// Gradients of activations on their way back.
    ActivationGradients,
    /// Workspaces of libraries within an operation.
    Workspace,
}

impl Role {
    /// All of them, those that stay longest first.
    pub const ALL: [Role; 6] = [
        Role::Weights,
        Role::OptimizerState,
        Role::WeightGradients,
        Role::Activations,
        Role::ActivationGradients,
        Role::Workspace,
    ];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Role::Weights => "weights",
            Role::WeightGradients => "gradients",
            Role::OptimizerState => "optimizer state",
            Role::Activations => "activations",
            Role::ActivationGradients => "gradients of activations",
            Role::Workspace => "workspace",
        }
    }
}

/// A tensor of the schedule: its size, its purpose and its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tensor {
    pub amount: Amount,
    pub role: Role,
    pub node: NodeId,
}

/// Position of a tensor in the tensors of a schedule.
pub(crate) type TensorId = u32;

/// The tensors of one operation, which are seldom more.
pub(crate) type FewTensors = SmallVec<[TensorId; 4]>;

/// An event of one tensor, or of the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Allocate(TensorId),
    Free(TensorId),
    /// The gradient of a weight is complete: it stays, or is added to that of an earlier pass and freed.
    Settle(TensorId),
    /// Backward is done and the optimizer comes next: here the published profiler reads its counters once more.
    BackwardDone,
}

/// A part of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// An operation is run.
    Forward,
    /// The loss is computed, with the tensors that backward needs.
    Loss,
    /// The gradients of an operation are computed.
    Backward,
    /// Weights are changed.
    Update,
}

/// From an event on, another operation or phase runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub event: usize,
    pub phase: Phase,
    pub node: NodeId,
}

impl Phase {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Forward => "forward",
            Phase::Loss => "loss",
            Phase::Backward => "backward",
            Phase::Update => "update",
        }
    }
}
