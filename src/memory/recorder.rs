//! Tensors held and let go as PyTorch's reference counts do it; what that means for memory is written down.

use super::amount::Amount;
use super::event::{Event, Mark, Phase, Role, Tensor, TensorId};
use super::recording::{Recording, Stretch};
use crate::network::NodeId;

/// How many hold each tensor so far, and what happened and was done since that was last taken.
#[derive(Debug)]
pub(super) struct Recorder {
    now: Recording,
    holders: Vec<u32>,
}

impl Recorder {
    /// With room for so many tensors: growing step by step would move what is there each time.
    pub fn expecting(tensors: usize) -> Self {
        let mut now = Recording::behind(0);
        now.tensors.reserve(tensors);
        now.events.reserve(2 * tensors);
        Recorder { now, holders: Vec::with_capacity(tensors) }
    }

    /// How many hold each tensor so far.
    pub fn holders(&self) -> &[u32] {
        &self.holders
    }

    /// A new tensor with one holder.
    pub fn allocate(&mut self, amount: Amount, role: Role, node: NodeId) -> TensorId {
        let id = self.holders.len() as TensorId;
        self.now.tensors.push(Tensor { amount, role, node });
        self.holders.push(1);
        self.now.events.push(Event::Allocate(id));
        id
    }

    /// One holder more.
    pub fn hold(&mut self, tensor: TensorId) -> TensorId {
        self.holders[tensor as usize] += 1;
        tensor
    }

    /// One holder less; with the last one the tensor goes.
    pub fn release(&mut self, tensor: TensorId) {
        let holders = &mut self.holders[tensor as usize];
        *holders -= 1;
        if *holders == 0 {
            self.now.events.push(Event::Free(tensor));
        }
    }

    /// The gradient of a weight is whole.
    pub fn settle(&mut self, gradient: TensorId) {
        self.now.events.push(Event::Settle(gradient));
    }

    /// Whether nobody else holds a tensor.
    pub fn is_sole(&self, tensor: TensorId) -> bool {
        self.holders[tensor as usize] == 1
    }

    /// Notes what is done from here on.
    pub fn begin(&mut self, phase: Phase, node: NodeId) {
        self.now.marks.push(Mark { event: self.now.events.len(), phase, node });
    }

    /// Notes that backward is over.
    pub fn backward_done(&mut self) {
        self.now.events.push(Event::BackwardDone);
    }

    /// What happened since this was last asked.
    pub fn take(&mut self) -> Recording {
        std::mem::replace(&mut self.now, Recording::behind(self.holders.len()))
    }

    /// What happened elsewhere happens here: tensors of its own are held by so many, those of before by so many more. Nothing is left to be taken.
    pub fn play(&mut self, stretch: &Stretch, holders: &[u32], held: &[(TensorId, u32)]) {
        debug_assert!(self.now.events.is_empty() && stretch.begin == self.holders.len());
        self.holders.extend_from_slice(holders);
        held.iter().for_each(|(id, more)| self.holders[*id as usize] += more);
        self.now.before = self.holders.len();
    }
}
