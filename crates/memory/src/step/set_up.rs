//! The allocations that stay: weights, running statistics, data, and workspaces of products, as if all of them were there before the first
//! pass.

use super::context::StepContext;
use super::recorder::Recorder;
use super::segment::CachedSegment;
use crate::amount::{Amount, INDEX};
use crate::tensor::{Role, TensorId};
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
        let mut recorder = Recorder::behind(0, tensors.sum::<usize>() + 5);
        let mut resident = vec![None; rules.len()];
        for ((id, node), rule) in network.iter().zip(rules) {
            for &amount in rule.weights.iter().chain(&rule.buffers) {
                let tensor = recorder.allocate(amount, Role::Weights, id);
                if let Op::Parameter(_) = node.op {
                    resident[id.index()] = Some(tensor);
                }
            }
        }
        if let Some((first, _, _)) = network.inputs().next().filter(|_| network.unread() > 0) {
            let unread = Amount::once(context.step.weight().saturating_mul(network.unread()));
            recorder.allocate(unread, Role::Weights, first);
        }
        for (id, _) in network.iter().filter(|(_, node)| matches!(node.op, Op::Input(_))) {
            resident[id.index()] = Some(recorder.allocate(context.result(id), Role::Activations, id));
        }
        if context.step.trains() {
            for output in network.compared() {
                recorder.allocate(targets(context, output), Role::Activations, output);
            }
        }
        if let Some(kept) = context.platform.framework.products {
            for product in product_threads(context) {
                recorder.allocate(Amount::once(kept.workspace), Role::Workspace, product);
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
fn targets(context: &StepContext, output: NodeId) -> Amount {
    match context.step.loss {
        Loss::CrossEntropy => Amount::per_sample(context.network.labels(output).1.elements()).times(INDEX),
        Loss::MeanSquaredError => context.scores(output),
    }
}
