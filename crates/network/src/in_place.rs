//! Which activations overwrite their input: workers and the memory simulation use the same rule.

use super::graph::{Network, Node, NodeId};
use super::keeping::Keeping;
use super::op::{Activation, Op, Storage};

impl Network {
    /// For every node, whether it overwrites its input instead of allocating a result.
    ///
    /// The published networks use `ReLU(inplace=True)`, but an ONNX file does not keep that. This rule restores it: a ReLU or
    /// ReLU6 runs in place if it is the only reader of its input, and if the operation that made the input owns its memory and
    /// does not need it again to compute gradients.
    ///
    /// ```
    /// use perf4sight_network::zoo::{Dataset, build};
    /// let network = build("resnet18", Dataset::Imagenet)?;
    /// let in_place = network.in_place().iter().filter(|yes| **yes).count();
    /// assert_eq!(in_place, 17); // every ReLU of it: one in the stem, two in each of eight blocks
    /// # Ok::<(), perf4sight_base::error::Error>(())
    /// ```
    pub fn in_place(&self) -> Vec<bool> {
        let uses = self.uses();
        let overwrites =
            |input: NodeId| uses[input.index()] == 1 && self.facts(self.node(input)).storage == Storage::Own;
        let may = |op: &Op| is_rectifier(op) || self.keeping() == Keeping::Least && may_overwrite(op);
        let assigns = |node: &Node| self.assigned(node).is_some_and(|whole| overwrites(self.viewed(whole, &uses)));
        self.nodes().iter().map(|node| may(&node.op) && overwrites(node.inputs[0]) || assigns(node)).collect()
    }

    /// The input that an assignment writes into.
    fn assigned(&self, node: &Node) -> Option<NodeId> {
        let is_assignment = matches!(&node.op, Op::Unknown(unknown) if unknown.is_assignment());
        node.inputs.first().copied().filter(|whole| is_assignment && self.node(*whole).shape == node.shape)
    }

    /// What views show that nothing else reads: exporters turn the axis that is assigned along to the front, and back.
    fn viewed(&self, mut of: NodeId, uses: &[usize]) -> NodeId {
        // A transposition moves what kernels read in another order, and is a view in PyTorch.
        let is_view =
            |node: &Node| matches!(node.op, Op::Transpose { .. }) || self.facts(node).storage == Storage::View;
        while uses[of.index()] == 1 && is_view(self.node(of)) {
            of = self.node(of).inputs[0];
        }
        of
    }
}

fn is_rectifier(op: &Op) -> bool {
    matches!(op, Op::Activation(Activation::Relu | Activation::Relu6))
}

/// Whether it is a further activation that modules offer in place, and whose gradient PyTorch then reads off the result
/// (tools/autograd/derivatives.yaml: `leaky_relu_`, `elu_`, `celu_`, `selu_`); the others keep a copy of their input.
pub fn may_overwrite(op: &Op) -> bool {
    use Activation::{Celu, Elu, LeakyRelu, Selu};
    matches!(op, Op::Activation(LeakyRelu | Elu | Celu | Selu))
}

#[cfg(test)]
mod tests {
    use crate::{Activation, Binary, Conv, Linear, NetworkBuilder, Op, Reduction, Shape, Unknown, Window};

    #[test]
    fn a_relu_spares_what_others_still_need() {
        let mut builder = NetworkBuilder::new("forks", Shape::new([3, 8, 8]));
        let conv = Op::Conv(Conv { out_channels: 3, window: Window::square(3, 1, 1), groups: 1, bias: false });
        let relu = Op::Activation(Activation::Relu);
        let of_input = builder.add("of_input", relu.clone(), &[builder.input()]).unwrap();
        let conv = builder.add("conv", conv, &[of_input]).unwrap();
        let of_shared = builder.add("of_shared", relu.clone(), &[conv]).unwrap();
        let sum = builder.add("sum", Op::Binary(Binary::Add), &[conv, of_shared]).unwrap();
        let of_sum = builder.add("of_sum", relu.clone(), &[sum]).unwrap();
        let of_relu = builder.add("of_relu", relu, &[of_sum]).unwrap();
        let network = builder.finish(of_relu);
        let in_place = network.in_place();
        let named: Vec<&str> =
            network.iter().filter(|(id, _)| in_place[id.index()]).map(|(_, node)| node.name.as_str()).collect();
        // The input stays for the next step, conv is read twice, and a ReLU's gradient is read off its result.
        assert_eq!(named, ["of_sum"]);
    }

    #[test]
    fn an_assignment_writes_into_what_nothing_else_reads() {
        let written = |shared: bool| {
            let mut builder = NetworkBuilder::new("assigned", Shape::new([4, 8]));
            let twice = builder.add("twice", Op::Binary(Binary::Mul), &[builder.input()]).unwrap();
            let turned = builder.add("turned", Op::Transpose { order: vec![1, 0] }, &[twice]).unwrap();
            let put = builder.add("put", Op::Slice { axis: 1, start: 0, length: 1 }, &[turned]).unwrap();
            let put = if shared { put } else { builder.input() };
            let assigned = Op::Unknown(Unknown::new("ScatterND", Shape::new([8, 4]), 0));
            let assigned = builder.add("assigned", assigned, &[turned, put]).unwrap();
            let network = builder.finish(assigned);
            network.in_place()[network.output().index()]
        };
        assert_eq!([false, true].map(written), [true, false]);
    }

    #[test]
    fn a_relu_spares_what_gradients_are_read_off() {
        // linalg_vector_norm and pow of two tensors need their results (tools/autograd/derivatives.yaml); a mean does not.
        let overwritten = |op: Op, inputs: usize| {
            let mut builder = NetworkBuilder::new("read_off", Shape::new([3, 8, 8]));
            let read = builder.add("read", op, &vec![builder.input(); inputs]).unwrap();
            let relu = builder.add("relu", Op::Activation(Activation::Relu), &[read]).unwrap();
            builder.finish(relu).in_place()[2]
        };
        // With a bias, the layer's result over tokens is a view.
        let over_tokens = |bias| Op::Linear(Linear { out_features: 4, bias });
        assert!(!overwritten(over_tokens(true), 1) && overwritten(over_tokens(false), 1));
        let reduced = |reduction| Op::Reduce { reduction, axes: vec![1], keep: true };
        assert!(!overwritten(reduced(Reduction::L2), 1) && !overwritten(Op::Binary(Binary::Pow), 2));
        assert!(overwritten(reduced(Reduction::Mean), 1));
    }
}
