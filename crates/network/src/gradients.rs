//! Which gradients a training step computes: one rule for its cost, its memory and its time.

use super::graph::{Network, Node};
use super::keeping::PytorchRun;
use super::op::{ElementKind, GradientFlow};

impl Network {
    /// For every node, whether the gradient of its result is computed: if weights are trained at it or before it, and a result that
    /// a loss is computed of depends on it by operations that have a gradient.
    pub fn gradients(&self) -> Vec<bool> {
        let mut asked: Vec<bool> = Vec::with_capacity(self.nodes().len());
        for node in self.nodes() {
            let trained = self.trains(node) || node.inputs.iter().any(|input| asked[input.index()]);
            asked.push(trained && node.is_reached && self.has_gradient(node));
        }
        asked
    }

    /// For every node that autograd records although its gradient is not computed, the last node that reads what follows from it: until then it
    /// keeps what backward would need. None for all others, and where some weights were frozen.
    pub fn recorded_until(&self) -> Vec<Option<usize>> {
        let is_whole = |node: &Node| !node.is_reached || !self.is_trained(node) || self.trains(node);
        if !self.nodes().iter().all(is_whole) {
            return vec![None; self.nodes().len()];
        }
        let mut recorded: Vec<bool> = Vec::with_capacity(self.nodes().len());
        for node in self.nodes() {
            let follows = self.is_trained(node) || node.inputs.iter().any(|input| recorded[input.index()]);
            recorded.push(follows && self.has_gradient(node));
        }
        let mut until: Vec<Option<usize>> = (0..recorded.len()).map(Some).collect();
        for (id, node) in self.iter().rev() {
            let is_dead = recorded[id.index()] && !node.is_reached;
            let last = until[id.index()].filter(|_| is_dead).unwrap_or(id.index());
            node.inputs.iter().for_each(|input| until[input.index()] = until[input.index()].max(Some(last)));
            until[id.index()].take_if(|_| !is_dead);
        }
        until
    }

    /// Whether a step computes the gradient of a node's weights, its own or shared ones.
    pub fn trains(&self, node: &Node) -> bool {
        node.is_reached && self.trained_parts(node).contains(&true)
    }

    /// Whether autograd differentiates an operation: only numbers have a gradient, and neither those that places are found by nor those that the program detached.
    fn has_gradient(&self, node: &Node) -> bool {
        let has_weights = node.inputs.is_empty() || self.is_trained(node);
        node.element == ElementKind::Number
            && node.runs != PytorchRun::Detached
            && (has_weights || self.facts(node).gradient != GradientFlow::Ends)
    }

    /// The same network with some nodes as within `torch.no_grad`, whose results have no gradient.
    #[must_use]
    pub fn with_detached(mut self, is_detached: impl Fn(&Node) -> bool) -> Network {
        // A view without a gradient is still one, and takes no memory.
        let is_view = |node: &Node| matches!(node.runs, PytorchRun::View | PytorchRun::Joining);
        let detached = self.nodes_mut().iter_mut().filter(|node| is_detached(node) && !is_view(node));
        detached.for_each(|node| node.runs = PytorchRun::Detached);
        self.find_reached();
        self
    }

