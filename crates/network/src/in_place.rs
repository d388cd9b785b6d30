//! Which activations overwrite their input: workers and the memory simulation use the same rule.

use super::graph::{Network, Node, NodeId};
use super::keeping::KeptReading;
use super::op::{Op, Overwrites, ResultStorage};

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
        let uses = self.use_counts();
        let is_free =
            |input: NodeId| uses[input.index()] == 1 && self.facts(self.node(input)).storage == ResultStorage::Own;
        let may =
            |op: &Op| overwrites(op, Overwrites::Usually) || self.keeping() == KeptReading::Least && may_overwrite(op);
        let last = self.last_readers();
        let assigns = |(id, node): (NodeId, &Node)| {
            let Some(whole) = self.assigned_input(node) else { return false };
            let base = self.shown_by_views(whole);
            let is_of_assignment = self.assigned_input(self.node(base)).is_some() && last[base.index()] == id;
            is_of_assignment || is_free(self.unshared_view(whole, &uses)) || self.is_put_back(id, whole)
        };
        let may_overwrite = |node: &Node| may(&node.op) && is_free(node.inputs[0]);
        self.iter().map(|(id, node)| may_overwrite(node) || assigns((id, node))).collect()
    }

    /// The input that an assignment writes into.
    fn assigned_input(&self, node: &Node) -> Option<NodeId> {
        let is_assignment = matches!(&node.op, Op::Unknown(unknown) if unknown.is_assignment());
        node.inputs.first().copied().filter(|whole| is_assignment && self.node(*whole).shape == node.shape)
    }

    /// What views show. What an assignment made is assigned to in place by the next one, but where the program goes on with a clone: then
    /// something reads the former later on.
    fn shown_by_views(&self, mut of: NodeId) -> NodeId {
        while self.is_view(self.node(of)) {
            of = self.node(of).inputs[0];
        }
        of
    }

    /// For every node, the last one that reads its memory, itself where none does.
    fn last_readers(&self) -> Vec<NodeId> {
        let mut last: Vec<NodeId> = self.iter().map(|(id, _)| id).collect();
        for (id, node) in self.iter() {
            node.inputs.iter().for_each(|read| last[read.index()] = id);
        }
        for (id, node) in self.iter().rev().filter(|(_, node)| self.is_view(node)) {
            let read = node.inputs[0].index();
            last[read] = last[read].max(last[id.index()]);
        }
        last
    }

    /// Whether an assignment to a slice of a tensor is what is assigned to that slice next: exporters so write `x[:8, 1:] = y`.
    fn is_put_back(&self, id: NodeId, slice: NodeId) -> bool {
        let slice = self.viewed_in_order(slice);
        let Op::Slice { .. } = self.node(slice).op else { return false };
        let whole = self.shown_by_views(slice);
        let is_back = |node: &&Node| self.assigned_input(node).is_some_and(|other| self.shown_by_views(other) == whole);
        let puts = |node: &&Node| node.inputs.last().is_some_and(|put| self.shown_by_views(*put) == id);
        self.nodes()[id.index() + 1..].iter().filter(is_back).any(|node| puts(&node))
    }

    /// What transpositions and reshapes show.
    fn viewed_in_order(&self, mut of: NodeId) -> NodeId {
        while let Op::Transpose { .. } | Op::Reshape(_) = self.node(of).op {
            of = self.node(of).inputs[0];
        }
        of
    }

    /// A transposition moves what kernels read in another order, and is a view in PyTorch.
    pub(super) fn is_view(&self, node: &Node) -> bool {
        matches!(node.op, Op::Transpose { .. }) || self.facts(node).storage == ResultStorage::View
    }

    /// What views show that nothing else reads: exporters turn the axis that is assigned along to the front, and back.
    fn unshared_view(&self, mut of: NodeId, uses: &[usize]) -> NodeId {
        while uses[of.index()] == 1 && self.is_view(self.node(of)) {
            of = self.node(of).inputs[0];
        }
        of
    }
}

/// Whether it is an activation that modules write over its input so often.
fn overwrites(op: &Op, often: Overwrites) -> bool {
    matches!(op, Op::Activation(function) if function.overwrites() == often)
}

/// Whether it is an activation that modules may write over its input, though they usually do not.
pub fn may_overwrite(op: &Op) -> bool {
    overwrites(op, Overwrites::Possibly)
}

#[cfg(test)]
mod tests {
    use crate::{
        Activation, BinaryFunction, Conv, Linear, NetworkBuilder, Op, ReductionKind, Shape, UnknownOperation, Window,
    };

    #[test]
    fn a_relu_spares_what_others_still_need() {
        let mut builder = NetworkBuilder::new("forks", Shape::new([3, 8, 8]));
        let conv = Op::Conv(Conv { out_channels: 3, window: Window::square(3, 1, 1), groups: 1, bias: false });
        let relu = Op::Activation(Activation::Relu);
        let of_input = builder.add("of_input", relu.clone(), &[builder.input()]).unwrap();
        let conv = builder.add("conv", conv, &[of_input]).unwrap();
        let of_shared = builder.add("of_shared", relu.clone(), &[conv]).unwrap();
        let sum = builder.add("sum", Op::Binary(BinaryFunction::Add), &[conv, of_shared]).unwrap();
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
            let twice = builder.add("twice", Op::Binary(BinaryFunction::Mul), &[builder.input()]).unwrap();
            let turned = builder.add("turned", Op::Transpose { order: vec![1, 0] }, &[twice]).unwrap();
            let put = builder.add("put", Op::Slice { axis: 1, start: 0, length: 1 }, &[turned]).unwrap();
            let put = if shared { put } else { builder.input() };
            let assigned = Op::Unknown(UnknownOperation::new("ScatterND", Shape::new([8, 4]), 0));
            let assigned = builder.add("assigned", assigned, &[turned, put]).unwrap();
            let network = builder.finish(assigned);
            network.in_place()[network.output().index()]
        };
        assert_eq!([false, true].map(written), [true, false]);
    }

    /// `y[..., :4] += a; y[..., 4:] += b`: exporters read the slice of what was assigned before, and assign to all of that.
    #[test]
    fn a_further_assignment_is_in_place_unless_the_former_is_read_later() {
        let written = |is_read_later: bool| {
            let mut builder = NetworkBuilder::new("added", Shape::new([8]));
            let mut whole = builder.add("twice", Op::Binary(BinaryFunction::Mul), &[builder.input()]).unwrap();
            let mut former = whole;
            for start in [0, 4] {
                former = whole;
                let slice = Op::Slice { axis: 0, start, length: 4 };
                let slice = builder.add(format!("slice{start}"), slice, &[whole]).unwrap();
                let more = builder.add(format!("more{start}"), Op::Binary(BinaryFunction::Add), &[slice]).unwrap();
                let assigned = Op::Unknown(UnknownOperation::new("ScatterND", Shape::new([8]), 0));
                whole = builder.add(format!("assigned{start}"), assigned, &[whole, more]).unwrap();
            }
            let other = if is_read_later { former } else { whole };
            let sum = builder.add("sum", Op::Binary(BinaryFunction::Add), &[whole, other]).unwrap();
            let network = builder.finish(sum);
            network.iter().filter(|(id, _)| network.in_place()[id.index()]).count()
        };
        assert_eq!([false, true].map(written), [1, 0]);
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
        assert!(!overwritten(reduced(ReductionKind::L2), 1) && !overwritten(Op::Binary(BinaryFunction::Pow), 2));
        assert!(overwritten(reduced(ReductionKind::Mean), 1));
    }
}
