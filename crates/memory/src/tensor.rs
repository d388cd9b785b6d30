//! Tensors and their events.

use crate::amount::BatchBytes;
use perf4sight_network::NodeId;
use smallvec::SmallVec;

/// The role of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorRole {
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

impl TensorRole {
    /// All of them, those that stay longest first.
    pub const ALL: [TensorRole; 6] = [
        TensorRole::Weights,
        TensorRole::OptimizerState,
        TensorRole::WeightGradients,
        TensorRole::Activations,
        TensorRole::ActivationGradients,
        TensorRole::Workspace,
    ];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            TensorRole::Weights => "weights",
            TensorRole::WeightGradients => "gradients",
            TensorRole::OptimizerState => "optimizer state",
            TensorRole::Activations => "activations",
            TensorRole::ActivationGradients => "gradients of activations",
            TensorRole::Workspace => "workspace",
        }
    }
}

/// A tensor of the schedule: its size, its purpose and its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScheduledTensor {
    pub amount: BatchBytes,
    pub role: TensorRole,
    pub node: NodeId,
}

/// Position of a tensor in the tensors of a schedule.
pub(crate) type TensorId = u32;

/// The tensors of one operation, which are seldom more.
pub(crate) type FewTensors = SmallVec<[TensorId; 4]>;

/// An event of one tensor, or of the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScheduleEvent {
    Allocate(TensorId),
    Free(TensorId),
    /// The gradient of a weight is complete: it stays, or is added to that of an earlier pass and freed.
    Settle(TensorId),
    /// Backward is done and the optimizer comes next: here the published profiler reads its counters once more.
    BackwardDone,
}

/// A part of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepPhase {
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
pub(crate) struct OperationMark {
    pub event: usize,
    pub phase: StepPhase,
    pub node: NodeId,
}

impl StepPhase {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            StepPhase::Forward => "forward",
            StepPhase::Loss => "loss",
            StepPhase::Backward => "backward",
            StepPhase::Update => "update",
        }
    }
}
