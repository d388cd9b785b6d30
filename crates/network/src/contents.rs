//! The values of a network's inputs in a step.

use super::graph::{Network, NodeId};
use super::op::{ElementKind, Op, OperationNature};

/// The values that an input is filled with; the exact numbers do not change the cost of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputContents {
    /// Random numbers from 0 to 1.
    Numbers,
    /// Random integers from 0 to below this one: numbers of rows of a table.
    Below(usize),
    /// Ones and truths: masks that keep everything.
    Ones,
}

impl Network {
    /// The values for one of its inputs. Integers that are looked up in tables are rows of the smallest of them; other integers
    /// and truths are masks that keep everything.
    pub fn contents(&self, input: NodeId) -> InputContents {
        match self.node(input).element {
            ElementKind::Number => InputContents::Numbers,
            ElementKind::Truth => InputContents::Ones,
            ElementKind::Integer => self.smallest_table(input).map_or(InputContents::Ones, InputContents::Below),
        }
    }

    /// Rows of the smallest table that integers are looked up in, directly or after movements to another order or shape.
    fn smallest_table(&self, input: NodeId) -> Option<usize> {
        let mut holds = vec![false; self.nodes().len()];
        holds[input.index()] = true;
        let mut rows: Option<usize> = None;
        for (id, node) in self.iter() {
            if !node.inputs.iter().any(|input| holds[input.index()]) {
                continue;
            }
            if let Op::Embedding(embedding) = &node.op {
                rows = Some(rows.map_or(embedding.rows, |rows| rows.min(embedding.rows)));
            }
            // The result of arithmetic is no row number any more; padding and sums change it.
            let moves = self.facts(node).nature == OperationNature::Movement;
            holds[id.index()] = moves && !matches!(node.op, Op::Cast(_) | Op::Pad { .. } | Op::Fold(_));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Embedding, NetworkBuilder, NetworkInput, ReductionKind, Shape};

    #[test]
    fn ids_lie_within_the_smallest_table_and_masks_keep_everything() {
        let mut builder = NetworkBuilder::reading("words", "ids", NetworkInput::integers(Shape::new([8])));
        let mask = builder.add("mask", Op::Input(NetworkInput::integers(Shape::new([8, 1]))), &[]).unwrap();
        let image = builder.add("image", Op::Input(Shape::new([8, 4]).into()), &[]).unwrap();
        let table = |rows| Op::Embedding(Embedding { rows, width: 4, fixed: None });
        let words = builder.add("words", table(100), &[builder.input()]).unwrap();
        let half = builder.add("half", Op::Slice { axis: 0, start: 0, length: 1 }, &[builder.input()]).unwrap();
        let kinds = builder.add("kinds", table(30), &[half]).unwrap();
        let kept = builder.add("kept", Op::Cast(ElementKind::Number), &[mask]).unwrap();
        let mut sum = words;
        for (name, other) in [("a", kinds), ("b", kept), ("c", image)] {
            let op = if name == "b" { crate::BinaryFunction::Mul } else { crate::BinaryFunction::Add };
            sum = builder.add(name, Op::Binary(op), &[sum, other]).unwrap();
        }
        let mean = Op::Reduce { reduction: ReductionKind::Mean, axes: vec![0], keep: false };
        let mean = builder.add("mean", mean, &[sum]).unwrap();
        let network = builder.finish(mean);
        let contents = network.inputs().map(|(id, _, _)| network.contents(id));
        assert_eq!(
            contents.collect::<Vec<_>>(),
            [InputContents::Below(30), InputContents::Ones, InputContents::Numbers]
        );
    }
}
