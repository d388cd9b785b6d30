//! The allocations that stay: weights, running statistics, data, and workspaces of products, as if all of them were there before the first
//! pass.

use super::context::StepContext;
use super::recorder::EventRecorder;
use super::segment::CachedSegment;
use crate::amount::{BatchBytes, INDEX};
use crate::tensor::{TensorId, TensorRole};
use perf4sight_network::{NodeId, Op};
use perf4sight_step::workload::Loss;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct SetUp {
    pub segment: Arc<CachedSegment>,
    /// Tensors that a node's result is between steps: the batch, free-standing parameters.
    pub resident: Vec<Option<TensorId>>,
}

impl SetUp {
    pub fn record(context: &StepContext) -> Self {
        let (network, rules) = (context.network, context.rules());
        let tensors = rules.iter().map(|rule| rule.weights.len() + rule.buffers.len());
        let mut recorder = EventRecorder::starting_after(0, tensors.sum::<usize>() + 5);
        let mut resident = vec![None; rules.len()];
        for ((id, node), rule) in network.iter().zip(rules) {
            for &amount in rule.weights.iter().chain(&rule.buffers) {
                let tensor = recorder.allocate(amount, TensorRole::Weights, id);
                if let Op::Parameter(_) = node.op {
                    resident[id.index()] = Some(tensor);
                }
            }
        }
        if let Some((first, _, _)) = network.inputs().next().filter(|_| network.unread() > 0) {
            let unread = BatchBytes::constant(context.step.weight().saturating_mul(network.unread()));
            recorder.allocate(unread, TensorRole::Weights, first);
        }
        for (id, _) in network.iter().filter(|(_, node)| matches!(node.op, Op::Input(_))) {
            resident[id.index()] = Some(recorder.allocate(context.result(id), TensorRole::Activations, id));
        }
        if context.step.trains() {
            for output in network.loss_results() {
                recorder.allocate(targets(context, output), TensorRole::Activations, output);
            }
        }
        if let Some(kept) = context.platform.framework.products {
            for product in product_threads(context) {
                recorder.allocate(BatchBytes::constant(kept.workspace), TensorRole::Workspace, product);
            }
        }
        SetUp { segment: Arc::new(recorder.take()), resident }
    }
}

/// One product of each thread that multiplies matrices: the program runs forward, a thread of autograd's backward.
fn product_threads(context: &StepContext) -> impl Iterator<Item = NodeId> {
    let forward = context.network.products().next();
    let backward = context.network.products().find(|&id| context.step.trains() && context.is_tracked(id));
    forward.into_iter().chain(backward)
}

/// The targets of a result.
fn targets(context: &StepContext, output: NodeId) -> BatchBytes {
    match context.step.loss {
        Loss::CrossEntropy => BatchBytes::per_sample(context.network.labels(output).1.elements()).times(INDEX),
        Loss::MeanSquaredError => context.scores(output),
    }
}
