//! Segments that keep their inputs alone and run again in backward (torch/utils/checkpoint.py, without reentrance).

use super::event::{FewTensors, Phase, TensorId};
use super::taking::Taking;
use perf4sight_network::{Node, NodeId};

/// A segment between its forward and its backward.
pub(super) struct Frame {
    /// What it reads.
    read: Vec<TensorId>,
    /// Whether it ran again.
    ran: bool,
}

impl Taking<'_> {
    /// Before a node's forward: where a segment begins, what it reads is held.
    pub fn enter(&mut self, id: NodeId, results: &[TensorId], frames: &mut Vec<Frame>) {
        let begun = self.plan.segments.get(frames.len()).filter(|segment| segment.nodes.start == id.index());
        if let Some(segment) = begun {
            let read = segment.reads.iter().map(|input| self.recorder.hold(results[input.index()])).collect();
            frames.push(Frame { read, ran: false });
        }
    }

    /// Behind a node's forward: where a segment ends of which backward needs nothing, what it reads is let go.
    pub fn leave(&mut self, id: NodeId, frames: &mut [Frame]) {
        let Some(segment) = self.plan.segment_of(id) else { return };
        let last = id.index() + 1 == self.plan.segments[segment].nodes.end;
        if last && !(self.plan.step.trains() && self.plan.first_kept[segment].is_some()) {
            frames[segment].read.drain(..).for_each(|tensor| self.recorder.release(tensor));
        }
    }

    /// Before a node's backward: the first that needs what forward has not kept has its segment run again.
    pub fn run_again(&mut self, id: NodeId, frames: &mut [Frame], saved: &mut [FewTensors]) {
        let Some(number) = self.plan.segment_of(id) else { return };
        let frame = &mut frames[number];
        if frame.ran || !self.is_kept(id.index()) {
            return;
        }
        frame.ran = true;
        let (plan, segment) = (self.plan, &self.plan.segments[number]);
        let again = plan.network.runs_again(segment, plan.tracked);
        let mut left = plan.reads.to_vec();
        let mut results: Vec<Option<TensorId>> = vec![None; plan.network.nodes().len()];
        for (input, tensor) in segment.reads.iter().zip(&frame.read) {
            results[input.index()] = Some(self.recorder.hold(*tensor));
        }
        for (id, node) in plan.network.iter().skip(again.start).take(again.len()) {
            self.recorder.begin(Phase::Forward, id);
            let (result, kept) = self.run(id, &inputs(node, &results));
            results[id.index()] = Some(result);
            saved[id.index()] = kept;
            for input in &node.inputs {
                left[input.index()] -= 1;
                if left[input.index()] == 0 {
                    results[input.index()].take().into_iter().for_each(|tensor| self.recorder.release(tensor));
                }
            }
        }
        // It stops as soon as the last node has noted what it reads.
        if segment.nodes.contains(&again.end)
            && self.is_kept(again.end)
            && let Some((id, node)) = plan.network.iter().nth(again.end)
        {
            saved[again.end] = self.note(id, &inputs(node, &results));
        }
        self.end_autocast();
        results.into_iter().flatten().for_each(|tensor| self.recorder.release(tensor));
    }

    /// Behind a node's backward: with the last that needed something of its segment goes what that reads.
    pub fn done(&mut self, id: NodeId, frames: &mut [Frame]) {
        if let Some(segment) = self.plan.segment_of(id)
            && self.plan.first_kept[segment] == Some(id.index())
        {
            frames[segment].read.drain(..).for_each(|tensor| self.recorder.release(tensor));
        }
    }

    fn is_kept(&self, node: usize) -> bool {
        self.plan.kept[node]
    }
}

fn inputs(node: &Node, results: &[Option<TensorId>]) -> FewTensors {
    let input = |input: &NodeId| results[input.index()].expect("a segment reads what it is given and what it made");
    node.inputs.iter().map(input).collect()
}
