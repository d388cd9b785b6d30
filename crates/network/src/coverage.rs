//! How much of a network is supported: unsupported operations are counted, with the parameters they hold.

use super::graph::Network;
use super::op::Op;
use std::collections::BTreeMap;

/// How many operations of a network are supported, and the others by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationCoverage {
    /// Operations, the input not counted.
    pub operations: usize,
    /// Those that are not supported, by their name in the file.
    pub unknown: BTreeMap<String, UnsupportedOperation>,
    /// How many of those are recurrent layers, which no worker runs, but whose cost and memory are known.
    pub recurrent: usize,
}

/// The unsupported operations of one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnsupportedOperation {
    /// How many there are.
    pub operations: usize,
    /// Elements of the weights they read.
    pub parameters: u64,
}

impl OperationCoverage {
    /// Whether every operation is supported.
    pub fn is_full(&self) -> bool {
        self.unknown.is_empty()
    }

    /// Number of supported operations.
    pub fn supported(&self) -> usize {
        self.operations - self.unknown.values().map(|missed| missed.operations).sum::<usize>()
    }
}

impl Network {
    /// How much of the network is supported.
    pub fn coverage(&self) -> OperationCoverage {
        let mut unknown: BTreeMap<String, UnsupportedOperation> = BTreeMap::new();
        let mut recurrent = 0;
        for node in self.nodes() {
            if let Op::Unknown(operation) = &node.op {
                let missed = unknown.entry(operation.op_type.clone()).or_default();
                missed.operations += 1;
                missed.parameters += operation.parameters;
                recurrent += usize::from(operation.is_recurrent());
            }
        }
        let operations = self.nodes().iter().filter(|node| !matches!(node.op, Op::Input(_))).count();
        OperationCoverage { operations, unknown, recurrent }
    }
}
