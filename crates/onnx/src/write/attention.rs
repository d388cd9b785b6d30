//! Writes attention in the parts that PyTorch's exporters write, which every reader of ONNX supports.

use super::GraphWriter;
use crate::attributes as with;
use perf4sight_network::Node;

impl GraphWriter<'_> {
    /// Both factors are scaled by the root of the scale; the keys are transposed before.
    pub(super) fn attention(&mut self, node: &Node) {
        let rank = node.shape.rank();
        let features = self.network.input_of(node, 0).features() as f32;
        let mut inputs = self.inputs(node).into_iter();
        let [query, key, value] = [inputs.next(), inputs.next(), inputs.next()].map(Option::unwrap_or_default);
        let name = |part: &str| format!("{}/{part}", node.name);
        let scale = self.constant(node, "scale", with::scalar(features.powf(-0.25)));
        let mut order: Vec<i64> = (0..=rank as i64).collect();
        order.swap(rank - 1, rank);
        self.push_node(&name("query"), "Mul", vec![query, scale.clone()], vec![]);
        self.push_node(&name("turned"), "Transpose", vec![key], vec![with::ints("perm", order)]);
        self.push_node(&name("key"), "Mul", vec![name("turned"), scale], vec![]);
        self.push_node(&name("scores"), "MatMul", vec![name("query"), name("key")], vec![]);
        let scores = match inputs.next() {
            Some(added) => {
                self.push_node(&name("sum"), "Add", vec![name("scores"), added], vec![]);
                name("sum")
            }
            None => name("scores"),
        };
        self.push_node(&name("weights"), "Softmax", vec![scores], vec![with::int("axis", rank as i64)]);
        self.emit(node, "MatMul", vec![name("weights"), value], vec![]);
    }
}
