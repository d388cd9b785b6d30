//! Checkpointed segments keep their inputs alone and run again in backward (torch/utils/checkpoint.py, without reentrance).

use super::forward::ForwardRecorder;
use crate::tensor::{FewTensors, StepPhase, TensorId};
use perf4sight_network::{Node, NodeId};

/// A segment between its forward and its backward.
pub(super) struct CheckpointedSegment {
    read: Vec<TensorId>,
    ran_again: bool,
}

impl ForwardRecorder<'_> {
    /// Before a node's forward: at the start of a segment, its inputs are held.
    pub fn enter_segment(&mut self, id: NodeId, results: &[TensorId], begun: &mut Vec<CheckpointedSegment>) {
        let segment = self.context.segments.get(begun.len()).filter(|segment| segment.nodes.start == id.index());
        if let Some(segment) = segment {
            let read = segment.reads.iter().map(|input| self.recorder.retain(results[input.index()])).collect();
            begun.push(CheckpointedSegment { read, ran_again: false });
        }
    }

    /// After a node's forward: at the end of a segment of which backward needs nothing, its inputs are released.
    pub fn leave_segment(&mut self, id: NodeId, begun: &mut [CheckpointedSegment]) {
        let Some(segment) = self.context.segment_of(id) else { return };
        let last = id.index() + 1 == self.context.segments[segment].nodes.end;
        if last && !(self.context.step.trains() && self.context.first_kept[segment].is_some()) {
            self.recorder.release_all(begun[segment].read.drain(..));
        }
    }

    /// Before a node's backward: the first that needs a tensor that forward has not kept has its segment run again.
    pub fn run_again(&mut self, id: NodeId, segments: &mut [CheckpointedSegment], saved: &mut [FewTensors]) {
        let context = self.context;
        let Some(number) = context.segment_of(id) else { return };
        let checkpointed = &mut segments[number];
        if checkpointed.ran_again || !context.is_kept(id.index()) {
            return;
        }
        checkpointed.ran_again = true;
        let segment = &context.segments[number];
        let nodes = || context.network.iter().take(segment.nodes.end).skip(segment.nodes.start);
        let last = nodes().rev().find(|(id, _)| context.is_kept(id.index()));
        let mut left = context.read_counts();
        let mut results: Vec<Option<TensorId>> = vec![None; context.network.nodes().len()];
        for (input, tensor) in segment.reads.iter().zip(&checkpointed.read) {
            results[input.index()] = Some(self.recorder.retain(*tensor));
        }
        for (id, node) in nodes().take_while(|(id, _)| last.is_some_and(|(last, _)| *id < last)) {
            self.recorder.begin(StepPhase::Forward, id);
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
        // It stops as soon as the last tensor is saved.
        if let Some((id, node)) = last {
            saved[id.index()] = self.run_until_saved(id, &inputs(node, &results));
        }
        self.end_autocast();
        self.recorder.release_all(results.into_iter().flatten());
    }

    /// After a node's backward: the last that needed a tensor of its segment releases the segment's inputs.
    pub fn end_backward_of_segment(&mut self, id: NodeId, segments: &mut [CheckpointedSegment]) {
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

#[cfg(test)]
mod tests {
    use crate::Simulation;
    use perf4sight_network::{Activation, Linear, NetworkBuilder, Op, Shape};
    use perf4sight_platform::Platform;
    use perf4sight_step::workload::{Checkpoint, Optimizer, Stage, Step, ZeroGrad};

    const SAMPLES: u64 = 1024;

    /// The peak with a segment of a layer of so many features and a rectifier in place.
    fn peak(width: usize, platform: &Platform) -> u64 {
        let linear = |out_features| Op::Linear(Linear { out_features, bias: false });
        let mut builder = NetworkBuilder::new("segment", Shape::new([16]));
        let wide = builder.add("wide", linear(width), &[builder.input()]).unwrap();
        let bent = builder.add("bent", Op::Activation(Activation::Relu6), &[wide]).unwrap();
        let last = builder.add("last", linear(8), &[bent]).unwrap();
        let (optimizer, zero_grad) = (Optimizer::SgdWithoutMomentum, ZeroGrad::Free);
        let checkpoint = Checkpoint::Segments(2);
        let step = Step { optimizer, zero_grad, checkpoint, ..Step::published(Stage::Training) };
        Simulation::new(&builder.finish(last), step, platform).peak(SAMPLES).allocated.0
    }

    /// `hardtanh_` saves a copy of its input, as it saved its result in older versions (crates/platform/src/data/tx2.json). In its backward there are that, the gradient that comes in and the
    /// one that it makes; also 16 + 8 numbers of weights for each feature, and 8 of the last layer's gradient.
    #[test]
    fn what_the_last_operation_of_a_segment_saves_is_there_again() {
        for name in ["cpu", "tx2"] {
            let platform = Platform::for_name(name).unwrap();
            let more = peak(2048, &platform) - peak(1024, &platform);
            assert_eq!(more, 4 * 1024 * (3 * SAMPLES + 16 + 8 + 8), "{name}");
        }
    }
}
