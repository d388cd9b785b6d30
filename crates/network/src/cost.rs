//! The theoretical cost of a network's operations: parameters, multiply-accumulates, bytes in and out.

use super::graph::{Network, Node};
use super::op::{Op, OperationFacts, WeightSpans};
use perf4sight_step::workload::Workload;

impl OperationFacts<'_> {
    pub(super) fn weights_read(&self) -> u64 {
        self.weights.iter().map(|weight| weight.dims.elements()).fold(0, u64::saturating_add)
    }
}

impl Network {
    /// Trainable parameters of one node, without a batch-norm's running statistics; shared weights are counted at their owner.
    pub fn parameters_of(&self, node: &Node) -> u64 {
        if node.shares.is_some() { 0 } else { node.trained.unwrap_or_else(|| self.weights_of(node)) }
    }

    /// Elements of the weights that one node reads, its own or those it shares.
    pub fn weights_of(&self, node: &Node) -> u64 {
        node.weights.iter().flatten().fold(0, |sum, elements| sum.saturating_add(*elements))
    }

    /// Trainable elements of each trained tensor of a node; shared ones are their owner's.
    pub fn tensors_of(&self, node: &Node) -> Vec<u64> {
        if node.shares.is_some() {
            return Vec::new();
        }
        let elements: Vec<u64> = node.weights.iter().copied().flatten().collect();
        let Some(trained) = node.trained else { return elements };
        match self.facts(node).weights.first().map(|weight| weight.spans) {
            None => elements,
            // Fixed filters are no parameters.
            Some(WeightSpans::Filters { .. } | WeightSpans::Transposed { .. }) => {
                let others = elements[1..].iter().sum();
                [trained.saturating_sub(others)].into_iter().chain(elements[1..].iter().copied()).collect()
            }
            Some(_) => vec![trained / elements.len() as u64; elements.len()],
        }
    }

    /// Trainable parameters of the whole network.
    pub fn parameters(&self) -> u64 {
        self.nodes().iter().map(|node| self.parameters_of(node)).sum()
    }

    /// Multiply-accumulates of one node's forward pass, per sample.
    pub fn macs_of(&self, node: &Node) -> u64 {
        self.facts(node).macs
    }

    /// The multiply-accumulates of a node for a batch as a multiple of those for one sample: every sample may be combined with
    /// all others.
    pub fn times_of(&self, node: &Node, batch: u64) -> u64 {
        if self.facts(node).across { batch.saturating_mul(batch) } else { batch }
    }

    /// Multiply-accumulates of a forward pass, per sample.
    pub fn macs(&self) -> u64 {
        self.nodes().iter().map(|node| self.macs_of(node)).sum()
    }

    /// Multiply-accumulates of each node's backward pass, per sample: as many as forward for the gradient of the weights, and as
    /// many again for each input with a gradient. Values computed from the network's input alone have none, so the first
    /// convolution costs half of a later one.
    pub fn backward_macs(&self) -> Vec<u64> {
        let gradients = self.gradients();
        let times = |node: &Node| {
            let inputs = node.inputs.iter().filter(|id| gradients[id.index()]).count() as u64;
            // Each of the two products of an attention has two factors.
            let inputs = if node.op == Op::Attention { inputs.min(2) } else { inputs };
            u64::from(self.trains(node)) + inputs
        };
        self.nodes().iter().map(|node| self.macs_of(node).saturating_mul(times(node))).collect()
    }

    /// Output elements of all convolutions, per sample: the "activations" of the pruning literature.
    pub fn activations(&self) -> u64 {
        let convs = self.nodes().iter().filter(|node| matches!(node.op, Op::Conv(_)));
        convs.map(|node| node.shape.elements()).sum()
    }

    /// Bytes a node reads in forward: its inputs and its weights.
    pub fn bytes_in(&self, node: &Node, workload: Workload) -> u64 {
        let inputs = node.inputs.iter().map(|id| self.bytes_out(self.node(*id), workload));
        // Of a table only the rows that are looked up are read.
        let weights = if matches!(node.op, Op::Embedding(_)) {
            self.bytes_out(node, workload)
        } else {
            workload.step.weight().saturating_mul(self.weights_of(node))
        };
        inputs.fold(weights, u64::saturating_add)
    }

    /// Bytes a node writes in forward; a result that depends on weights alone is the same for all samples.
    pub fn bytes_out(&self, node: &Node, workload: Workload) -> u64 {
        let samples = if node.is_common() { 1 } else { workload.batch };
        let element = node.element.bytes(workload.step.activation());
        element.saturating_mul(node.shape.elements()).saturating_mul(samples)
    }
}
