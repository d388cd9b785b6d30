//! A network as a vector of nodes in the order they run, each naming its inputs by typed id.

use super::canonical::canonical;
use super::op::{At, ConvTranspose, Facts, Op};
use super::shape::Shape;
use perf4sight_conventions::error::{Error, Result};
use std::collections::HashSet;

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
    /// The earlier node whose weights this one uses too, where weights are tied; they count there.
    pub shares: Option<NodeId>,
    /// Trained elements, where they are not those the operation reads: filters computed from weights and gains (weight
    /// standardisation), tables that are looked up or computed, filters that nobody trains (blur-pooling).
    pub trained: Option<u64>,
}

impl Node {
    /// Whether pruning draws for its filters: a convolution, and a fully connected layer that works on tokens; the classifiers of CNNs are
    /// left alone, as published.
    pub fn is_ranked(&self) -> bool {
        matches!(self.op, Op::Conv(_)) || (matches!(self.op, Op::Linear(_)) && self.shape.rank() > 1)
    }

    /// All that is true of its operation where it stands among `nodes`.
    fn facts<'a>(&'a self, nodes: &[Node]) -> Facts<'a> {
        self.op.facts(At { nodes, node: self })
    }
}

/// The layer graph of a network: one tensor in, an image in most, one tensor out, weights as shapes only.
///
/// Nodes stand in the order they run, inputs before their readers, the input first; the result depends on every one of them.
///
/// ```
/// use perf4sight_step::network::{Conv, NetworkBuilder, Op, Shape, Window};
/// let mut builder = NetworkBuilder::new("tiny", Shape::new([3, 8, 8]));
/// let conv = Conv { out_channels: 4, window: Window::square(3, 1, 1), groups: 1, bias: true };
/// let features = builder.add("conv", Op::Conv(conv), &[builder.input()])?;
/// let network = builder.finish(features);
/// assert_eq!(network.output_shape().dims(), [4, 8, 8]);
/// assert_eq!(network.parameters(), 3 * 4 * 9 + 4);
/// # Ok::<(), perf4sight_conventions::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    name: String,
    nodes: Vec<Node>,
    output: NodeId,
    folded: bool,
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

    /// Whether batch normalisation was folded into the convolutions before the network was read: what it costs to train, and how
    /// many parameters it has, is then not what the network it came from has.
    pub fn is_folded(&self) -> bool {
        self.folded
    }

    /// The same network, known to have had batch normalisation that was folded, or not.
    #[must_use]
    pub fn folded(mut self, folded: bool) -> Self {
        self.folded = folded;
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

    /// All that is true of a node's operation where it stands.
    pub fn facts<'a>(&self, node: &'a Node) -> Facts<'a> {
        node.facts(&self.nodes)
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
    names: HashSet<String>,
}

impl NetworkBuilder {
    /// An empty network that reads samples of `input`.
    pub fn new(network: impl Into<String>, input: Shape) -> Self {
        let name = "input".to_string();
        let names = HashSet::from([name.clone()]);
        let op = Op::Input(input.clone());
        let node = Node { name, op, inputs: Vec::new(), shape: input, shares: None, trained: None };
        NetworkBuilder { name: network.into(), nodes: vec![node], names }
    }

    /// The network's input.
    pub fn input(&self) -> NodeId {
        NodeId(0)
    }

    /// Shape of one sample of a node added before.
    pub fn shape(&self, id: NodeId) -> &Shape {
        &self.nodes[id.0].shape
    }

    /// A node added before.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// Whether a node of that name was added before.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Adds a node behind the ones it reads. Where an operation can be said more plainly, it is: adaptive pooling whose cells
    /// tile the image becomes plain pooling, a reshape into one axis a flatten.
    ///
    /// # Errors
    /// When the name is taken or the operation cannot take inputs of these shapes; the message names node, shapes and misfit.
    pub fn add(&mut self, name: impl Into<String>, op: Op, inputs: &[NodeId]) -> Result<NodeId> {
        let (name, kind) = (name.into(), op.kind().to_string());
        self.insert(&name, op, inputs)
            .map_err(|why| Error::input(format!("network {}: {kind} \"{name}\" {why}", self.name)))
    }

