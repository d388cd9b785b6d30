//! Writes unsupported operations as in their original file, between views if the batch does not come first.

use super::{GraphWriter, batch_dimensions, value_info};
use crate::attributes as with;
use crate::schema::{AttributeProto, NodeProto, TensorProto};
use perf4sight_network::op::{NodePosition, continued};
use perf4sight_network::{BatchLayout, Node, OriginalOperand, OriginalOperation, Shape, UnknownOperation};
use prost::Message;

impl GraphWriter<'_> {
    pub(super) fn original(&mut self, node: &Node, unknown: &UnknownOperation, original: &OriginalOperation) {
        let (domain, operator) = unknown.op_type.split_once("::").unwrap_or(("", &unknown.op_type));
        let version = match domain {
            "" => &mut self.opset,
            _ => self.domains.entry(domain.to_string()).or_insert(original.opset),
        };
        *version = original.opset.max(*version);
        let result = self.result(node, original);
        if !self.also(node, original, &result) {
            self.write_original(node, original, (domain, operator), &result);
        }
        // If samples are combined, a further axis is as long as the batch; inference finds it.
        if let (BatchLayout::Alone(axis), false) = (original.layout, unknown.across) {
            let mut dims = batch_dimensions(&node.shape);
            dims[..=axis].rotate_left(1);
            self.graph.value_info.push(value_info(&result, dims));
        }
        if original.layout != BatchLayout::Alone(0) {
            self.batch_first(node, result, original.layout);
        }
    }

    fn result(&self, node: &Node, original: &OriginalOperation) -> String {
        if original.layout == BatchLayout::Alone(0) { node.name.clone() } else { format!("{}/result", node.name) }
    }

    /// Makes an operation that is already written for another of its outputs give this one too. False if there is none, or if the
    /// output is taken.
    fn also(&mut self, node: &Node, original: &OriginalOperation, result: &str) -> bool {
        let free = continued(NodePosition { nodes: self.network.nodes(), node }).find_map(|other| {
            let written = self.graph.node.iter().position(|written| written.name() == other.name)?;
            let place = self.graph.node[written].output.get(original.output)?;
            (*place == unread(other, original.output)).then_some(written)
        });
        free.map(|written| self.graph.node[written].output[original.output] = result.to_string()).is_some()
    }

    fn write_original(
        &mut self,
        node: &Node,
        original: &OriginalOperation,
        (domain, operator): (&str, &str),
        result: &str,
    ) {
        let mut read = node.inputs.iter();
        let mut input = Vec::new();
        for (place, operand) in original.operands.iter().enumerate() {
            input.push(if let OriginalOperand::Node(layout) = operand {
                // There are as many as nodes that it reads.
                read.next().map_or(String::new(), |&id| {
                    let source = self.network.node(id);
                    self.laid_out(node, place, (&source.name, &source.shape), *layout)
                })
            } else {
                self.operand(node, place, operand)
            });
        }
        let output = (0..original.outputs).map(|index| match index == original.output {
            true => result.to_string(),
            false => unread(node, index),
        });
        let output = output.collect();
        let attribute =
            NodeProto::decode(original.attributes.as_slice()).map_or_else(|_| vec![], |node| node.attribute);
        let [name, op_type, domain] = [&node.name, operator, domain].map(|word| Some(word.to_string()));
        self.graph.node.push(NodeProto { name, op_type, domain, input, output, attribute, ..Default::default() });
    }

    fn operand(&mut self, node: &Node, place: usize, operand: &OriginalOperand) -> String {
        let what = format!("operand_{place}");
        match operand {
            OriginalOperand::Weight(dims) => self.weight(node, if place == 1 { "weight" } else { &what }, dims),
            OriginalOperand::Buffer(dims) => self.weight(node, &format!("{what}.buffer"), dims),
            OriginalOperand::Numbers(tensor) => {
                let tensor = TensorProto::decode(tensor.as_slice()).unwrap_or_default();
                self.constant(node, &what, tensor)
            }
            OriginalOperand::Integers(dims, values) => self.batch_integers(node, &what, dims, values),
            OriginalOperand::Node(_) | OriginalOperand::Absent => String::new(),
        }
    }

    /// Integers, some of which may be multiples of the batch.
    fn batch_integers(&mut self, node: &Node, what: &str, dims: &[usize], values: &[[i64; 2]]) -> String {
        let dims: Vec<i64> = dims.iter().map(|&dim| dim as i64).collect();
        let part = |index: usize| TensorProto {
            dims: dims.clone(),
            ..with::vector(values.iter().map(|value| value[index]).collect())
        };
        if values.iter().all(|value| value[0] == 0) {
            return self.constant(node, what, part(1));
        }
        let (times, rest) = (
            self.constant(node, &format!("{what}_times"), part(0)),
            self.constant(node, &format!("{what}_rest"), part(1)),
        );
        let batch = self.batch(node, what);
        let [multiples, sum] = ["multiples", ""].map(|word| format!("{}/{what}_{word}", node.name));
        self.push_node(&multiples, "Mul", vec![times, batch], vec![]);
        self.push_node(&sum, "Add", vec![multiples, rest], vec![]);
        sum
    }

    pub(super) fn batch(&mut self, node: &Node, what: &str) -> String {
        let input = self.network.nodes()[0].name.clone();
        let batch = format!("{}/{what}_batch", node.name);
        self.push_node(&batch, "Shape", vec![input], vec![with::int("start", 0), with::int("end", 1)]);
        batch
    }

    /// A node's result with its batch on the axis that an operation needs.
    fn laid_out(&mut self, node: &Node, place: usize, (source, shape): (&str, &Shape), layout: BatchLayout) -> String {
        let moved = format!("{}/laid_out_{place}", node.name);
        match layout {
            BatchLayout::Alone(0) => return source.to_string(),
            BatchLayout::Alone(axis) => {
                let order = (1..=axis as i64).chain([0]).chain(axis as i64 + 1..=shape.rank() as i64).collect();
                self.push_node(&moved, "Transpose", vec![source.to_string()], vec![with::ints("perm", order)]);
            }
            BatchLayout::Rows => {
                let target = std::iter::once(-1).chain(shape.dims().iter().skip(1).map(|&dim| dim as i64)).collect();
                let target = self.integers(node, &format!("rows_{place}"), target);
                self.push_node(&moved, "Reshape", vec![source.to_string(), target], vec![]);
            }
        }
        moved
    }

    /// The node's own result, with its batch first again.
    fn batch_first(&mut self, node: &Node, result: String, layout: BatchLayout) {
        match layout {
            BatchLayout::Alone(axis) => {
                let axis = axis as i64;
                let order =
                    std::iter::once(axis).chain((0..=node.shape.rank() as i64).filter(|&from| from != axis)).collect();
                self.write_last_step(node, "Transpose", vec![result], vec![with::ints("perm", order)]);
            }
            BatchLayout::Rows => {
                let target = std::iter::once(-1).chain(node.shape.dims().iter().map(|&dim| dim as i64)).collect();
                let target = self.integers(node, "samples", target);
                self.write_last_step(node, "Reshape", vec![result, target], vec![]);
            }
        }
    }

    /// A last step, which gives the node's result under another node name.
    fn write_last_step(&mut self, node: &Node, operator: &str, inputs: Vec<String>, attributes: Vec<AttributeProto>) {
        self.emit(node, operator, inputs, attributes);
        self.rename_last(format!("{}/batch_first", node.name));
    }
}

fn unread(node: &Node, index: usize) -> String {
    format!("{}/output_{index}", node.name)
}
