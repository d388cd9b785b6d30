//! Checkpointed segments keep their inputs alone and run again in backward (torch/utils/checkpoint.py, without reentrance).

use super::forward::ForwardRecorder;
use crate::tensor::{FewTensors, Phase, TensorId};
use perf4sight_network::{Node, NodeId};

/// A segment between its forward and its backward.
pub(super) struct Checkpointed {
    read: Vec<TensorId>,
    ran_again: bool,
}

impl ForwardRecorder<'_> {
    /// Before a node's forward: at the start of a segment, its inputs are held.
    pub fn enter_segment(&mut self, id: NodeId, results: &[TensorId], begun: &mut Vec<Checkpointed>) {
        let segment = self.context.segments.get(begun.len()).filter(|segment| segment.nodes.start == id.index());
        if let Some(segment) = segment {
            let read = segment.reads.iter().map(|input| self.recorder.hold(results[input.index()])).collect();
            begun.push(Checkpointed { read, ran_again: false });
        }
    }

    /// After a node's forward: at the end of a segment of which backward needs nothing, its inputs are released.
    pub fn leave_segment(&mut self, id: NodeId, begun: &mut [Checkpointed]) {
        let Some(segment) = self.context.segment_of(id) else { return };
        let last = id.index() + 1 == self.context.segments[segment].nodes.end;
        if last && !(self.context.step.trains() && self.context.first_kept[segment].is_some()) {
            self.recorder.release_all(begun[segment].read.drain(..));
        }
    }

    /// Before a node's backward: the first that needs a tensor that forward has not kept has its segment run again.
    pub fn run_again(&mut self, id: NodeId, segments: &mut [Checkpointed], saved: &mut [FewTensors]) {
        let context = self.context;
        let Some(number) = context.segment_of(id) else { return };
        let checkpointed = &mut segments[number];
        if checkpointed.ran_again || !context.is_kept(id.index()) {
            return;
        }
        checkpointed.ran_again = true;
        let segment = &context.segments[number];
        let again = context.runs_again(segment);
        let mut left = context.reads();
        let mut results: Vec<Option<TensorId>> = vec![None; context.network.nodes().len()];
        for (input, tensor) in segment.reads.iter().zip(&checkpointed.read) {
            results[input.index()] = Some(self.recorder.hold(*tensor));
        }
        for (id, node) in context.network.iter().skip(again.start).take(again.len()) {
            self.recorder.begin(Phase::Forward, id);
            let (result, kept) = self.run(id, &inputs(node, &results));
            results[id.index()] = Some(result);
            saved[id.index()] = kept;
            for input in &node.inputs {
                left[input.index()] -= 1;
                if left[input.index()] == 0 {
                    self.recorder.release_all(results[input.index()].take());
                }
            }
        }
        // It stops as soon as the last node has saved its inputs.
        if segment.nodes.contains(&again.end)
            && context.is_kept(again.end)
            && let Some((id, node)) = context.network.iter().nth(again.end)
        {
            saved[again.end] = self.save_inputs(id, &inputs(node, &results));
        }
        self.end_autocast();
        self.recorder.release_all(results.into_iter().flatten());
    }

    /// After a node's backward: the last that needed a tensor of its segment releases the segment's inputs.
    pub fn end_backward_of_segment(&mut self, id: NodeId, segments: &mut [Checkpointed]) {
        if let Some(segment) = self.context.segment_of(id)
            && self.context.first_kept[segment] == Some(id.index())
        {
            self.recorder.release_all(segments[segment].read.drain(..));
        }
    }
}

fn inputs(node: &Node, results: &[Option<TensorId>]) -> FewTensors {
    let input = |input: &NodeId| results[input.index()].expect("a segment reads what it is given and what it made");
    node.inputs.iter().map(input).collect()
}
