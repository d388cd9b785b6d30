//! Everything about a step that is known before it runs: the rule of every operation, who reads whom, who needs gradients.

use super::amount::Amount;
use super::layouts::layouts;
use super::operation::Operation;
use super::rule::{Move, Rule};
use super::rules::rule;
use crate::network::{Network, NodeId, Numbers, Segment};
use crate::platform::Platform;
use crate::workload::Step;

/// A network's step on a device.
pub(super) struct Plan<'a> {
    pub network: &'a Network,
    pub platform: &'a Platform,
    pub step: Step,
    /// Per node, what it computes with.
    pub numbers: Vec<Numbers>,
    /// Per node.
    pub rules: Vec<Rule>,
    /// For every weight of a node, how many nodes give it a gradient: those it is shared with too.
    pub users: Vec<Vec<usize>>,
    /// Whether the gradient of a node's result is asked for.
    pub tracked: Vec<bool>,
    /// Per node, whether training changes its weight and its bias.
    learned: Vec<[bool; 2]>,
    /// How many times a node's result is read in forward, the network's results once more.
    pub reads: Vec<usize>,
    /// What runs again in backward, in the order it runs.
    pub segments: Vec<Segment>,
    /// Of each segment, the first node that backward needs something of.
    pub first_kept: Vec<Option<usize>>,
}

impl<'a> Plan<'a> {
    /// The step for as many samples as `batch`, or for any larger number of them where there is more than one.
    /// `cuts` are the nodes behind which it is cut.
    pub fn new(network: &'a Network, step: Step, platform: &'a Platform, batch: u64, cuts: &[NodeId]) -> Self {
        let tracked = network.gradients();
        let in_place = network.in_place();
        let layouts = layouts(network, step, &tracked, batch);
        let numbers = network.numbers(step.precision, platform.lists());
        let operations = network.iter().zip(in_place).map(|((id, node), in_place)| Operation {
            network,
            id,
            node,
            platform,
            step,
            in_place,
            tracked: &tracked,
            layouts: &layouts,
            numbers: &numbers,
        });
        let rules: Vec<Rule> = operations.map(rule).collect();
        let users = users(network, &rules);
        let reads = network.uses();
        let segments = network.segments(cuts);
        let learned = network.nodes().iter().map(|node| network.learned(node)).collect();
        let kept = |index: &usize| network.is_kept(&network.nodes()[*index], tracked[*index]);
        let first_kept = segments.iter().map(|segment| segment.nodes.clone().find(kept)).collect();
        Plan { network, platform, step, numbers, rules, users, tracked, learned, reads, segments, first_kept }
    }

    /// Whether training changes one of the tensors of a node's weights: 0 is the weight, 1 the bias.
    pub fn learns(&self, id: NodeId, tensor: usize) -> bool {
        self.learned[id.index()][tensor]
    }

    /// The segment that a node lies in, where it is one that runs again.
    pub fn segment_of(&self, id: NodeId) -> Option<usize> {
        self.segments.iter().position(|segment| segment.nodes.contains(&id.index()))
    }

    /// Bytes of the gradient of what an operation gives.
    pub fn gradient(&self, id: NodeId) -> Amount {
        Amount::tensor(&self.network.node(id).shape, self.numbers[id.index()].result.bytes())
    }

    /// Bytes of what an operation gives.
    pub fn result(&self, id: NodeId) -> Amount {
        Amount::result(self.network.node(id), self.numbers[id.index()].result.bytes())
    }

    /// Bytes of one of the network's results, or of its gradient, as the loss reads it: autocast casts it back (`cross_entropy_loss`;
    /// `log_softmax` and `nll_loss` on CUDA).
    pub fn scores(&self, output: NodeId) -> Amount {
        Amount::tensor(&self.network.node(output).shape, self.step.precision.held().bytes())
    }

    /// Whether the loss reads a cast of it.
    pub fn casts_result(&self, output: NodeId) -> bool {
        self.numbers[output.index()].result != self.step.precision.held()
    }

    /// Bytes of the loss.
    pub fn number(&self) -> Amount {
        Amount::once(self.step.precision.held().bytes())
    }
}

fn users(network: &Network, rules: &[Rule]) -> Vec<Vec<usize>> {
    let mut users: Vec<Vec<usize>> = rules.iter().map(|rule| vec![0; rule.weights.len()]).collect();
    for ((id, node), rule) in network.iter().zip(rules) {
        let weights = &mut users[node.shares.unwrap_or(id).index()];
        for step in &rule.backward {
            if let Move::WeightGradient(index) = step
                && let Some(count) = weights.get_mut(*index)
            {
                *count += 1;
            }
        }
    }
    users
}