    /// Finds the nodes that gradients reach, and freezes the weights that none reaches: PyTorch leaves their `grad` at `None`, so
    /// that an optimizer changes nothing of them.
    pub(super) fn find_reached(&mut self) {
        let mut reached = vec![false; self.nodes().len()];
        self.loss_results().for_each(|output| reached[output.index()] = true);
        for (id, node) in self.iter().rev() {
            let passes_on = reached[id.index()] && self.has_gradient(node);
            reached[id.index()] &= node.runs != PytorchRun::Detached;
            let numbers = node.inputs.iter().filter(|input| self.node(**input).element == ElementKind::Number);
            numbers.for_each(|input| reached[input.index()] |= passes_on);
        }
        let mut learns = reached.clone();
        for (id, owner) in self.iter().filter_map(|(id, node)| Some((id, node.shares?))) {
            learns[owner.index()] |= reached[id.index()];
        }
        for (node, (reached, learns)) in self.nodes_mut().iter_mut().zip(reached.into_iter().zip(learns)) {
            node.is_reached = reached;
            node.frozen = [!learns; 2];
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Activation, ArgMax, BinaryFunction, ElementKind, Embedding, Linear, Network, NetworkBuilder, NetworkInput,
        NodeId, Op, Shape,
    };
    use perf4sight_step::workload::{Stage, Step, Trainable};

    const LINEAR: Op = Op::Linear(Linear { out_features: 64, bias: true });
    const TABLE: Op = Op::Embedding(Embedding { rows: 64, width: 64, fixed: None });

    /// The index of the largest of some results, as an integer.
    fn place(builder: &mut NetworkBuilder, of: NodeId) -> NodeId {
        let largest = builder.add("argmax", Op::ArgMax(ArgMax { axis: 0, keep: true, largest: true }), &[of]).unwrap();
        builder.add("place", Op::Cast(ElementKind::Integer), &[largest]).unwrap()
    }

    /// The layers of a network to whose weights `backward` gives a gradient.
    fn given(network: &Network) -> Vec<&str> {
        let learned = network.nodes().iter().filter(|node| network.learned_of(node).iter().sum::<u64>() > 0);
        learned.map(|node| node.name.as_str()).collect()
    }

    fn a_lookup_of_the_largest() -> Network {
        let mut builder = NetworkBuilder::new("lookup", Shape::new([64]));
        let scores = builder.add("scores", LINEAR, &[builder.input()]).unwrap();
        let place = place(&mut builder, scores);
        let word = builder.add("word", TABLE, &[place]).unwrap();
        let head = builder.add("head", LINEAR, &[word]).unwrap();
        builder.finish(head)
    }

    /// PyTorch 2.15: behind `head(table(scores(x).argmax(-1)))` the `grad` of the weight and bias of `scores` is None, those of the table and of the head
    /// are there.
    #[test]
    fn a_place_has_no_gradient() {
        let network = a_lookup_of_the_largest();
        assert_eq!(given(&network), ["word", "head"]);
        assert_eq!(network.gradients(), [false, false, false, false, true, true]);
        // What an optimizer does not change is frozen in every part of the network that may be selected.
        assert_eq!(given(&network.trained_in(Trainable::Last(3))), ["word", "head"]);
        assert_eq!(network.parameters(), 3 * 64 * 64 + 2 * 64);
    }

    /// PyTorch 2.15: behind `head(b(x) * (a(x) > 0))` the weights of `a` have no `grad`; with `round`, `floor` or `sign` instead of a comparison
    /// they have one, of zeros.
    #[test]
    fn comparisons_have_no_gradient_and_rounding_has_one() {
        let gated = |gate: &[Op]| {
            let mut builder = NetworkBuilder::new("gated", Shape::new([64]));
            let [a, b] = ["a", "b"].map(|name| builder.add(name, LINEAR, &[builder.input()]).unwrap());
            let gate = gate
                .iter()
                .enumerate()
                .fold(a, |read, (index, op)| builder.add(format!("gate{index}"), op.clone(), &[read]).unwrap());
            let both = builder.add("both", Op::Binary(BinaryFunction::Mul), &[b, gate]).unwrap();
            given(&builder.finish(both)).into_iter().map(str::to_string).collect::<Vec<_>>()
        };
        assert_eq!(gated(&[Op::Binary(BinaryFunction::Greater), Op::Cast(ElementKind::Number)]), ["b"]);
        for rounded in [Activation::Round, Activation::Floor, Activation::Sign] {
            assert_eq!(gated(&[Op::Activation(rounded)]), ["a", "b"]);
        }
    }

    /// A codebook that is looked up by the nearest of its own rows, as in VQ-VAE. PyTorch 2.15: `z = a(x); head(z + table((z @ table.T).argmin(-1)))`
    /// gives every weight a gradient, the table's by its lookup alone.
    #[test]
    fn shared_weights_learn_where_one_that_reads_them_is_reached() {
        let mut builder = NetworkBuilder::reading("vq", "x", NetworkInput::from(Shape::new([64])));
        let encoded = builder.add("a", LINEAR, &[builder.input()]).unwrap();
        let ids = builder.add("ids", Op::Input(NetworkInput::integers(Shape::new([1]))), &[]).unwrap();
        let first = builder.add("table", TABLE, &[ids]).unwrap();
        let unread = builder.add("unread", Op::Activation(Activation::Sign), &[first]).unwrap();
        let near = builder.add("near", Op::Linear(Linear { out_features: 64, bias: false }), &[encoded]).unwrap();
        builder.share(near, first).unwrap();
        let place = place(&mut builder, near);
        let found = builder.add("found", TABLE, &[place]).unwrap();
        builder.share(found, first).unwrap();
        let row = builder.add("row", Op::Flatten, &[found]).unwrap();
        let sum = builder.add("sum", Op::Binary(BinaryFunction::Add), &[encoded, row]).unwrap();
        let truth = builder.add("truth", Op::Cast(ElementKind::Truth), &[unread]).unwrap();
        let network = builder.finish_with(&[sum, truth]);
        assert_eq!(given(&network), ["a", "table"]);
        let trains: Vec<&str> =
            network.nodes().iter().filter(|node| network.trains(node)).map(|node| node.name.as_str()).collect();
        assert_eq!(trains, ["a", "found"]);
    }

    #[test]
    fn a_network_of_places_alone_is_trained_by_nobody() {
        let mut builder = NetworkBuilder::new("classes", Shape::new([64]));
        let scores = builder.add("scores", LINEAR, &[builder.input()]).unwrap();
        let place = place(&mut builder, scores);
        let network = builder.finish(place);
        let refused = network.check_step(Step::published(Stage::Training)).unwrap_err().to_string();
        assert!(refused.contains("no gradient reaches a weight of classes"), "{refused}");
        network.check_step(Step::published(Stage::Inference)).unwrap();
    }
}
