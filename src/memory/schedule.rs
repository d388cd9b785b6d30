//! The steps of a network as allocations and frees in the order PyTorch makes them, for any batch size.

use super::amount::Amount;
use super::plan::Plan;
use super::step::Steps;
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

/// Everything that is allocated and freed, part after part.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Schedule {
    pub tensors: Vec<Tensor>,
    pub parts: [Vec<Event>; 3],
}

/// The parts of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// What lies there before the first step: weights, data.
    Setup,
    /// The first step, which leaves gradients and the optimizer's state behind.
    First,
    /// Any later step, which leaves nothing behind.
    Steady,
}

impl Part {
    pub const ALL: [Part; 3] = [Part::Setup, Part::First, Part::Steady];
}

impl Schedule {
    /// The schedule of a plan.
    pub fn new(plan: &Plan) -> Self {
        let mut steps = Steps::new(plan);
        let parts = Part::ALL.map(|part| {
            match part {
                Part::Setup => steps.set_up(),
                Part::First | Part::Steady => steps.step(),
            }
            std::mem::take(&mut steps.recorder.events)
        });
        Schedule { tensors: steps.recorder.tensors, parts }
    }

    /// What happens in one part.
    pub fn events(&self, part: Part) -> &[Event] {
        &self.parts[part as usize]
    }
}
