//! Tensors held and let go as PyTorch's reference counts do it; what that means for memory is written down.

use super::amount::Amount;
use super::event::{Event, Mark, Phase, Role, Tensor, TensorId};
use super::recording::Recording;
use perf4sight_network::NodeId;

/// How many hold each tensor so far, and what happened and was done since that was last taken.
#[derive(Debug)]
pub(super) struct Recorder {
    now: Recording,
    holders: Vec<u32>,
}

impl Recorder {
    /// Behind so many tensors that stay, each with one holder; with room for so many more of its own, since growing step by step moves what is there
    /// each time.
    pub fn behind(before: usize, own: usize) -> Self {
        let mut now = Recording::behind(before);
        now.tensors.reserve(own);
        now.events.reserve(2 * own);
        now.marks.reserve(own);
        let mut holders = Vec::with_capacity(before + own);
        holders.resize(before, 1);
        Recorder { now, holders }
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

    /// What happened since this was last asked.
    pub fn take(&mut self) -> Recording {
        std::mem::replace(&mut self.now, Recording::behind(self.holders.len()))
    }
}
