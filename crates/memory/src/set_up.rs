//! What lies there before the first pass: weights, running statistics and data.

use super::amount::{Amount, INDEX};
use super::event::{Role, TensorId};
use super::plan::Plan;
use super::recorder::Recorder;
use super::recording::Recording;
use perf4sight_network::{NodeId, Op};
use perf4sight_step::workload::Loss;
use std::sync::Arc;

/// How it came to be; all of it stays.
#[derive(Debug)]
pub(super) struct SetUp {
    pub recording: Arc<Recording>,
    /// Tensors that a node's result is between steps: the batch, free-standing parameters.
    pub resident: Vec<Option<TensorId>>,
}

impl SetUp {
    /// For a step.
    pub fn new(plan: &Plan) -> Self {
        let network = plan.network;
        let tensors = plan.rules.iter().map(|rule| rule.weights.len() + rule.buffers.len());
        let mut recorder = Recorder::behind(0, tensors.sum::<usize>() + 3);
        let mut resident = vec![None; plan.rules.len()];
        for ((id, node), rule) in network.iter().zip(plan.rules) {
            for &amount in rule.weights.iter().chain(&rule.buffers) {
                let tensor = recorder.allocate(amount, Role::Weights, id);
                if let Op::Parameter(_) = node.op {
                    resident[id.index()] = Some(tensor);
                }
            }
        }
        if let Some((first, _, _)) = network.inputs().next().filter(|_| network.unread() > 0) {
            let unread = Amount::once(plan.step.weight().saturating_mul(network.unread()));
            recorder.allocate(unread, Role::Weights, first);
        }
        for (id, _) in network.iter().filter(|(_, node)| matches!(node.op, Op::Input(_))) {
            resident[id.index()] = Some(recorder.allocate(plan.result(id), Role::Activations, id));
        }
        if plan.step.trains() {
            for output in network.compared() {
                recorder.allocate(targets(plan, output), Role::Activations, output);
            }
        }
        SetUp { recording: Arc::new(recorder.take()), resident }
    }
}

/// What a result is compared with.
fn targets(plan: &Plan, output: NodeId) -> Amount {
    match plan.step.loss {
        Loss::CrossEntropy => Amount::per_sample(plan.network.labels(output).1.elements()).times(INDEX),
        Loss::MeanSquaredError => plan.scores(output),
    }
}
