//! The peaks of a simulation, and what is alive at them.

use crate::Simulation;
use crate::run_through::{Moment, Peaks, at_least};
use crate::step::{Period, Schedule};
use crate::tensor::{Event, Role, Tensor};
use perf4sight_base::units::Bytes;
use perf4sight_platform::Allocator;

/// Peaks of memory, as the device's profiler reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peak {
    /// Of the tensors alive at once: the column `mem_alloc`.
    pub allocated: Bytes,
    /// Of what the allocator took from the system: the column `mem_reserved`.
    pub reserved: Bytes,
}

/// What is alive when the most is, and what the allocator holds beyond it; together the highest reserved bytes of any step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alive {
    /// Trained weights and running statistics.
    pub weights: Bytes,
    /// Gradients of the weights.
    pub gradients: Bytes,
    /// What the optimizer remembers.
    pub optimizer_state: Bytes,
    /// Activations and what is kept for backward, by layer in the order they run; layers without any are left out.
    pub activations: Vec<Layer>,
    /// Gradients of activations on their way back.
    pub activation_gradients: Bytes,
    /// What libraries borrow within an operation.
    pub workspace: Bytes,
    /// Rounding, and what the allocator caches or cannot use.
    pub fragmentation: Bytes,
}

/// One layer's activations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// The node's name.
    pub name: String,
    /// Its results and what it keeps for backward.
    pub bytes: Bytes,
}

impl From<Peaks> for Peak {
    fn from(Peaks { allocated, reserved }: Peaks) -> Self {
        Peak { allocated: Bytes(allocated), reserved: Bytes(reserved) }
    }
}

impl Alive {
    /// Everything together: the highest reserved bytes.
    pub fn total(&self) -> Bytes {
        let layers = self.activations.iter().map(|layer| layer.bytes);
        let others = [
            self.weights,
            self.gradients,
            self.optimizer_state,
            self.activation_gradients,
            self.workspace,
            self.fragmentation,
        ];
        Bytes(layers.chain(others).fold(0, |sum, bytes| sum.saturating_add(bytes.0)))
    }
}

impl Simulation<'_> {
    /// The peaks at a batch size.
    pub fn peak(&self, batch: u64) -> Peak {
        let (schedule, samples) = self.schedule(batch);
        match self.memo.platform.allocator {
            Allocator::Direct => at_least(&schedule, self.memo.platform, samples).into(),
            Allocator::Caching(_) => self.outcome((&schedule, samples)).reported.into(),
        }
    }

    /// A lower bound of the peaks, where that is found faster than the peaks themselves.
    pub fn peak_at_least(&self, batch: u64) -> Option<Peak> {
        match self.memo.platform.allocator {
            Allocator::Direct => None,
            Allocator::Caching(_) => {
                let (schedule, samples) = self.schedule(batch);
                Some(at_least(&schedule, self.memo.platform, samples).into())
            }
        }
    }

    /// What is alive at the peak.
    pub fn alive(&self, batch: u64) -> Alive {
        let (schedule, batch) = self.schedule(batch);
        let outcome = self.outcome((&schedule, batch));
        let alive = tensors_at(&schedule, outcome.moment);
        let sum = |role: Role| {
            let bytes = alive.iter().filter(|tensor| tensor.role == role).map(|tensor| tensor.amount.bytes(batch));
            Bytes(bytes.fold(0, u64::saturating_add))
        };
        let mut parts = Alive {
            weights: sum(Role::Weights),
            gradients: sum(Role::WeightGradients),
            optimizer_state: sum(Role::OptimizerState),
            activations: self.by_layer(&alive, batch),
            activation_gradients: sum(Role::ActivationGradients),
            workspace: sum(Role::Workspace),
            fragmentation: Bytes(0),
        };
        parts.fragmentation = Bytes(outcome.highest.reserved.saturating_sub(parts.total().0));
        parts
    }

    fn by_layer(&self, alive: &[&Tensor], batch: u64) -> Vec<Layer> {
        let mut bytes = vec![0u64; self.memo.network.nodes().len()];
        for tensor in alive.iter().filter(|tensor| tensor.role == Role::Activations) {
            let layer = &mut bytes[tensor.node.index()];
            *layer = layer.saturating_add(tensor.amount.bytes(batch));
        }
        let layers = self.memo.network.nodes().iter().zip(bytes).filter(|(_, bytes)| *bytes > 0);
        layers.map(|(node, bytes)| Layer { name: node.name.clone(), bytes: Bytes(bytes) }).collect()
    }
}

/// The tensors alive right after an event.
pub(crate) fn tensors_at(schedule: &Schedule, moment: Moment) -> Vec<&Tensor> {
    let mut alive = vec![false; schedule.count()];
    for period in Period::ALL.into_iter().filter(|period| *period <= moment.period) {
        let until = if period == moment.period { moment.event + 1 } else { usize::MAX };
        for event in schedule.events(period).take(until) {
            match event {
                Event::Allocate(tensor) => alive[tensor as usize] = true,
                Event::Free(tensor) => alive[tensor as usize] = false,
                Event::Settle(_) | Event::BackwardDone => {}
            }
        }
    }
    schedule.tensors().zip(alive).filter_map(|(tensor, alive)| alive.then_some(tensor)).collect()
}
