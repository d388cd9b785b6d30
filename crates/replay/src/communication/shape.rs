//! What a collective operation sends: messages one after the other, and bytes over the link of a rank.

use crate::collectives::CollectiveOperation;
use perf4sight_base::error::{Error, Result};

/// How an operation is done.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CollectiveAlgorithm {
    /// Each rank sends to the next one.
    #[default]
    Ring,
    /// Ranks form a binary tree.
    Tree,
    /// Rings within nodes of so many ranks, and one ring between the nodes for each rank of a node.
    Hierarchical {
        /// Ranks on one node.
        ranks_per_node: u32,
    },
}

impl CollectiveAlgorithm {
    /// The algorithms that have a name; a hierarchical one follows from the nodes.
    pub fn names() -> Vec<&'static str> {
        vec!["ring", "tree"]
    }

    /// The algorithm of a name.
    ///
    /// # Errors
    /// A word that is none of [`CollectiveAlgorithm::names`].
    pub fn parse(word: &str) -> Result<Self> {
        match word {
            "ring" => Ok(CollectiveAlgorithm::Ring),
            "tree" => Ok(CollectiveAlgorithm::Tree),
            _ => Err(Error::usage(format!("{word:?} is not an algorithm")).expected("ring or tree")),
        }
    }
}

/// Messages and bytes of an operation, as factors of latency and of the time per byte.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MessageShape {
    /// Messages that have to wait for each other.
    pub messages: f64,
    /// Bytes that each rank sends; of a hierarchical operation, those between nodes.
    pub bytes: f64,
    /// Bytes that each rank of a hierarchical operation sends within its node.
    pub bytes_within_node: f64,
}

impl MessageShape {
    /// The shape of an operation that does not distinguish between nodes.
    pub fn flat(messages: f64, bytes: f64) -> Self {
        MessageShape { messages, bytes, bytes_within_node: 0.0 }
    }
}

/// The shape of an operation of `ranks` ranks, each of which passes in `bytes` bytes.
///
/// All-reduce by a ring takes 2 (N - 1) messages and 2 (N - 1) / N of the bytes, by a tree 2 log2 N messages and twice the
/// bytes (Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH, 2005). A hierarchical
/// one of n ranks on each of m nodes scatters and gathers by rings within nodes, 2 (n - 1) / n of the bytes, and each rank
/// reduces its n-th part with those of the other nodes: on links of one speed that is as many bytes as of one ring.
///
/// ```
/// use perf4sight_replay::collectives::CollectiveOperation;
/// use perf4sight_replay::communication::{CollectiveAlgorithm, shape};
/// let ring = shape(CollectiveOperation::AllReduce, CollectiveAlgorithm::Ring, 4, 1000);
/// assert_eq!((ring.messages, ring.bytes), (6.0, 1500.0));
/// let tree = shape(CollectiveOperation::AllReduce, CollectiveAlgorithm::Tree, 4, 1000);
/// assert_eq!((tree.messages, tree.bytes), (4.0, 2000.0));
/// ```
pub fn shape(operation: CollectiveOperation, algorithm: CollectiveAlgorithm, ranks: u32, bytes: u64) -> MessageShape {
    let (ranks, bytes) = (f64::from(ranks.max(1)), bytes as f64);
    let [others, share] = [ranks - 1.0, (ranks - 1.0) / ranks];
    let levels = ranks.log2().ceil();
    match operation {
        CollectiveOperation::AllReduce => all_reduce(algorithm, ranks, bytes),
        CollectiveOperation::AllGather => MessageShape::flat(others, others * bytes),
        CollectiveOperation::ReduceScatter | CollectiveOperation::AllToAll => MessageShape::flat(others, share * bytes),
        CollectiveOperation::Broadcast | CollectiveOperation::Reduce => match algorithm {
            CollectiveAlgorithm::Tree => MessageShape::flat(levels, bytes),
            CollectiveAlgorithm::Ring | CollectiveAlgorithm::Hierarchical { .. } => MessageShape::flat(others, bytes),
        },
        CollectiveOperation::Gather | CollectiveOperation::Scatter => MessageShape::flat(others, others * bytes),
        CollectiveOperation::Barrier => MessageShape::flat(levels, 0.0),
        CollectiveOperation::Send
        | CollectiveOperation::Receive
        | CollectiveOperation::SendReceive
        | CollectiveOperation::Other => MessageShape::flat(1.0, bytes),
    }
}

fn all_reduce(algorithm: CollectiveAlgorithm, ranks: f64, bytes: f64) -> MessageShape {
    match algorithm {
        CollectiveAlgorithm::Ring => MessageShape::flat(2.0 * (ranks - 1.0), 2.0 * (ranks - 1.0) / ranks * bytes),
        CollectiveAlgorithm::Tree => MessageShape::flat(2.0 * ranks.log2().ceil(), 2.0 * bytes),
        CollectiveAlgorithm::Hierarchical { ranks_per_node } => {
            let within = f64::from(ranks_per_node.max(1)).min(ranks);
            let nodes = (ranks / within).ceil();
            MessageShape {
                messages: 2.0 * (within - 1.0) + 2.0 * (nodes - 1.0),
                bytes: 2.0 * (nodes - 1.0) / nodes * bytes / within,
                bytes_within_node: 2.0 * (within - 1.0) / within * bytes,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_follow_the_published_formulas() {
        let shapes = [
            (CollectiveOperation::AllGather, CollectiveAlgorithm::Ring, 8, 7.0, 7000.0),
            (CollectiveOperation::ReduceScatter, CollectiveAlgorithm::Ring, 8, 7.0, 875.0),
            (CollectiveOperation::AllToAll, CollectiveAlgorithm::Ring, 8, 7.0, 875.0),
            (CollectiveOperation::AllReduce, CollectiveAlgorithm::Tree, 9, 8.0, 2000.0),
            (CollectiveOperation::Barrier, CollectiveAlgorithm::Ring, 8, 3.0, 0.0),
            (CollectiveOperation::SendReceive, CollectiveAlgorithm::Ring, 8, 1.0, 1000.0),
            (CollectiveOperation::AllReduce, CollectiveAlgorithm::Ring, 1, 0.0, 0.0),
        ];
        for (operation, algorithm, ranks, messages, bytes) in shapes {
            assert_eq!(
                shape(operation, algorithm, ranks, 1000),
                MessageShape::flat(messages, bytes),
                "{operation} {algorithm:?}"
            );
        }
    }

    /// 16 ranks on 2 nodes send 2 (8 - 1) / 8 of the bytes within the nodes and 2 (2 - 1) / 2 of an eighth of them between: together
    /// 2 (16 - 1) / 16, as a ring of 16.
    #[test]
    fn a_hierarchical_operation_sends_as_many_bytes_as_a_ring() {
        let hierarchical =
            shape(CollectiveOperation::AllReduce, CollectiveAlgorithm::Hierarchical { ranks_per_node: 8 }, 16, 1000);
        assert_eq!(hierarchical, MessageShape { messages: 16.0, bytes: 125.0, bytes_within_node: 1750.0 });
        assert_eq!(shape(CollectiveOperation::AllReduce, CollectiveAlgorithm::Ring, 16, 1000).bytes, 1875.0);
    }
}
