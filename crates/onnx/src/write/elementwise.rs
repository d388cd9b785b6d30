//! Writes element-wise functions, comparisons and choices. All tensors between operations are numbers, also truth
//! values.

use super::{GraphWriter, data_type};
use crate::attributes as with;
use crate::operator_names;
use crate::schema::AttributeProto;
use crate::schema::tensor_proto::DataType;
use perf4sight_network::{Activation, BinaryFunction, ElementKind, Node};

/// A constant factor or summand whose value is unknown is written as this. No activation results from it.
pub(super) const SOME_CONSTANT: f32 = 2.0;

impl GraphWriter<'_> {
    pub(super) fn activation(&mut self, node: &Node, activation: Activation) {
        let operator = operator_names::of_activation(activation);
        if operator == "Clip" {
            // The bounds of other clips do not change their cost.
            let high = if activation == Activation::Relu6 { 6.0 } else { SOME_CONSTANT };
            let bounds = [("min", 0.0), ("max", high)];
            let bounds = bounds.map(|(what, bound)| self.constant(node, what, with::scalar(bound)));
            return self.with_numbers(node, operator, bounds.to_vec(), vec![]);
        }
        if activation == Activation::Silu {
            return self.write_gate(node);
        }
        if activation == Activation::Not {
            return self.logical(node, operator);
        }
        let slope = (activation == Activation::HardSigmoid).then(|| with::float("alpha", 1.0 / 6.0));
        self.push(node, operator, slope.into_iter().collect());
    }

    /// `x * sigmoid(x)`.
    fn write_gate(&mut self, node: &Node) {
        let gate = format!("{}/gate", node.name);
        let mut inputs = self.inputs(node);
        self.push_node(&gate, "Sigmoid", inputs.clone(), vec![]);
        inputs.push(gate);
        self.emit(node, "Mul", inputs, vec![]);
    }

    pub(super) fn binary(&mut self, node: &Node, binary: BinaryFunction) {
        let operator = operator_names::of_binary(binary);
        if matches!(binary, BinaryFunction::And | BinaryFunction::Or | BinaryFunction::Xor) {
            return self.logical(node, operator);
        }
        if binary.is_truth() {
            return self.write_comparison(node, operator);
        }
        let inputs = self.operands(node);
        let whole = if binary == BinaryFunction::Mod { vec![with::int("fmod", 1)] } else { vec![] };
        self.emit(node, operator, inputs, whole);
    }

    /// Both operands; an unknown constant is written as [`SOME_CONSTANT`].
    fn operands(&mut self, node: &Node) -> Vec<String> {
        let mut inputs = self.inputs(node);
        if inputs.len() == 1 {
            let constant = match self.network.node(node.inputs[0]).element {
                ElementKind::Number => with::scalar(SOME_CONSTANT),
                ElementKind::Integer => with::vector(vec![SOME_CONSTANT as i64]),
                ElementKind::Truth => with::truth(true),
            };
            inputs.push(self.constant(node, "constant", constant));
        }
        inputs
    }

    pub(super) fn choice(&mut self, node: &Node) {
        let mut inputs = self.inputs(node);
        inputs[0] = self.write_truth(node, 0, inputs[0].clone());
        self.emit(node, "Where", inputs, vec![]);
    }

    /// A comparison; ONNX gives truth values, which are cast back to numbers.
    fn write_comparison(&mut self, node: &Node, operator: &str) {
        let inputs = self.operands(node);
        self.cast_result(node, operator, inputs, vec![]);
    }

    fn logical(&mut self, node: &Node, operator: &str) {
        let inputs = if operator == "Not" { self.inputs(node) } else { self.operands(node) };
        let truths =
            inputs.into_iter().enumerate().map(|(place, input)| self.write_truth(node, place, input)).collect();
        self.cast_result(node, operator, truths, vec![]);
    }

    fn write_truth(&mut self, node: &Node, place: usize, input: String) -> String {
        let name = format!("{}/truth_{place}", node.name);
        self.push_node(&name, "Cast", vec![input], vec![with::int("to", DataType::Bool as i64)]);
        name
    }

    /// An operator that gives truth values or positions, and a cast to the node's element type.
    pub(super) fn cast_result(
        &mut self,
        node: &Node,
        operator: &str,
        inputs: Vec<String>,
        attributes: Vec<AttributeProto>,
    ) {
        let said = format!("{}/said", node.name);
        self.push_node(&said, operator, inputs, attributes);
        self.rename_last(node.name.clone());
        self.number(node, said);
    }

    /// A cast of an operator's result to the node's element type.
    pub(super) fn number(&mut self, node: &Node, said: String) {
        self.push_node(&node.name, "Cast", vec![said], vec![with::int("to", data_type(node.element) as i64)]);
        self.rename_last(format!("{}/number", node.name));
    }

    /// A uniform number for every sample, and a comparison with the rate: much as exporters write `torch.bernoulli_`.
    pub(super) fn drop_path(&mut self, node: &Node, rate: f32) {
        let batch = self.batch(node, "drawn");
        let rest = self.integers(node, "ones", vec![1; node.shape.rank()]);
        let [rate, keep] =
            [("rate", rate), ("keep", 1.0 - rate)].map(|(what, value)| self.constant(node, what, with::scalar(value)));
        let name = |part: &str| format!("{}/{part}", node.name);
        self.push_node(&name("shape"), "Concat", vec![batch, rest], vec![with::int("axis", 0)]);
        self.push_node(&name("one"), "ConstantOfShape", vec![name("shape")], vec![]);
        self.push_node(&name("drawn"), "RandomUniformLike", vec![name("one")], vec![]);
        self.push_node(&name("above"), "Greater", vec![name("drawn"), rate], vec![]);
        self.push_node(&name("kept"), "Cast", vec![name("above")], vec![with::int("to", DataType::Float as i64)]);
        self.push_node(&name("scaled"), "Div", vec![name("kept"), keep], vec![]);
        let inputs = self.inputs(node).into_iter().chain([name("scaled")]).collect();
        self.emit(node, "Mul", inputs, vec![]);
    }

    pub(super) fn dropout(&mut self, node: &Node, rate: f32) {
        let rate = self.constant(node, "ratio", with::scalar(rate));
        let training = self.constant(node, "training", with::truth(true));
        self.with_numbers(node, "Dropout", vec![rate, training], vec![]);
    }
}
