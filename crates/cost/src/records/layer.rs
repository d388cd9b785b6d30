//! A row with the time of one operation inside the step of its network.

use super::dialect::{NONE, begins_formula, ends_cell};
use super::record::RowRecord;
use perf4sight_step::workload::StepPart;

/// An operation that was timed one by one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LayerOperation {
    /// The node's name in the network file, as [`node_cell`] writes it.
    pub node: String,
    /// Its operation by kind: `conv`, `batch-norm`, ...
    pub op: String,
    /// Shapes of its inputs for one sample.
    pub inputs: Vec<Vec<usize>>,
    /// Shape of its output for one sample.
    pub output: Vec<usize>,
    /// Weights that training changes.
    pub parameters: u64,
}

/// The time of one operation in one pass, or of a part of the step outside all operations.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerRecord {
    /// Its latency. Of an operation, the mean over the middle half of the steps, so that the operations add up to a
    /// step; of the plain step, the median.
    pub record: RowRecord,
    /// The operation; none for loss, zero_grad, optimizer and the whole step.
    pub operation: Option<LayerOperation>,
    /// The pass of the step that it belongs to.
    pub pass: StepPart,
}

/// A node's name as it is written to a row: `/` replaces characters that would end a cell or row, and precedes a name
/// that would otherwise be parsed as something else.
pub fn node_cell(name: &str) -> String {
    let cell = name.replace(ends_cell, "/");
    if cell == NONE || begins_formula(&cell) { format!("/{cell}") } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nodes_name_is_one_cell_and_no_formula() {
        let cells = ["/features/conv", "a|b", "a\nb\u{1b}", "=1+1", "None"].map(node_cell);
        assert_eq!(cells, ["/features/conv", "a/b", "a/b/", "/=1+1", "/None"]);
    }
}
