//! A network as a vector of nodes in the order they run, each naming its inputs by typed id.

use super::canonical::canonical;
use super::followed::FollowedModule;
use super::keeping::{ComputedWeight, KeptReading, PytorchRun};
use super::op::{ConvTranspose, ElementKind, NetworkInput, NodePosition, Op, OperationFacts};
use super::shape::Shape;
use perf4sight_base::error::{Error, Result};
use std::collections::HashSet;
use std::sync::Arc;

/// Names one node of one [`Network`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(usize);

impl NodeId {
    /// Position of the node in [`Network::nodes`].
    pub fn index(self) -> usize {
        self.0
    }
}

/// One operation with its inputs and its output shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Unique within the network; the stem of its weights' names in the file (`layer1.0.conv1`).
    pub name: String,
    /// The operation.
    pub op: Op,
    /// The nodes it reads, in order.
    pub inputs: Vec<NodeId>,
    /// Its output for one sample.
    pub shape: Shape,
    /// Element type of its output.
    pub element: ElementKind,
    /// That of PyTorch's tensor: comparisons, which our files have as numbers, give truths of one byte there.
    pub held: ElementKind,
    /// The earlier node that owns this node's weights, if weights are tied; they are counted at the owner.
    pub shares: Option<NodeId>,
    /// Trained elements, if they are not those the operation reads: filters computed from weights and gains (weight
    /// standardisation), tables that are looked up or computed, fixed filters (blur-pooling).
    pub trained: Option<u64>,
    /// How its weight is computed from parameters in every step, if it is no parameter.
    pub computing: Option<ComputedWeight>,
    /// What PyTorch runs for it, which decides what is kept for backward.
    pub runs: PytorchRun,
    /// The modules in whose calls it runs, the outermost first, as `layers/layers.0/norm`; none where the file does not record them.
    pub module: Option<Arc<str>>,
    /// Whether its weight and its bias are frozen: only a part of the network is trained, or no gradient reaches them.
    pub frozen: [bool; 2],
    /// Whether a result that a loss is computed of depends on it by operations that have a gradient.
    pub(super) is_reached: bool,
    /// Elements of the weight or scale that the operation reads, and of the bias or shift. They are cached, because they are read
    /// too often to compute them from the facts.
    pub(super) weights: [Option<u64>; 2],
}

impl Node {
    /// A node that owns its weights and trains all of them. `finish_with` sets the sizes of the weights.
    fn new(name: String, op: Op, inputs: Vec<NodeId>, (shape, element): (Shape, ElementKind)) -> Self {
        let (shares, trained, frozen, weights) = (None, None, [false; 2], [None; 2]);
        Node {
            name,
            op,
            inputs,
            shape,
            element,
            held: element,
            shares,
            trained,
            computing: None,
            runs: PytorchRun::AsWritten,
            module: None,
            frozen,
            is_reached: true,
            weights,
        }
    }

    /// Whether it has filters on images or on tokens, or is an embedding, whose width is pruned.
    fn has_filters(&self) -> bool {
        matches!(self.op, Op::Conv(_) | Op::Conv3d(_) | Op::ConvTranspose(_) | Op::Embedding(_)) || self.mixes_tokens()
    }

    fn mixes_tokens(&self) -> bool {
        matches!(self.op, Op::Linear(_)) && self.shape.rank() > 1
    }

    /// Whether its result is the same for every sample, because it depends on weights alone.
    pub fn is_common(&self) -> bool {
        self.inputs.is_empty() && !matches!(self.op, Op::Input(_))
    }

    /// Whether it multiplies all samples at once by what is the same for each of them.
    pub fn multiplies_at_once(&self) -> bool {
        matches!(self.runs, PytorchRun::SamplesAsRows { .. })
    }

    /// Trained elements that a table is computed from, if these are not its own: Swin computes the table of relative positions
    /// from one row for each distance.
    pub fn computed_from(&self) -> Option<u64> {
        let own = self.shape.elements();
        self.trained.filter(|trained| matches!(self.op, Op::Parameter(_)) && *trained > 0 && *trained != own)
    }

    fn facts<'a>(&'a self, nodes: &[Node]) -> OperationFacts<'a> {
        self.op.facts(NodePosition { nodes, node: self })
    }
}

