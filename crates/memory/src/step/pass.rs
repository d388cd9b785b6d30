//! One pass of the samples, as PyTorch runs it: forward, loss, backward.

use super::backward::{BackwardRecorder, TensorsForBackward};
use super::context::StepContext;
use super::forward::ForwardRecorder;
use super::segment::CachedSegment;
use super::set_up::SetUp;
use crate::tensor::{FewTensors, ScheduleEvent, StepPhase, TensorId};
use perf4sight_network::NodeId;
use std::sync::Arc;

/// A pass, recorded once. The tensors before it are those of the setup, and perhaps gradients.
#[derive(Debug)]
pub(crate) struct RecordedPass {
    pub segment: Arc<CachedSegment>,
    /// Tensors freed when the program drops the references it keeps between passes.
    pub left: Vec<TensorId>,
    /// Gradients of weights, which stay where there were none before.
    pub gradients: Vec<TensorId>,
}

impl RecordedPass {
    pub fn record(context: &StepContext, set_up: &SetUp) -> Self {
        let mut forward = ForwardRecorder::new(context, set_up);
        let (tape, mut results) = run_forward(&mut forward);
        if !context.step.trains() {
            forward.end_autocast();
            forward.recorder.release_all(results.into_iter().map(|(_, result)| result));
            return RecordedPass {
                segment: Arc::new(forward.recorder.take()),
                left: Vec::new(),
                gradients: Vec::new(),
            };
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
        let [left, gradients] = [held, gradients].map(|held| free_tensors(&mut forward, held));
        RecordedPass { segment, left, gradients }
    }
}

/// The whole network, and its results by node.
fn run_forward(forward: &mut ForwardRecorder) -> (TensorsForBackward, Vec<(NodeId, TensorId)>) {
    let network = forward.context.network;
    let mut left = forward.context.read_counts();
    network.iter().flat_map(|(id, _)| forward.context.let_go(id)).for_each(|held| left[held.index()] += 1);
    let mut results: Vec<TensorId> = Vec::with_capacity(left.len());
    let mut saved = Vec::with_capacity(left.len());
    let mut segments = Vec::new();
    for (id, node) in network.iter() {
        forward.enter_segment(id, &results, &mut segments);
        forward.recorder.begin(StepPhase::Forward, id);
        let inputs: FewTensors = node.inputs.iter().map(|input| results[input.index()]).collect();
        let (result, mut kept) = forward.run(id, &inputs);
        if forward.context.segment_of(id).is_some() {
            forward.recorder.release_all(kept.drain(..));
        }
        results.push(result);
        saved.push(kept);
        for forgotten in forward.context.forgotten_nodes(id) {
            forward.recorder.release_all(saved[forgotten.index()].drain(..));
        }
        for input in node.inputs.iter().chain(forward.context.let_go(id)) {
            left[input.index()] -= 1;
            if left[input.index()] == 0 {
                forward.recorder.release(results[input.index()]);
            }
        }
        forward.leave_segment(id, &mut segments);
    }
    let results = network.outputs().iter().map(|output| (*output, results[output.index()])).collect();
    (TensorsForBackward { saved, segments }, results)
}

/// Those of some tensors that are freed with their last holder.
fn free_tensors(forward: &mut ForwardRecorder, held: Vec<TensorId>) -> Vec<TensorId> {
    forward.recorder.release_all(held);
    let events = forward.recorder.take().events.into_iter();
    events.filter_map(|event| if let ScheduleEvent::Free(tensor) = event { Some(tensor) } else { None }).collect()
}

#[cfg(test)]
mod tests {
    use crate::Simulation;
    use perf4sight_base::error::Result;
    use perf4sight_network::{Activation, ArgMax, ElementKind, Embedding, Linear, NetworkBuilder, Op, Shape};
    use perf4sight_platform::Platform;
    use perf4sight_step::workload::{Optimizer, Stage, Step, ZeroGrad};

    /// `o(e(a(x).argmax(-1)))` with three layers of 512, 512 and 50 and `tanh` in `a`, a table of 50 x 32, 4 classes: the peak of PyTorch's allocator over three steps
    /// of AdamW with 64 samples of 64 is 1,717,256 bytes (PyTorch 2.15). What `tanh` and the layers keep is there until `argmax`, whose result has no
    /// gradient.
    #[test]
    fn what_leads_to_no_loss_is_kept_until_its_end() -> Result<()> {
        let mut builder = NetworkBuilder::new("lookup", Shape::new([64]));
        let linear = |out_features| Op::Linear(Linear { out_features, bias: true });
        let first = builder.add("first", linear(512), &[builder.input()])?;
        let bent = builder.add("bent", Op::Activation(Activation::Tanh), &[first])?;
        let second = builder.add("second", linear(512), &[bent])?;
        let again = builder.add("again", Op::Activation(Activation::Tanh), &[second])?;
        let scores = builder.add("scores", linear(50), &[again])?;
        let largest = builder.add("argmax", Op::ArgMax(ArgMax { axis: 0, keep: true, largest: true }), &[scores])?;
        let place = builder.add("place", Op::Cast(ElementKind::Integer), &[largest])?;
        let word = builder.add("word", Op::Embedding(Embedding { rows: 50, width: 32, fixed: None }), &[place])?;
        let flat = builder.add("flat", Op::Flatten, &[word])?;
        let last = builder.add("o", linear(4), &[flat])?;
        let step = Step { optimizer: Optimizer::AdamW, zero_grad: ZeroGrad::Free, ..Step::published(Stage::Training) };
        let (network, cpu) = (builder.finish(last), Platform::for_name("cpu")?);
        let peak = Simulation::new(&network, step, &cpu).peak(64).allocated.0 as f64;
        assert!((peak / 1_717_256.0 - 1.0).abs() < 0.001, "{peak}");
        Ok(())
    }
}
