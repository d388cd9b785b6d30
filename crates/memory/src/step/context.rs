//! The properties of a step before it runs: the memory rule of every operation, readers of results, required gradients,
//! segments that run again.

use crate::amount::BatchBytes;
use crate::layout::{gradient_layouts, layouts};
use crate::rules::{MemoryRule, RuleAction, StepOperation, rule};
use perf4sight_network::{CheckpointSegment, Network, NodeId, NumberTypes, TrainedNetwork};
use perf4sight_platform::Platform;
use perf4sight_step::workload::Step;
use std::sync::Arc;

/// A network's operations on a device: the same for all steps of equal [`rules_step`].
#[derive(Debug)]
pub(crate) struct DeviceOperations<'a> {
    trained: Arc<TrainedNetwork<'a>>,
    /// Per node, the formats of its computation.
    numbers: Vec<NumberTypes>,
    rules: Vec<MemoryRule>,
    /// For every weight of a node, how many nodes give it a gradient: those it is shared with too.
    users: Vec<Vec<usize>>,
    /// Per node, whether training changes its weight and its bias.
    learned: Vec<[bool; 2]>,
    /// How many times a node's result is read in forward, the network's results once more.
    reads: Vec<usize>,
    /// Per node, the results that the program's functions let go of after it.
    let_go: Vec<Vec<NodeId>>,
    /// Per node, whether backward needs something of its forward.
    kept: Vec<bool>,
    /// Per node, whether its gradient is one for all samples.
    summed: Vec<bool>,
    /// Per node, whether autograd records it although its gradient is not computed.
    recorded: Vec<bool>,
    /// Per node, those of them that autograd has recorded until it ran.
    forgotten: Vec<Vec<NodeId>>,
}

/// The kernels of a device, and whether the memory counts that they borrow within one operator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceKernels<'a> {
    pub platform: &'a Platform,
    pub counted: bool,
}

/// The part of a step on which rules of operations depend: all else is as published.
pub(crate) fn rules_step(Step { stage, precision, trainable, frozen_normalisation, loss, .. }: Step) -> Step {
    Step { precision, trainable, frozen_normalisation, loss, ..Step::published(stage) }
}

impl<'a> DeviceOperations<'a> {
    /// For as many samples as `batch`; on an accelerator for any number above one where it is more than one.
    pub fn new(trained: Arc<TrainedNetwork<'a>>, step: Step, kernels: DeviceKernels<'a>, batch: u64) -> Self {
        let DeviceKernels { platform, counted: within_kernels } = kernels;
        let TrainedNetwork { network, gradients: tracked, in_place, .. } = &*trained;
        let layouts = layouts(network, step, tracked, (platform.lists(), batch));
        let gradients = gradient_layouts(network, &layouts, step.loss);
        let numbers = network.numbers(step.precision, platform.lists());
        let operations = network.iter().zip(in_place).map(|((id, node), &in_place)| StepOperation {
            network,
            id,
            node,
            platform,
            within_kernels,
            samples: batch,
            step,
            in_place,
            tracked,
            layouts: &layouts,
            gradients: &gradients,
            numbers: &numbers,
        });
        let rules: Vec<MemoryRule> = operations.map(rule).collect();
        let users = users(network, &rules);
        let learned = network.nodes().iter().map(|node| network.trained_parts(node)).collect();
        let kept = network.nodes().iter().zip(tracked).map(|(node, tracked)| network.is_kept(node, *tracked)).collect();
        let (reads, let_go, summed) = (network.use_counts(), let_go(network), parameters_of_products(network));
        let until = network.recorded_until();
        let recorded = until.iter().map(Option::is_some).collect();
        let mut forgotten = vec![Vec::new(); until.len()];
        for ((id, _), until) in network.iter().zip(until) {
            until.into_iter().for_each(|until| forgotten[until].push(id));
        }
        DeviceOperations { numbers, rules, users, learned, reads, let_go, kept, summed, recorded, forgotten, trained }
    }
}

/// Which parameters products of all samples alone read.
fn parameters_of_products(network: &Network) -> Vec<bool> {
    let readers = network.readers();
    let at_once = |readers: &[NodeId]| readers.iter().all(|&reader| network.node(reader).multiplies_at_once());
    let nodes = network.nodes().iter().zip(&readers);
    nodes.map(|(node, readers)| node.is_common() && !readers.is_empty() && at_once(readers)).collect()
}

fn let_go(network: &Network) -> Vec<Vec<NodeId>> {
    let mut let_go = vec![Vec::new(); network.nodes().len()];
    for ((id, _), until) in network.iter().zip(network.held_in_variables()) {
        let_go.get_mut(until.unwrap_or(usize::MAX)).into_iter().for_each(|results: &mut Vec<NodeId>| results.push(id));
    }
    let_go
}