/// The layer graph of a network: input and output tensors, one image and one vector in most; weights are stored as shapes only.
///
/// Nodes are stored in the order they run, the network's inputs first. A result depends on every node, except perhaps inputs.
///
/// ```
/// use perf4sight_network::{Conv, NetworkBuilder, Op, Shape, Window};
/// let mut builder = NetworkBuilder::new("tiny", Shape::new([3, 8, 8]));
/// let conv = Conv { out_channels: 4, window: Window::square(3, 1, 1), groups: 1, bias: true };
/// let features = builder.add("conv", Op::Conv(conv), &[builder.input()])?;
/// let network = builder.finish(features);
/// assert_eq!(network.output_shape().dims(), [4, 8, 8]);
/// assert_eq!(network.parameters(), 3 * 4 * 9 + 4);
/// # Ok::<(), perf4sight_base::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    name: String,
    nodes: Vec<Node>,
    /// At least one, without duplicates.
    outputs: Vec<NodeId>,
    folded: bool,
    unread: u64,
    followed: Option<FollowedModule>,
    pub(super) keeping: KeptReading,
    pub(super) other_readings: Vec<Network>,
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

    /// Whether batch normalisation was folded into the convolutions before the network was read. Its training cost and its
    /// parameters then differ from those of the original network.
    pub fn is_folded(&self) -> bool {
        self.folded
    }

    /// The same network, marked as having folded batch normalisation or not.
    #[must_use]
    pub fn folded(mut self, folded: bool) -> Self {
        self.folded = folded;
        self
    }

    /// Numbers that its modules hold, but that are not trained and that no operation reads: all but the first rows of a position
    /// table, or a table that is added as it is. They take memory in addition to what operations hold.
    pub fn unread(&self) -> u64 {
        self.unread
    }

    /// The same network with this many unread numbers in its modules.
    #[must_use]
    pub fn holding(mut self, unread: u64) -> Self {
        self.unread = unread;
        self
    }

    /// The memory of passes of the module that it was read from, where that is known.
    pub fn followed(&self) -> Option<&FollowedModule> {
        self.followed.as_ref()
    }

    /// The same network with the memory of passes of its module.
    #[must_use]
    pub fn following(mut self, followed: Option<FollowedModule>) -> Self {
        self.followed = followed;
        self
    }

    /// All nodes in the order they run.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(super) fn nodes_mut(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    /// All nodes with their ids, in the order they run.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (NodeId, &Node)> + ExactSizeIterator {
        self.nodes.iter().enumerate().map(|(i, node)| (NodeId(i), node))
    }

    /// The products of matrices, which a library for linear algebra computes.
    pub fn products(&self) -> impl Iterator<Item = NodeId> {
        let products = self.iter().filter(|(_, node)| matches!(node.op, Op::Linear(_) | Op::MatMul));
        products.map(|(id, _)| id)
    }

    /// One node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// The nodes that compute its results, in the order of the file. Auxiliary heads and the levels of a pyramid are separate
    /// results.
    pub fn outputs(&self) -> &[NodeId] {
        &self.outputs
    }

    /// The node that computes the result; the first one if there are several.
    pub fn output(&self) -> NodeId {
        self.outputs[0]
    }

    /// The results that a training step computes a loss of: all that are numbers.
    pub fn loss_results(&self) -> impl DoubleEndedIterator<Item = NodeId> {
        self.outputs.iter().copied().filter(|output| self.node(*output).element == ElementKind::Number)
    }

    /// The input nodes, in the order of the file; there is at least one.
    pub fn inputs(&self) -> impl Iterator<Item = (NodeId, &Node, &NetworkInput)> {
        self.iter()
            .filter_map(|(id, node)| if let Op::Input(input) = &node.op { Some((id, node, input)) } else { None })
    }

    /// A builder for a network with the same name and the same first input.
    pub fn builder_with_input(&self) -> NetworkBuilder {
        let first = &self.nodes[0];
        let input = NetworkInput { shape: first.shape.clone(), element: first.element };
        NetworkBuilder::reading(self.name.clone(), first.name.clone(), input)
    }

    /// Describes the inputs: `3x224x224`, or `3x224x224, 77 integers`.
    pub fn read(&self) -> String {
        let words = self.inputs().map(|(_, _, NetworkInput { shape, element })| match element {
            ElementKind::Number => shape.to_string(),
            ElementKind::Integer | ElementKind::Truth => format!("{shape} {}", element.name()),
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// Shape of one sample of the first input; most networks have only one.
    pub fn input_shape(&self) -> &Shape {
        &self.nodes[0].shape
    }

    /// Shape of one sample of the result; of the first one if there are several.
    pub fn output_shape(&self) -> &Shape {
        &self.node(self.output()).shape
    }

    /// Number of classes: the length of the result's last axis.
    pub fn classes(&self) -> usize {
        self.output_shape().dims().last().copied().unwrap_or(1)
    }

    /// The number of classes and the shape of the labels that a loss compares one sample of a result with. The classes of a
    /// vector and of an image are on the first axis, as channels; those of a sequence, such as its next words, are on the last.
    pub fn labels(&self, output: NodeId) -> (usize, Shape) {
        let mut places = self.node(output).shape.dims().to_vec();
        let classes = match places.len() {
            0 => 1,
            2 => places.remove(1),
            _ => places.remove(0),
        };
        (classes, Shape::new(places))
    }

    /// All facts about a node's operation at its position in the network.
    pub fn facts<'a>(&self, node: &'a Node) -> OperationFacts<'a> {
        node.facts(&self.nodes)
    }

    /// Shape of one sample of the `index`-th input of a node.
    pub fn input_of(&self, node: &Node, index: usize) -> &Shape {
        &self.node(node.inputs[index]).shape
    }

    /// For every node, whether pruning removes its filters: those of convolutions, transposed convolutions, fully connected layers on
    /// tokens, and embeddings, whose width is pruned. Fully connected layers on vectors are, too, unless they classify what
    /// convolutions or layers on tokens found: the classifiers of CNNs are not pruned, as published.
    pub fn ranked_nodes(&self) -> Vec<bool> {
        let mut classifies: Vec<bool> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let finds = node.has_filters() && !matches!(node.op, Op::Embedding(_));
            classifies.push(finds || node.inputs.iter().any(|input| classifies[input.0]));
        }
        let ranked =
            |(node, classifies): (&Node, bool)| node.has_filters() || matches!(node.op, Op::Linear(_)) && !classifies;
        self.nodes.iter().zip(classifies).map(ranked).collect()
    }

    /// For every node, how many times its result is read: by other nodes, and once more if it is a result of the network.
    pub fn use_counts(&self) -> Vec<usize> {
        let mut uses = self.read_counts();
        self.outputs.iter().for_each(|output| uses[output.0] += 1);
        uses
    }

    /// For every node, how many times other nodes read its result.
    pub fn read_counts(&self) -> Vec<usize> {
        let mut reads = vec![0; self.nodes.len()];
        self.nodes.iter().flat_map(|node| &node.inputs).for_each(|input| reads[input.0] += 1);
        reads
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

fn weights(node: &Node, nodes: &[Node]) -> [Option<u64>; 2] {
    let mut elements = node.facts(nodes).weights.into_iter().map(|weight| weight.dims.elements());
    [elements.next(), elements.next()]
}

/// Builds a [`Network`] node by node, inferring shapes on the way.
#[derive(Debug, Clone)]
pub struct NetworkBuilder {
    name: String,
    nodes: Vec<Node>,
    names: HashSet<String>,
    /// The modules in whose calls the next nodes run.
    module: Option<Arc<str>>,
}

impl NetworkBuilder {
    /// An empty network that reads samples of `input`; a shape stands for images.
    pub fn new(network: impl Into<String>, input: impl Into<NetworkInput>) -> Self {
        Self::reading(network, "input", input)
    }

    /// An empty network whose first input has this name; others are added as any node, before or between them.
    ///
    /// ```
    /// use perf4sight_network::{ElementKind, Embedding, NetworkInput, NetworkBuilder, Op, Shape};
    /// let mut builder = NetworkBuilder::reading("words", "ids", NetworkInput::integers(Shape::new([16])));
    /// let mask = builder.add("mask", Op::Input(NetworkInput::truths(Shape::new([16, 1]))), &[])?;
    /// let table = Op::Embedding(Embedding { rows: 1000, width: 64, fixed: None });
    /// let words = builder.add("words", table, &[builder.input()])?;
    /// let none = builder.add("none", Op::Parameter(Shape::new([1, 64])), &[])?;
    /// let known = builder.add("known", Op::Where, &[mask, words, none])?;
    /// let network = builder.finish(known);
    /// assert_eq!((network.output_shape().dims(), network.parameters()), ([16, 64].as_slice(), 1001 * 64));
    /// assert_eq!(network.inputs().map(|(_, _, input)| input.element).collect::<Vec<_>>(), [ElementKind::Integer, ElementKind::Truth]);
    /// # Ok::<(), perf4sight_base::error::Error>(())
    /// ```
    pub fn reading(network: impl Into<String>, name: impl Into<String>, input: impl Into<NetworkInput>) -> Self {
        let (name, input) = (name.into(), input.into());
        let names = HashSet::from([name.clone()]);
        let (shape, element) = (input.shape.clone(), input.element);
        let op = Op::Input(input);
        let node = Node::new(name, op, Vec::new(), (shape, element));
        NetworkBuilder { name: network.into(), nodes: vec![node], names, module: None }
    }

    /// The network's first input.
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

    /// Adds a node after its inputs. An operation with a simpler equivalent is replaced: adaptive pooling whose cells tile the
    /// image becomes plain pooling, and a reshape into one axis becomes a flatten.
    ///
    /// # Errors
    /// When the name is taken or the operation cannot take inputs of these shapes; the message names node, shapes and misfit.
    pub fn add(&mut self, name: impl Into<String>, op: Op, inputs: &[NodeId]) -> Result<NodeId> {
        let (name, kind) = (name.into(), op.kind().to_string());
        self.insert(&name, op, inputs)
            .map_err(|why| Error::input(format!("network {}: {kind} \"{name}\" {why}", self.name)))
    }

    /// As [`add`](Self::add), but the error is one clause that describes the misfit.
    pub fn insert(&mut self, name: &str, op: Op, inputs: &[NodeId]) -> std::result::Result<NodeId, String> {
        let shapes: Vec<&Shape> = inputs.iter().map(|id| self.shape(*id)).collect();
        let op = canonical(op, &shapes);
        let shape = op.shape(&shapes)?;
        if !self.names.insert(name.to_string()) {
            return Err("is the second node of that name".into());
        }
        let elements: Vec<ElementKind> = inputs.iter().map(|id| self.nodes[id.0].element).collect();
        let element = op.element(&elements);
        if matches!(op, Op::Embedding(_)) && elements.iter().any(|&element| element != ElementKind::Integer) {
            return Err("looks up by what are no integers".into());
        }
        let held: Vec<ElementKind> = inputs.iter().map(|id| self.nodes[id.0].held).collect();
        let held = op.held(&held);
        let (name, inputs) = (name.into(), inputs.to_vec());
        self.nodes.push(Node { module: self.module.clone(), held, ..Node::new(name, op, inputs, (shape, element)) });
        Ok(NodeId(self.nodes.len() - 1))
    }

    /// Sets the modules in whose calls the nodes run that are added from now on ([`Node::module`]).
    pub fn set_module(&mut self, module: Option<&str>) {
        if self.module.as_deref() != module {
            self.module = module.map(Arc::from);
        }
    }

    /// Gives a fully connected layer a bias with `elements` trained elements.
    pub fn set_bias(&mut self, node: NodeId, elements: u64) {
        let node = &mut self.nodes[node.0];
        if let Op::Linear(linear) = &mut node.op {
            linear.bias = true;
            node.trained = node.trained.map(|trained| trained + elements);
        }
    }

    /// Removes the bias of a layer.
    pub fn clear_bias(&mut self, node: NodeId) {
        let op = &mut self.nodes[node.0].op;
        if let Op::Conv(conv) | Op::ConvTranspose(ConvTranspose { conv, .. }) = op {
            conv.bias = false;
        } else if let Op::Conv3d(conv) = op {
            conv.bias = false;
        } else if let Op::Linear(linear) = op {
            linear.bias = false;
        }
    }

    /// Replaces an operation that keeps its input's shape by another one that does. The node is renamed if the name is free.
    pub fn replace(&mut self, node: NodeId, op: Op, name: &str) {
        let node = &mut self.nodes[node.0];
        node.op = op;
        if self.names.insert(name.to_string()) {
            self.names.remove(&node.name);
            node.name = name.to_string();
        }
    }

    /// Sets the number of trained elements of a node, if they are not those its operation reads.
    pub fn set_trained(&mut self, node: NodeId, elements: u64) {
        self.nodes[node.0].trained = Some(elements);
    }

    /// Sets how the weight of a node is computed from parameters.
    pub fn set_computing(&mut self, node: NodeId, computing: ComputedWeight) {
        self.nodes[node.0].computing = Some(computing);
    }

    /// Sets what PyTorch runs for a node, where that is not its operation as it stands.
    pub fn set_runs(&mut self, node: NodeId, runs: PytorchRun) {
        self.nodes[node.0].runs = runs;
    }

    /// All nodes, in the order in which they were added.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).map(NodeId)
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Sets what PyTorch runs for all nodes from the one at that place on.
    pub fn set_runs_from(&mut self, first: usize, runs: PytorchRun) {
        self.nodes[first..].iter_mut().for_each(|node| node.runs = runs);
    }

    /// Whether a node combines the samples of a batch.
    pub fn is_across(&self, node: NodeId) -> bool {
        self.nodes[node.0].facts(&self.nodes).across
    }

    /// Elements of the weights that a node added before reads, its own or shared ones.
    pub fn weights_of(&self, node: NodeId) -> u64 {
        self.nodes[node.0].facts(&self.nodes).weights_read()
    }

    /// Ties the weights of `node` to those of `owner`, an earlier node with the same weights; `node` may lack the bias.
    ///
    /// # Errors
    /// When the two do not have the same weights.
    pub fn share(&mut self, node: NodeId, owner: NodeId) -> Result<()> {
        let [a, b] = [node, owner].map(|id| &self.nodes[id.0]);
        let weights = |node: &Node| node.facts(&self.nodes).weights;
        let dims = |node: &Node| weights(node).into_iter().map(|weight| weight.dims).collect::<Vec<_>>();
        // A classifier of words can share the weights of their embedding.
        let turned = matches!((&a.op, &b.op), (Op::Linear(_), Op::Embedding(_)));
        let alike = (a.op.kind() == b.op.kind() || turned) && !dims(a).is_empty() && dims(b).starts_with(&dims(a));
        if owner >= node || !alike {
            let problem = format!("network {}: \"{}\" cannot share the weights of \"{}\"", self.name, a.name, b.name);
            return Err(Error::input(problem));
        }
        self.nodes[node.0].shares = Some(self.nodes[owner.0].shares.unwrap_or(owner));
        Ok(())
    }

    /// The finished network with the result `output`. Nodes that the result does not depend on are dropped.
    pub fn finish(self, output: NodeId) -> Network {
        self.finish_with(&[output])
    }

    /// As [`finish`](Self::finish), with several results, at least one.
    pub fn finish_with(mut self, outputs: &[NodeId]) -> Network {
        for index in 0..self.nodes.len() {
            let plain =
                self.nodes[index].shares.is_some() || self.nodes[index].trained == Some(self.weights_of(NodeId(index)));
            self.nodes[index].trained.take_if(|_| plain);
        }
        let alive = self.ancestors(outputs);
        let mut moved: Vec<Option<NodeId>> = vec![None; self.nodes.len()];
        let mut heir: Vec<Option<NodeId>> = vec![None; self.nodes.len()];
        let mut nodes: Vec<Node> = Vec::new();
        // Inputs come first, as in files.
        let (inputs, others): (Vec<_>, Vec<_>) =
            self.nodes.into_iter().enumerate().partition(|(_, node)| matches!(node.op, Op::Input(_)));
        for (old, mut node) in inputs.into_iter().chain(others).filter(|(old, _)| alive[*old]) {
            let new = NodeId(nodes.len());
            moved[old] = Some(new);
            node.inputs = node.inputs.iter().filter_map(|id| moved[id.0]).collect();
            let owner = node.shares.map_or(old, |owner| owner.0);
            // Shared weights whose owner is dropped pass to the first node left that uses them.
            node.shares = heir[owner];
            heir[owner].get_or_insert(new);
            nodes.push(node);
        }
        let mut results: Vec<NodeId> = Vec::with_capacity(outputs.len());
        for result in outputs.iter().filter_map(|output| moved[output.0]) {
            if !results.contains(&result) {
                results.push(result);
            }
        }
        let weights: Vec<_> = nodes.iter().map(|node| weights(node, &nodes)).collect();
        nodes.iter_mut().zip(weights).for_each(|(node, weights)| node.weights = weights);
        let mut network = Network {
            name: self.name,
            nodes,
            outputs: results,
            folded: false,
            unread: 0,
            followed: None,
            keeping: KeptReading::default(),
            other_readings: Vec::new(),
        };
        network.find_reached();
        network
    }

    /// For every node, whether one of `outputs` depends on it; always true for inputs.
    fn ancestors(&self, outputs: &[NodeId]) -> Vec<bool> {
        let mut alive = vec![false; self.nodes.len()];
        outputs.iter().for_each(|output| alive[output.0] = true);
        for (i, node) in self.nodes.iter().enumerate().rev() {
            alive[i] |= matches!(node.op, Op::Input(_));
            if alive[i] {
                node.inputs.iter().for_each(|id| alive[id.0] = true);
            }
        }
        alive
    }
}
