//! What a network's operations cost on paper: parameters, multiply-accumulates, bytes in and out.

use super::graph::{Network, Node};
use super::op::{Conv, Op};
use super::shape::Shape;

/// Bytes of one fp32 element.
pub const ELEMENT: u64 = 4;

impl Network {
    /// Trainable parameters of one node; a batch-norm's running statistics are none, shared weights count at their owner.
    pub fn parameters_of(&self, node: &Node) -> u64 {
        if node.shares.is_some() { 0 } else { node.trained.unwrap_or_else(|| self.weights_of(node)) }
    }

    /// Elements of the weights that one node reads, its own or those it shares.
    pub(crate) fn weights_of(&self, node: &Node) -> u64 {
        weights_read(node, node.inputs.first().map(|id| &self.node(*id).shape))
    }

    /// Trainable parameters of the whole network.
    pub fn parameters(&self) -> u64 {
        self.nodes().iter().map(|node| self.parameters_of(node)).sum()
    }

    /// Multiply-accumulates of one node's forward pass, per sample.
    pub fn macs_of(&self, node: &Node) -> u64 {
        match &node.op {
            Op::Conv(conv) => filter_elements(conv, self.input_of(node, 0)).saturating_mul(node.shape.elements()),
            Op::Linear(_) | Op::MatMul => {
                let inner = self.input_of(node, 0).dims().last().copied().unwrap_or(1) as u64;
                node.shape.elements().saturating_mul(inner)
            }
            Op::Unknown(unknown) => unknown.macs,
            _ => 0,
        }
    }

    /// Multiply-accumulates of a forward pass, per sample.
    pub fn macs(&self) -> u64 {
        self.nodes().iter().map(|node| self.macs_of(node)).sum()
    }

    /// Multiply-accumulates of each node's backward pass, per sample: as many as forward for the gradient of the weights, as
    /// many again for the gradient of each input that has one. What is computed from the network's input alone has none, so
    /// the first convolution costs half of a later one.
    pub fn backward_macs(&self) -> Vec<u64> {
        let gradients = self.gradients();
        let times = |node: &Node| {
            let inputs = node.inputs.iter().filter(|id| gradients[id.index()]).count() as u64;
            u64::from(self.trains(node)) + inputs
        };
        self.nodes().iter().map(|node| self.macs_of(node).saturating_mul(times(node))).collect()
    }

    /// Output elements of all convolutions, per sample: the "activations" of the pruning literature.
    pub fn activations(&self) -> u64 {
        let convs = self.nodes().iter().filter(|node| matches!(node.op, Op::Conv(_)));
        convs.map(|node| node.shape.elements()).sum()
    }

    /// fp32 bytes a node reads for `batch` samples: its inputs and its weights.
    pub fn bytes_in(&self, node: &Node, batch: u64) -> u64 {
        let inputs = node.inputs.iter().map(|id| self.bytes_out(self.node(*id), batch));
        inputs.fold(ELEMENT.saturating_mul(self.weights_of(node)), u64::saturating_add)
    }

    /// fp32 bytes a node writes for `batch` samples; a [`Op::Parameter`] is the same for all of them.
    pub fn bytes_out(&self, node: &Node, batch: u64) -> u64 {
        let samples = if matches!(node.op, Op::Parameter(_)) { 1 } else { batch };
        ELEMENT.saturating_mul(node.shape.elements()).saturating_mul(samples)
    }
}

/// Elements of the weights of a node whose first input has a shape of `input`.
pub(super) fn weights_read(node: &Node, input: Option<&Shape>) -> u64 {
    let features = || input.and_then(|shape| shape.dims().last().copied()).unwrap_or(1) as u64;
    match &node.op {
        Op::Parameter(shape) => shape.elements(),
        Op::Conv(conv) => {
            let filters = conv.out_channels as u64;
            let elements = input.map_or(0, |shape| filter_elements(conv, shape));
            elements * filters + if conv.bias { filters } else { 0 }
        }
        Op::Linear(linear) => {
            let outputs = linear.out_features as u64;
            features() * outputs + if linear.bias { outputs } else { 0 }
        }
        Op::BatchNorm => 2 * node.shape.channels() as u64,
        Op::LayerNorm { axis } => 2 * node.shape.dims()[*axis..].iter().map(|&dim| dim as u64).product::<u64>(),
        Op::Unknown(unknown) => unknown.parameters,
        _ => 0,
    }
}

/// Elements of one filter of a convolution: kernel area x channels it sees.
fn filter_elements(conv: &Conv, input: &Shape) -> u64 {
    let [height, width] = conv.window.kernel;
    height as u64 * width as u64 * (input.channels() / conv.groups) as u64
}