fn users(network: &Network, rules: &[MemoryRule]) -> Vec<Vec<usize>> {
    let mut users: Vec<Vec<usize>> = rules.iter().map(|rule| vec![0; rule.weights.len()]).collect();
    for ((id, node), rule) in network.iter().zip(rules) {
        let weights = &mut users[node.shares.unwrap_or(id).index()];
        for step in &rule.backward {
            if let RuleAction::WeightGradient(index) | RuleAction::PassWeightGradient(index) = step
                && let Some(count) = weights.get_mut(*index)
            {
                *count += 1;
            }
        }
    }
    users
}

/// A step of a network on a device.
pub(crate) struct StepContext<'a> {
    pub network: &'a Network,
    pub platform: &'a Platform,
    pub step: Step,
    operations: &'a DeviceOperations<'a>,
    /// The segments that run again in backward, in the order they run.
    pub segments: Vec<CheckpointSegment>,
    /// Of each segment, the first node that backward needs something of.
    pub first_kept: Vec<Option<usize>>,
    /// Per node, its segment.
    segment_of: Vec<Option<usize>>,
}

impl<'a> StepContext<'a> {
    /// `cuts` are the nodes after which checkpointing cuts the network.
    pub fn new(operations: &'a DeviceOperations<'a>, step: Step, platform: &'a Platform, cuts: &[NodeId]) -> Self {
        let network: &Network = &operations.trained.network;
        let segments = network.segments(cuts);
        let first_kept = |segment: &CheckpointSegment| segment.nodes.clone().find(|node| operations.kept[*node]);
        let first_kept = segments.iter().map(first_kept).collect();
        let mut segment_of = vec![None; operations.kept.len()];
        for (number, segment) in segments.iter().enumerate() {
            segment_of[segment.nodes.clone()].fill(Some(number));
        }
        StepContext { network, platform, step, operations, segments, first_kept, segment_of }
    }

    pub fn rules(&self) -> &'a [MemoryRule] {
        &self.operations.rules
    }

    pub fn rule(&self, id: NodeId) -> &'a MemoryRule {
        &self.operations.rules[id.index()]
    }

    /// The node whose weights a node uses: its own unless they are shared.
    pub fn owner(&self, id: NodeId) -> NodeId {
        self.network.node(id).shares.unwrap_or(id)
    }

    /// How many nodes contribute a gradient to one of the weights of a node.
    pub fn users(&self, (owner, tensor): (NodeId, usize)) -> usize {
        self.operations.users[owner.index()][tensor]
    }

    /// Whether autograd computes the gradient of a node's result.
    pub fn is_tracked(&self, id: NodeId) -> bool {
        self.operations.trained.gradients[id.index()]
    }

    /// Whether autograd records a node although its gradient is not computed.
    pub fn is_recorded(&self, id: NodeId) -> bool {
        self.operations.recorded[id.index()]
    }

    /// The nodes that autograd forgets after one, for what follows from them goes to no loss.
    pub fn forgotten_nodes(&self, id: NodeId) -> &[NodeId] {
        &self.operations.forgotten[id.index()]
    }

    /// How often each result is read in forward, the network's results once more.
    pub fn read_counts(&self) -> Vec<usize> {
        self.operations.reads.clone()
    }

    /// The results that functions of the program let go of after a node.
    pub fn let_go(&self, id: NodeId) -> &[NodeId] {
        &self.operations.let_go[id.index()]
    }

    /// Whether backward needs something of a node's forward.
    pub fn is_kept(&self, node: usize) -> bool {
        self.operations.kept[node]
    }

    /// Whether training changes one of the tensors of a node's weights: 0 is the weight, 1 the bias.
    pub fn trains(&self, id: NodeId, tensor: usize) -> bool {
        self.operations.learned[id.index()][tensor]
    }

    pub fn segment_of(&self, id: NodeId) -> Option<usize> {
        self.segment_of[id.index()]
    }

    /// Bytes of the gradient of a result.
    pub fn gradient(&self, id: NodeId) -> BatchBytes {
        let (shape, number) = (&self.network.node(id).shape, self.operations.numbers[id.index()].result.bytes());
        match self.operations.summed[id.index()] {
            true => BatchBytes::constant(number.saturating_mul(shape.elements())),
            false => BatchBytes::tensor(shape, number),
        }
    }

    /// Bytes of a result.
    pub fn result(&self, id: NodeId) -> BatchBytes {
        BatchBytes::result(self.network.node(id), self.operations.numbers[id.index()].result.bytes())
    }

    /// Bytes of one of the network's results, or of its gradient, as the loss reads it: autocast casts it back (`cross_entropy_loss`;
    /// `log_softmax` and `nll_loss` on CUDA).
    pub fn scores(&self, output: NodeId) -> BatchBytes {
        BatchBytes::tensor(&self.network.node(output).shape, self.step.precision.held_format().bytes())
    }

    pub fn casts_result(&self, output: NodeId) -> bool {
        self.operations.numbers[output.index()].result != self.step.precision.held_format()
    }

    /// Bytes of a scalar such as the loss.
    pub fn scalar(&self) -> BatchBytes {
        BatchBytes::constant(self.step.precision.held_format().bytes())
    }
}
