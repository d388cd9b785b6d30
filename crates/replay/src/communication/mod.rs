//! How long collective operations take: latency and time per byte of each process group, fitted from traces or read from
//! a table of nccl-tests.

mod fit;
mod periods;
mod shape;
mod slow_down;
mod table;

pub use fit::fit;
pub use shape::{CollectiveAlgorithm, MessageShape, shape};
pub use slow_down::OverlapSlowDown;
pub use table::cost_of_table;

use crate::collectives::CollectiveOperation;

/// A value with the interval that holds the true one in 95 of 100 cases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostEstimate {
    /// The best guess.
    pub value: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

/// The cost of operations of one group: `latency * messages + per_byte * bytes`, with messages and bytes of [`shape`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupCost {
    /// Nanoseconds of a message (alpha).
    pub latency: CostEstimate,
    /// Why the latency is not known; none where it is. It is then assumed, and its interval goes from nothing to three times that, by NCCL
    /// to 20 us at least.
    pub unknown_latency: Option<UnknownLatency>,
    /// Nanoseconds per byte (beta).
    pub per_byte: CostEstimate,
    /// Nanoseconds per byte between ranks of one node; none where that is not known, and taken for `per_byte`.
    pub per_byte_within_node: Option<f64>,
}

/// Why recorded operations do not show how long a message takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownLatency {
    /// All have nearly the same size: a factor of less than 2 apart.
    OneSize,
    /// They have several sizes, but run at the same time, so that what each of them takes is not known.
    Overlapping,
    /// They may wait for ranks without a trace.
    RanksWithoutTrace,
}

impl UnknownLatency {
    /// The operations that do not show it.
    pub fn operations(self) -> &'static str {
        match self {
            UnknownLatency::OneSize => "operations whose sizes differ by less than a factor of 2",
            UnknownLatency::Overlapping => "operations that run at the same time",
            UnknownLatency::RanksWithoutTrace => "operations that may wait for ranks without a trace",
        }
    }

    /// What to record for it to show.
    pub fn remedy(self) -> &'static str {
        match self {
            UnknownLatency::OneSize => "record operations of several sizes",
            UnknownLatency::Overlapping => "record steps whose operations run one after the other",
            UnknownLatency::RanksWithoutTrace => "add the traces of the other ranks",
        }
    }
}

/// The costs of all groups of a step, in the order of [`StepGraph::groups`](crate::graph::StepGraph::groups).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CommunicationCosts {
    /// The algorithm whose shapes the costs are factors of.
    pub algorithm: CollectiveAlgorithm,
    /// None for a group without a transfer whose size is known.
    pub groups: Vec<Option<GroupCost>>,
    /// Other costs that fit the traces as well: with the least and the greatest latency, and where that was fitted with the greatest and the
    /// least time per byte.
    pub alternatives: Vec<Vec<Option<GroupCost>>>,
    /// Costs that fit the traces as well with latencies that are unusual, up to ten times the greatest of the alternatives, in ascending order;
    /// none where all latencies are known.
    pub slower_messages: Vec<Vec<Option<GroupCost>>>,
    /// What communication costs operations that run at the same time.
    pub slow_down: OverlapSlowDown,
}

impl GroupCost {
    /// Nanoseconds of an operation.
    pub fn time(&self, shape: MessageShape) -> f64 {
        self.latency.value * shape.messages + self.time_of_bytes(shape)
    }

    /// Nanoseconds of an operation's bytes, without its messages.
    pub fn time_of_bytes(&self, shape: MessageShape) -> f64 {
        let within = self.per_byte_within_node.unwrap_or(self.per_byte.value);
        self.per_byte.value * shape.bytes + within * shape.bytes_within_node
    }
}

impl CommunicationCosts {
    /// Nanoseconds of an operation of a group of so many ranks; none if the cost of the group is not known.
    pub fn time(&self, group: usize, operation: CollectiveOperation, ranks: u32, bytes: u64) -> Option<f64> {
        let cost = self.groups.get(group)?.as_ref()?;
        Some(cost.time(shape(operation, self.algorithm, ranks, bytes)))
    }
}