    /// As [`add`](Self::add); the error is one clause that says what does not fit.
    pub(super) fn insert(&mut self, name: &str, op: Op, inputs: &[NodeId]) -> std::result::Result<NodeId, String> {
        let shapes: Vec<&Shape> = inputs.iter().map(|id| self.shape(*id)).collect();
        let op = canonical(op, &shapes);
        let shape = op.shape(&shapes)?;
        if !self.names.insert(name.to_string()) {
            return Err("is the second node of that name".into());
        }
        self.nodes.push(Node { name: name.into(), op, inputs: inputs.to_vec(), shape, shares: None, trained: None });
        Ok(NodeId(self.nodes.len() - 1))
    }

    /// Gives a fully connected layer a bias, of which so many elements are trained.
    pub(super) fn set_bias(&mut self, node: NodeId, elements: u64) {
        let node = &mut self.nodes[node.0];
        if let Op::Linear(linear) = &mut node.op {
            linear.bias = true;
            node.trained = node.trained.map(|trained| trained + elements);
        }
    }

    /// Takes the bias from a layer.
    pub(super) fn clear_bias(&mut self, node: NodeId) {
        let op = &mut self.nodes[node.0].op;
        if let Op::Conv(conv) | Op::ConvTranspose(ConvTranspose { conv, .. }) = op {
            conv.bias = false;
        } else if let Op::Linear(linear) = op {
            linear.bias = false;
        }
    }

    /// Makes an operation that keeps its input's shape another one that does, under another name where that is free.
    pub(super) fn replace(&mut self, node: NodeId, op: Op, name: &str) {
        let node = &mut self.nodes[node.0];
        node.op = op;
        if self.names.insert(name.to_string()) {
            self.names.remove(&node.name);
            node.name = name.to_string();
        }
    }

    /// Says how many trained elements a node has, where they are not those its operation reads.
    pub fn set_trained(&mut self, node: NodeId, elements: u64) {
        self.nodes[node.0].trained = Some(elements);
    }

    /// Elements of the weights that a node added before reads, its own or those it shares.
    pub fn weights_of(&self, node: NodeId) -> u64 {
        self.nodes[node.0].facts(&self.nodes).weights_read()
    }

    /// Ties the weights of `node` to those of `owner`, an earlier node with the same weights; `node` may do without its bias.
    ///
    /// # Errors
    /// When the two do not have the same weights.
    pub fn share(&mut self, node: NodeId, owner: NodeId) -> Result<()> {
        let [a, b] = [node, owner].map(|id| &self.nodes[id.0]);
        let weights = |node: &Node| node.facts(&self.nodes).weights;
        let alike = a.op.kind() == b.op.kind() && !weights(a).is_empty() && weights(b).starts_with(&weights(a));
        if owner >= node || !alike {
            let problem = format!("network {}: \"{}\" cannot share the weights of \"{}\"", self.name, a.name, b.name);
            return Err(Error::input(problem));
        }
        self.nodes[node.0].shares = Some(self.nodes[owner.0].shares.unwrap_or(owner));
        Ok(())
    }

    /// The finished network, whose result is `output`; what the result does not depend on is dropped.
    pub fn finish(mut self, output: NodeId) -> Network {
        for index in 0..self.nodes.len() {
            let plain =
                self.nodes[index].shares.is_some() || self.nodes[index].trained == Some(self.weights_of(NodeId(index)));
            self.nodes[index].trained.take_if(|_| plain);
        }
        let alive = self.ancestors(output);
        let mut moved: Vec<Option<NodeId>> = vec![None; self.nodes.len()];
        let mut heir: Vec<Option<NodeId>> = vec![None; self.nodes.len()];
        let mut nodes: Vec<Node> = Vec::new();
        for (old, mut node) in self.nodes.into_iter().enumerate().filter(|(old, _)| alive[*old]) {
            let new = NodeId(nodes.len());
            moved[old] = Some(new);
            node.inputs = node.inputs.iter().filter_map(|id| moved[id.0]).collect();
            let owner = node.shares.map_or(old, |owner| owner.0);
            // Shared weights whose owner is dropped pass to the first node left that uses them.
            node.shares = heir[owner];
            heir[owner].get_or_insert(new);
            nodes.push(node);
        }
        Network { name: self.name, nodes, output: moved[output.0].unwrap_or(NodeId(0)), folded: false }
    }

    /// For every node, whether `output` depends on it; the input counts in any case.
    fn ancestors(&self, output: NodeId) -> Vec<bool> {
        let mut alive = vec![false; self.nodes.len()];
        alive[0] = true;
        alive[output.0] = true;
        for (i, node) in self.nodes.iter().enumerate().rev().filter(|(i, _)| *i <= output.0) {
            if alive[i] {
                node.inputs.iter().for_each(|id| alive[id.0] = true);
            }
        }
        alive
    }
}
