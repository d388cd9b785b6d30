//! One pass of the samples, as PyTorch runs it: forward, loss, backward.

use super::backward::{BackwardRecorder, Tape};
use super::context::StepContext;
use super::forward::ForwardRecorder;
use super::segment::CachedSegment;
use super::set_up::SetUp;
use crate::tensor::{Event, FewTensors, Phase, TensorId};
use perf4sight_network::NodeId;
use std::sync::Arc;

/// A pass, recorded once. The tensors before it are those of the setup, and perhaps gradients.
#[derive(Debug)]
pub(crate) struct Pass {
    pub segment: Arc<CachedSegment>,
    /// Tensors freed when the program drops the references it keeps between passes.
    pub left: Vec<TensorId>,
    /// Gradients of weights, which stay where there were none before.
    pub gradients: Vec<TensorId>,
}

impl Pass {
    pub fn record(context: &StepContext, set_up: &SetUp) -> Self {
        let mut forward = ForwardRecorder::new(context, set_up);
        let (tape, mut results) = run_forward(&mut forward);
        if !context.step.trains() {
            forward.end_autocast();
            forward.recorder.release_all(results.into_iter().map(|(_, result)| result));
            return Pass { segment: Arc::new(forward.recorder.take()), left: Vec::new(), gradients: Vec::new() };
        }
        let loss = forward.loss(&results);
        forward.end_autocast();
        let mut held = vec![loss.value];
        for (_, result) in results.drain(..) {
            match context.platform.framework.holds_result {
                true => held.push(result),
                false => forward.recorder.release(result),
            }
        }
        // Kept gradients are filled with zeros here, in place.
        let mut backward = BackwardRecorder::new(forward);
        backward.run(tape, loss.kept);
        let BackwardRecorder { mut forward, gradients, .. } = backward;
        let segment = Arc::new(forward.recorder.take());
        let [left, gradients] = [held, gradients].map(|held| freed(&mut forward, held));
        Pass { segment, left, gradients }
    }
}

/// The whole network, and its results by node.
fn run_forward(forward: &mut ForwardRecorder) -> (Tape, Vec<(NodeId, TensorId)>) {
    let network = forward.context.network;
    let mut left = forward.context.reads();
    network.iter().flat_map(|(id, _)| forward.context.let_go(id)).for_each(|held| left[held.index()] += 1);
    let mut results: Vec<TensorId> = Vec::with_capacity(left.len());
    let mut saved = Vec::with_capacity(left.len());
    let mut segments = Vec::new();
    for (id, node) in network.iter() {
        forward.enter_segment(id, &results, &mut segments);
        forward.recorder.begin(Phase::Forward, id);
        let inputs: FewTensors = node.inputs.iter().map(|input| results[input.index()]).collect();
        let (result, mut kept) = forward.run(id, &inputs);
        if forward.context.segment_of(id).is_some() {
            forward.recorder.release_all(kept.drain(..));
        }
        results.push(result);
        saved.push(kept);
        for input in node.inputs.iter().chain(forward.context.let_go(id)) {
            left[input.index()] -= 1;
            if left[input.index()] == 0 {
                forward.recorder.release(results[input.index()]);
            }
        }
        forward.leave_segment(id, &mut segments);
    }
    let results = network.outputs().iter().map(|output| (*output, results[output.index()])).collect();
    (Tape { saved, segments }, results)
}

/// Those of some tensors that are freed with their last holder.
fn freed(forward: &mut ForwardRecorder, held: Vec<TensorId>) -> Vec<TensorId> {
    forward.recorder.release_all(held);
    let events = forward.recorder.take().events.into_iter();
    events.filter_map(|event| if let Event::Free(tensor) = event { Some(tensor) } else { None }).collect()
}
