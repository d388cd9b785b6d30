//! Writes recurrent layers, between views: ONNX has the time steps before the batch.

use super::GraphWriter;
use crate::STEPS_FIRST;
use crate::attributes as with;
use crate::schema::NodeProto;
use perf4sight_network::{Node, Recurrent, RecurrentKind};

impl GraphWriter<'_> {
    pub(super) fn recurrent(&mut self, node: &Node, layer: &Recurrent) {
        let features = self.network.input_of(node, 0).features();
        let (directions, rows, hidden) = (layer.directions(), layer.rows(), layer.hidden);
        let turned = format!("{}{}", node.name, if layer.batch_first { "/steps_first" } else { STEPS_FIRST });
        self.push_node(&turned, "Transpose", self.inputs(node), vec![with::ints("perm", vec![1, 0, 2])]);
        let mut input = vec![turned];
        input.push(self.weight(node, "weight", &[directions, rows, features]));
        input.push(self.weight(node, "weight_hidden", &[directions, rows, hidden]));
        if layer.bias {
            input.push(self.weight(node, "bias", &[directions, 2 * rows]));
        }
        let result = format!("{}/result", node.name);
        let (output, order) = match layer.last {
            true => (vec![String::new(), result.clone()], vec![1, 0, 2]),
            false => (vec![result.clone()], vec![2, 0, 1, 3]),
        };
        let direction = if layer.both_ways { "bidirectional" } else { "forward" };
        let mut attribute = vec![with::int("hidden_size", hidden as i64), with::text("direction", direction)];
        match layer.cell {
            RecurrentKind::Gru => attribute.push(with::int("linear_before_reset", 1)),
            RecurrentKind::Relu => attribute.push(with::texts("activations", &vec!["Relu"; directions])),
            RecurrentKind::Lstm | RecurrentKind::Tanh => {}
        }
        let [name, op_type] = [node.name.as_str(), layer.cell.operator()].map(|word| Some(word.to_string()));
        self.graph.node.push(NodeProto { name, op_type, input, output, attribute, ..Default::default() });
        self.emit(node, "Transpose", vec![result], vec![with::ints("perm", order)]);
        self.rename_last(format!("{}/batch_first", node.name));
    }
}
