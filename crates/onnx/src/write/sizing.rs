//! Writes operations that change the size of tensors.

use super::elementwise::SOME_CONSTANT;
use super::{GraphWriter, axis_with_batch};
use crate::attributes as with;
use crate::operator_names::of_reduction;
use crate::schema::AttributeProto;
use perf4sight_network::{Interpolation, Node, PaddingFill, PickedElements, ReductionKind, Shape};

impl GraphWriter<'_> {
    pub(super) fn reshape(&mut self, node: &Node, shape: &Shape) {
        // 0 keeps the batch.
        self.write_shaped(node, "Reshape", 0, shape);
    }

    pub(super) fn expand(&mut self, node: &Node, shape: &Shape) {
        // A length of 1 leaves the batch as it is.
        self.write_shaped(node, "Expand", 1, shape);
    }

    fn write_shaped(&mut self, node: &Node, operator: &str, batch: i64, shape: &Shape) {
        let target = std::iter::once(batch).chain(shape.dims().iter().map(|&dim| dim as i64)).collect();
        let target = self.integers(node, "shape", target);
        self.with_numbers(node, operator, vec![target], vec![]);
    }

    /// The copy as an identity between two transpositions: the first moves the batch to its place in memory, the second
    /// moves it back.
    pub(super) fn contiguous(&mut self, node: &Node, batch: usize) {
        let inputs = self.inputs(node);
        if batch == 0 {
            return self.emit(node, "Identity", inputs, vec![]);
        }
        let order = |axes: Vec<usize>| vec![with::ints("perm", axes.into_iter().map(|axis| axis as i64).collect())];
        let [turned, copied] = ["turned", "copied"].map(|what| format!("{}/{what}", node.name));
        let axes = batch + 1..node.shape.rank() + 1;
        let there = (1..=batch).chain([0]).chain(axes.clone());
        self.push_node(&turned, "Transpose", inputs, order(there.collect()));
        self.push_node(&copied, "Identity", vec![turned], vec![]);
        self.rename_last(node.name.clone());
        let back = std::iter::once(batch).chain(0..batch).chain(axes);
        self.emit(node, "Transpose", vec![copied], order(back.collect()));
        self.rename_last(format!("{}/back", node.name));
    }

    pub(super) fn slice(&mut self, node: &Node, axis: usize, [start, end]: [usize; 2]) {
        let numbers = [("starts", start as i64), ("ends", end as i64), ("axes", axis_with_batch(axis))];
        let numbers = numbers.map(|(name, number)| self.integers(node, name, vec![number]));
        self.with_numbers(node, "Slice", numbers.to_vec(), vec![]);
    }

    pub(super) fn write_strided_slice(&mut self, node: &Node, axis: usize, [start, step]: [usize; 2]) {
        // The largest end is beyond any axis.
        let numbers =
            [("starts", start as i64), ("ends", i64::MAX), ("axes", axis_with_batch(axis)), ("steps", step as i64)];
        let numbers = numbers.map(|(name, number)| self.integers(node, name, vec![number]));
        self.with_numbers(node, "Slice", numbers.to_vec(), vec![]);
    }

    pub(super) fn reduce(&mut self, node: &Node, reduction: ReductionKind, axes: &[usize], keep: bool) {
        let axes = self.integers(node, "axes", axes.iter().map(|&axis| axis_with_batch(axis)).collect());
        self.with_numbers(node, of_reduction(reduction), vec![axes], vec![with::int("keepdims", i64::from(keep))]);
    }

    /// A node with the inputs of the network's node, followed by numbers.
    pub(super) fn with_numbers(
        &mut self,
        node: &Node,
        operator: &str,
        numbers: Vec<String>,
        attributes: Vec<AttributeProto>,
    ) {
        let inputs = self.inputs(node).into_iter().chain(numbers).collect();
        self.emit(node, operator, inputs, attributes);
    }

    /// Lookups with unknown positions read them when the network runs.
    pub(super) fn pick(&mut self, node: &Node, pick: &PickedElements) {
        let places = match pick.places.as_slice() {
            [] => self.indices_input(node, &[pick.count]),
            places => self.integers(node, "places", places.iter().map(|&place| place as i64).collect()),
        };
        self.with_numbers(node, "Gather", vec![places], vec![with::int("axis", axis_with_batch(pick.axis))]);
    }

    pub(super) fn pad(&mut self, node: &Node, sides: &[[i64; 2]], fill: PaddingFill) {
        let [before, behind] = [0, 1].map(|end| sides.iter().map(move |side| side[end]));
        let pads = std::iter::once(0).chain(before).chain([0]).chain(behind).collect();
        let pads = self.integers(node, "pads", pads);
        let mode = match fill {
            PaddingFill::Zeros | PaddingFill::Constant => "constant",
            PaddingFill::Reflect => "reflect",
            PaddingFill::Edge => "edge",
            PaddingFill::Wrap => "wrap",
        };
        let mut numbers = vec![pads];
        if fill == PaddingFill::Constant {
            // The number itself changes neither time nor memory; it is read again as one that is not zero.
            numbers.push(self.constant(node, "constant", with::scalar(SOME_CONSTANT)));
        }
        self.with_numbers(node, "Pad", numbers, vec![with::text("mode", mode)]);
    }

    pub(super) fn resize(&mut self, node: &Node, image: [usize; 2], interpolation: Interpolation, corners: bool) {
        let sizes = self.integers(node, "sizes", image.map(|size| size as i64).to_vec());
        let (mode, edges) = match interpolation {
            Interpolation::Nearest => ("nearest", "asymmetric"),
            Interpolation::Linear => ("linear", "half_pixel"),
            Interpolation::Cubic => ("cubic", "half_pixel"),
        };
        let places = if corners { "align_corners" } else { edges };
        let attributes = vec![
            with::ints("axes", vec![2, 3]),
            with::text("mode", mode),
            with::text("coordinate_transformation_mode", places),
            with::text("nearest_mode", "floor"),
        ];
        self.with_numbers(node, "Resize", vec![String::new(), String::new(), sizes], attributes);
    }
}
