//! Writes normalisations.

use super::GraphWriter;
use crate::attributes as with;
use perf4sight_network::{Affine, Node};

impl GraphWriter<'_> {
    /// The training form, whose further outputs are the running statistics. It requires channels on the second axis: axes of a
    /// sample before the channels count as samples.
    pub(super) fn batch_norm(&mut self, node: &Node, axis: usize) {
        let mut inputs = self.inputs(node);
        let dims: Vec<i64> = node.shape.dims().iter().map(|&dim| dim as i64).collect();
        if axis > 0 {
            let rows = self.integers(node, "rows", std::iter::once(-1).chain(dims[axis..].iter().copied()).collect());
            let name = format!("{}/input", node.name);
            self.push_node(&name, "Reshape", vec![inputs[0].clone(), rows], vec![]);
            inputs = vec![name];
        }
        let channels = node.shape.dims()[axis];
        // `affine=False`: what ONNX asks for is no parameter.
        inputs.extend(match node.trained {
            Some(0) => [("no_scale", 1.0), ("no_shift", 0.0)]
                .map(|(what, value)| self.write_filled(node, what, &[channels], value)),
            Some(_) | None => ["weight", "bias"].map(|name| self.weight(node, name, &[channels])),
        });
        inputs.extend(["running_mean", "running_var"].map(|name| self.weight(node, name, &[channels])));
        let name = if axis > 0 { format!("{}/result", node.name) } else { node.name.clone() };
        self.push_node(&name, "BatchNormalization", inputs, vec![with::int("training_mode", 1)]);
        if let Some(written) = self.graph.node.last_mut() {
            written.output.extend(["mean", "var"].map(|name| format!("{}/{name}", node.name)));
        }
        if axis > 0 {
            // Without weights it is the operator's own name that a reader has.
            let is_plain = node.trained == Some(0);
            if is_plain {
                self.rename_last(node.name.clone());
            }
            let samples = self.integers(node, "samples", std::iter::once(-1).chain(dims).collect());
            self.emit(node, "Reshape", vec![name, samples], vec![]);
            if is_plain {
                self.rename_last(format!("{}/samples", node.name));
            }
        }
    }

    pub(super) fn layer_norm(&mut self, node: &Node, axis: usize, affine: Affine) {
        let mut inputs = self.inputs(node);
        inputs.extend(self.affine(node, &node.shape.dims()[axis..], affine));
        self.emit(node, "LayerNormalization", inputs, vec![with::int("axis", axis as i64 - node.shape.rank() as i64)]);
    }

    pub(super) fn group_norm(&mut self, node: &Node, groups: usize, affine: Affine) {
        let channels = [node.shape.channels()];
        let mut inputs = self.inputs(node);
        inputs.extend(self.affine(node, &channels, affine));
        if affine != Affine::ScaleAndShift {
            inputs.push(self.write_filled(node, "no_shift", &channels, 0.0));
        }
        self.emit(node, "GroupNormalization", inputs, vec![with::int("num_groups", groups as i64)]);
    }

    /// Scale and shift as inputs; ONNX requires a scale.
    fn affine(&mut self, node: &Node, dims: &[usize], affine: Affine) -> Vec<String> {
        let trained = ["weight", "bias"].into_iter().take(affine.tensors());
        let mut inputs: Vec<String> = trained.map(|name| self.weight(node, name, dims)).collect();
        if inputs.is_empty() {
            inputs.push(self.write_filled(node, "no_scale", dims, 1.0));
        }
        inputs
    }

    /// An untrained tensor of equal numbers.
    fn write_filled(&mut self, node: &Node, what: &str, dims: &[usize], value: f32) -> String {
        let shape = self.integers(node, &format!("{what}_shape"), dims.iter().map(|&dim| dim as i64).collect());
        let name = format!("{}/{what}", node.name);
        let mut number = with::scalar(value);
        number.dims = vec![1];
        self.push_node(&name, "ConstantOfShape", vec![shape], vec![with::tensor("value", number)]);
        name
    }
}
