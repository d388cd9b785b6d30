//! A network as a vector of nodes in the order they run, each naming its inputs by typed id.

use super::op::Op;
use super::shape::{self, Shape};
use crate::error::{Error, Result};

/// Names one node of one [`Network`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(usize);

impl NodeId {
    /// Position of the node in [`Network::nodes`].
    pub fn index(self) -> usize {
        self.0
    }
}

/// One operation, where its inputs come from and what shape it gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Unique within the network; the stem of its weights' names in the file (`layer1.0.conv1`).
    pub name: String,
    /// What it does.
    pub op: Op,
    /// The nodes it reads, in order.
    pub inputs: Vec<NodeId>,
    /// Its output for one sample.
    pub shape: Shape,
}

/// The layer graph of a network: one image in, one tensor out, weights as shapes only.
///
/// Nodes stand in the order they run, inputs before their readers, the input first.
///
/// ```
/// use perf4sight::network::{Conv, NetworkBuilder, Op, Shape, Window};
/// let mut builder = NetworkBuilder::new("tiny", Shape::new([3, 8, 8]));
/// let conv = Conv { out_channels: 4, window: Window::square(3, 1, 1), groups: 1, bias: true };
/// let features = builder.add("conv", Op::Conv(conv), &[builder.input()])?;
/// let network = builder.finish(features);
/// assert_eq!(network.output_shape().dims(), [4, 8, 8]);
/// assert_eq!(network.parameters(), 3 * 4 * 9 + 4);
/// # Ok::<(), perf4sight::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    name: String,
    nodes: Vec<Node>,
    output: NodeId,
}

impl Network {
    /// The network's name, without a level.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same network under another name.
    #[must_use]
    pub fn renamed(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// All nodes in the order they run.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All nodes with their ids, in the order they run.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (NodeId, &Node)> + ExactSizeIterator {
        self.nodes.iter().enumerate().map(|(i, node)| (NodeId(i), node))
    }

    /// One node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// The node that gives the result.
    pub fn output(&self) -> NodeId {
        self.output
    }

    /// One sample of the input.
    pub fn input_shape(&self) -> &Shape {
        &self.nodes[0].shape
    }

    /// One sample of the result.
    pub fn output_shape(&self) -> &Shape {
        &self.node(self.output).shape
    }

    /// Classes told apart: length of the result's last axis.
    pub fn classes(&self) -> usize {
        self.output_shape().dims().last().copied().unwrap_or(1)
    }

    /// Shape of one sample of the `index`-th input of a node.
    pub fn input_of(&self, node: &Node, index: usize) -> &Shape {
        &self.node(node.inputs[index]).shape
    }

    /// For every node, the nodes that read it, in the order they run.
    pub fn readers(&self) -> Vec<Vec<NodeId>> {
        let mut readers = vec![Vec::new(); self.nodes.len()];
        for (id, node) in self.iter() {
            for input in &node.inputs {
                readers[input.0].push(id);
            }
        }
        readers
    }
}

/// Builds a [`Network`] node by node, inferring shapes on the way.
#[derive(Debug, Clone)]
pub struct NetworkBuilder {
    name: String,
    nodes: Vec<Node>,
}

impl NetworkBuilder {
    /// An empty network that reads samples of `input`.
    pub fn new(name: impl Into<String>, input: Shape) -> Self {
        let node = Node { name: "input".into(), op: Op::Input(input.clone()), inputs: Vec::new(), shape: input };
        NetworkBuilder { name: name.into(), nodes: vec![node] }
    }

    /// The network's input.
    pub fn input(&self) -> NodeId {
        NodeId(0)
    }

    /// Shape of one sample of a node added before.
    pub fn shape(&self, id: NodeId) -> &Shape {
        &self.nodes[id.0].shape
    }

    /// Adds a node behind the ones it reads.
    ///
    /// # Errors
    /// When the operation cannot take inputs of these shapes; the message names node, shapes and misfit.
    pub fn add(&mut self, name: impl Into<String>, op: Op, inputs: &[NodeId]) -> Result<NodeId> {
        let name = name.into();
        let shapes: Vec<&Shape> = inputs.iter().map(|id| self.shape(*id)).collect();
        let shape = shape::infer(&op, &shapes)
            .map_err(|why| Error::input(format!("network {}: {} \"{name}\" {why}", self.name, op.kind())))?;
        self.nodes.push(Node { name, op, inputs: inputs.to_vec(), shape });
        Ok(NodeId(self.nodes.len() - 1))
    }

    /// The finished network, whose result is `output`.
    pub fn finish(self, output: NodeId) -> Network {
        Network { name: self.name, nodes: self.nodes, output }
    }
}
