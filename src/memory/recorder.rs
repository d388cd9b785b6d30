//! Tensors held and let go as PyTorch's reference counts do it; what that means for memory is written down.

use super::amount::Amount;
use super::event::{Event, Mark, Phase, Role, Tensor, TensorId};
use crate::network::NodeId;

/// The tensors so far, how many hold each, and what happened and was done since that was last taken.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    pub tensors: Vec<Tensor>,
    pub events: Vec<Event>,
    pub marks: Vec<Mark>,
    pub holders: Vec<u32>,
}

impl Recorder {
    /// A new tensor with one holder.
    pub fn allocate(&mut self, amount: Amount, role: Role, node: NodeId) -> TensorId {
        let id = self.tensors.len() as TensorId;
        self.tensors.push(Tensor { amount, role, node });
        self.holders.push(1);
        self.events.push(Event::Allocate(id));
        id
    }

    /// Makes room for so many tensors and events more: growing step by step would move what is there each time.
    pub fn expect(&mut self, tensors: usize, events: usize) {
        self.tensors.reserve_exact(tensors);
        self.holders.reserve_exact(tensors);
        self.events.reserve_exact(events);
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
            self.events.push(Event::Free(tensor));
        }
    }

    /// Whether nobody else holds a tensor.
    pub fn is_sole(&self, tensor: TensorId) -> bool {
        self.holders[tensor as usize] == 1
    }

    /// Notes what is done from here on.
    pub fn begin(&mut self, phase: Phase, node: NodeId) {
        self.marks.push(Mark { event: self.events.len(), phase, node });
    }

    /// Notes that backward is over.
    pub fn backward_done(&mut self) {
        self.events.push(Event::BackwardDone);
    }
}
