//! Tensors held and released as PyTorch's reference counts do it; the resulting allocations and frees are recorded.

use super::segment::CachedSegment;
use crate::amount::BatchBytes;
use crate::tensor::{FewTensors, OperationMark, ScheduleEvent, ScheduledTensor, StepPhase, TensorId, TensorRole};
use perf4sight_network::NodeId;

/// The holders of each tensor, and the events recorded since they were last taken.
#[derive(Debug)]
pub(super) struct EventRecorder {
    segment: CachedSegment,
    holders: Vec<u32>,
}

impl EventRecorder {
    /// Starts after `before` tensors that stay, each with one holder; reserves room for `own` more, since growing step
    /// by step moves the existing ones each time.
    pub fn starting_after(before: usize, own: usize) -> Self {
        let mut segment = CachedSegment::empty_after(before);
        segment.tensors.reserve(own);
        segment.events.reserve(2 * own);
        segment.marks.reserve(own);
        let mut holders = Vec::with_capacity(before + own);
        holders.resize(before, 1);
        EventRecorder { segment, holders }
    }

    /// A new tensor with one holder.
    pub fn allocate(&mut self, amount: BatchBytes, role: TensorRole, node: NodeId) -> TensorId {
        let id = self.holders.len() as TensorId;
        self.segment.tensors.push(ScheduledTensor { amount, role, node });
        self.holders.push(1);
        self.segment.events.push(ScheduleEvent::Allocate(id));
        id
    }

    pub fn retain(&mut self, tensor: TensorId) -> TensorId {
        self.holders[tensor as usize] += 1;
        tensor
    }

    /// One holder less; with the last one the tensor is freed.
    pub fn release(&mut self, tensor: TensorId) {
        let holders = &mut self.holders[tensor as usize];
        *holders -= 1;
        if *holders == 0 {
            self.segment.events.push(ScheduleEvent::Free(tensor));
        }
    }

    pub fn release_all(&mut self, tensors: impl IntoIterator<Item = TensorId>) {
        tensors.into_iter().for_each(|tensor| self.release(tensor));
    }

    /// A gradient in the numbers that were cast, as one in those that they were cast from (`ToCopyBackward`).
    pub fn cast_back(
        &mut self,
        gradient: TensorId,
        amount: BatchBytes,
        (role, node): (TensorRole, NodeId),
    ) -> TensorId {
        let cast = self.allocate(amount, role, node);
        self.release(gradient);
        cast
    }

    /// Releases a tensor that an operation borrowed: the latest still held, or the one that many before it.
    pub fn give_back(&mut self, before: usize, borrowed: &mut FewTensors) {
        let tensor = borrowed.remove(borrowed.len() - 1 - before);
        self.release(tensor);
    }

    /// The gradient of a weight is whole.
    pub fn settle(&mut self, gradient: TensorId) {
        self.segment.events.push(ScheduleEvent::Settle(gradient));
    }

    /// Whether a tensor has no other holder.
    pub fn is_sole(&self, tensor: TensorId) -> bool {
        self.holders[tensor as usize] == 1
    }

    /// Notes which operation runs from here on.
    pub fn begin(&mut self, phase: StepPhase, node: NodeId) {
        self.segment.marks.push(OperationMark { event: self.segment.events.len(), phase, node });
    }

    /// The events recorded since the last call.
    pub fn take(&mut self) -> CachedSegment {
        std::mem::replace(&mut self.segment, CachedSegment::empty_after(self.holders.len()))
    }
}
