//! Writes operations that look elements up by position.

use super::{GraphWriter, axis_with_batch, window_attributes_of};
use crate::attributes as with;
use crate::schema::NodeProto;
use perf4sight_network::{ArgMax, Fold, GridSample, Interpolation, Node, OutsideValues, TopK};

impl GraphWriter<'_> {
    pub(super) fn arg_max(&mut self, node: &Node, place: &ArgMax) {
        let operator = if place.largest { "ArgMax" } else { "ArgMin" };
        let inputs = self.inputs(node);
        let attributes =
            vec![with::int("axis", axis_with_batch(place.axis)), with::int("keepdims", i64::from(place.keep))];
        self.cast_result(node, operator, inputs, attributes);
    }

    /// Both results have a name; the positions are cast to numbers.
    pub(super) fn top_k(&mut self, node: &Node, top: &TopK) {
        let count = self.integers(node, "count", vec![top.count as i64]);
        let input = self.inputs(node).into_iter().chain([count]).collect();
        let attribute =
            vec![with::int("axis", axis_with_batch(top.axis)), with::int("largest", i64::from(top.largest))];
        let [values, said] = ["values", "said"].map(|what| format!("{}/{what}", node.name));
        let output = if top.places { vec![values, said.clone()] } else { vec![node.name.clone(), said.clone()] };
        let [name, op_type] = [&node.name, "TopK"].map(|word| Some(word.to_string()));
        self.graph.node.push(NodeProto { name, op_type, input, output, attribute, ..Default::default() });
        if top.places {
            self.number(node, said);
        }
    }

    pub(super) fn cum_sum(&mut self, node: &Node, axis: usize) {
        let axis = self.constant(node, "axis", with::integer(axis_with_batch(axis)));
        self.with_numbers(node, "CumSum", vec![axis], vec![]);
    }

    pub(super) fn fold(&mut self, node: &Node, fold: &Fold) {
        let numbers = [("image", fold.image), ("block", fold.window.kernel)];
        let numbers = numbers.map(|(what, pair)| self.integers(node, what, pair.map(|side| side as i64).to_vec()));
        let attributes =
            window_attributes_of(&fold.window).into_iter().filter(|attribute| attribute.name() != "kernel_shape");
        self.with_numbers(node, "Col2Im", numbers.to_vec(), attributes.collect());
    }

    pub(super) fn grid_sample(&mut self, node: &Node, sample: &GridSample) {
        let mode = match sample.interpolation {
            Interpolation::Nearest => "nearest",
            Interpolation::Linear => "linear",
            Interpolation::Cubic => "cubic",
        };
        let beyond = match sample.beyond {
            OutsideValues::Zeros => "zeros",
            OutsideValues::Edge => "border",
            OutsideValues::Reflect => "reflection",
        };
        let attributes = vec![
            with::text("mode", mode),
            with::text("padding_mode", beyond),
            with::int("align_corners", i64::from(sample.corners)),
        ];
        self.push(node, "GridSample", attributes);
    }
}
