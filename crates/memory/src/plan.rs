//! Everything about a step that is known before it runs: what it has in common with others, and what of it runs again.

use super::amount::Amount;
use super::ground::Ground;
use super::rule::Rule;
use perf4sight_network::{Network, NodeId, Numbers, Segment};
use perf4sight_platform::Platform;
use perf4sight_step::workload::Step;

/// A network's step on a device.
pub(super) struct Plan<'a> {
    pub network: &'a Network,
    pub platform: &'a Platform,
    pub step: Step,
    /// Per node, what it computes with.
    numbers: &'a [Numbers],
    /// Per node.
    pub rules: &'a [Rule],
    /// For every weight of a node, how many nodes give it a gradient: those it is shared with too.
    pub users: &'a [Vec<usize>],
    /// Whether the gradient of a node's result is asked for.
    pub tracked: &'a [bool],
    /// Per node, whether training changes its weight and its bias.
    learned: &'a [[bool; 2]],
    /// How many times a node's result is read in forward, the network's results once more.
    pub reads: &'a [usize],
    /// Per node, whether backward needs something of its forward.
    pub kept: &'a [bool],
    /// What runs again in backward, in the order it runs.
    pub segments: Vec<Segment>,
    /// Of each segment, the first node that backward needs something of.
    pub first_kept: Vec<Option<usize>>,
    /// Per node, the segment that it lies in.
    segment_of: Vec<Option<usize>>,
}

impl<'a> Plan<'a> {
    /// A step on what it has in common with others; `cuts` are the nodes behind which it is cut.
    pub fn new(ground: &'a Ground<'a>, step: Step, platform: &'a Platform, cuts: &[NodeId]) -> Self {
        let Ground { trained, numbers, rules, users, learned, reads, kept } = ground;
        let (network, tracked): (&Network, _) = (&trained.network, &trained.gradients);
        let segments = network.segments(cuts);
        let first_kept = segments.iter().map(|segment| segment.nodes.clone().find(|node| kept[*node])).collect();
        let mut segment_of = vec![None; kept.len()];
        for (number, segment) in segments.iter().enumerate() {
            segment_of[segment.nodes.clone()].fill(Some(number));
        }
        Plan {
            network,
            platform,
            step,
            numbers,
            rules,
            users,
            tracked,
            learned,
            reads,
            kept,
            segments,
            first_kept,
            segment_of,
        }
    }

    /// Whether training changes one of the tensors of a node's weights: 0 is the weight, 1 the bias.
    pub fn learns(&self, id: NodeId, tensor: usize) -> bool {
        self.learned[id.index()][tensor]
    }

    /// The segment that a node lies in, where it is one that runs again.
    pub fn segment_of(&self, id: NodeId) -> Option<usize> {
        self.segment_of[id.index()]
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
