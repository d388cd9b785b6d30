//! What a collective operation sends: messages one after the other, and bytes over the link of a rank.

use crate::collectives::Operation;

/// How an operation is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// Each rank sends to the next one.
    Ring,
    /// Ranks form a binary tree.
    Tree,
    /// Rings within nodes of so many ranks, and one ring between the nodes for each rank of a node.
    Hierarchical {
        /// Ranks on one node.
        ranks_per_node: u32,
    },
}

/// Messages and bytes of an operation, as factors of latency and of the time per byte.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Messages that have to wait for each other.
    pub messages: f64,
    /// Bytes that each rank sends.
    pub bytes: f64,
}

/// The shape of an operation of `ranks` ranks, each of which passes in `bytes` bytes.
///
/// All-reduce by a ring takes 2 (N - 1) messages and 2 (N - 1) / N of the bytes, by a tree 2 log2 N messages and twice the
/// bytes (Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH, 2005); of a
/// hierarchical one the bytes between nodes count, of which each rank of a node sends its part.
///
/// ```
/// use perf4sight_replay::collectives::Operation;
/// use perf4sight_replay::communication::{Algorithm, shape};
/// let ring = shape(Operation::AllReduce, Algorithm::Ring, 4, 1000);
/// assert_eq!((ring.messages, ring.bytes), (6.0, 1500.0));
/// let tree = shape(Operation::AllReduce, Algorithm::Tree, 4, 1000);
/// assert_eq!((tree.messages, tree.bytes), (4.0, 2000.0));
/// ```
pub fn shape(operation: Operation, algorithm: Algorithm, ranks: u32, bytes: u64) -> Shape {
    let (ranks, bytes) = (f64::from(ranks.max(1)), bytes as f64);
    let [others, share] = [ranks - 1.0, (ranks - 1.0) / ranks];
    let levels = ranks.log2().ceil();
    match operation {
        Operation::AllReduce => all_reduce(algorithm, ranks, bytes),
        Operation::AllGather => Shape { messages: others, bytes: others * bytes },
        Operation::ReduceScatter | Operation::AllToAll => Shape { messages: others, bytes: share * bytes },
        Operation::Broadcast | Operation::Reduce => match algorithm {
            Algorithm::Tree => Shape { messages: levels, bytes },
            Algorithm::Ring | Algorithm::Hierarchical { .. } => Shape { messages: others, bytes },
        },
        Operation::Gather | Operation::Scatter => Shape { messages: others, bytes: others * bytes },
        Operation::Barrier => Shape { messages: levels, bytes: 0.0 },
        Operation::Send | Operation::Receive | Operation::SendReceive | Operation::Other => {
            Shape { messages: 1.0, bytes }
        }
    }
}

fn all_reduce(algorithm: Algorithm, ranks: f64, bytes: f64) -> Shape {
    match algorithm {
        Algorithm::Ring => Shape { messages: 2.0 * (ranks - 1.0), bytes: 2.0 * (ranks - 1.0) / ranks * bytes },
        Algorithm::Tree => Shape { messages: 2.0 * ranks.log2().ceil(), bytes: 2.0 * bytes },
        Algorithm::Hierarchical { ranks_per_node } => {
            let within = f64::from(ranks_per_node.max(1)).min(ranks);
            let nodes = (ranks / within).ceil();
            let messages = 2.0 * (within - 1.0) + 2.0 * (nodes - 1.0);
            Shape { messages, bytes: 2.0 * (nodes - 1.0) / nodes * bytes / within }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the formulas: 16 ranks on 2 nodes send 2 (2 - 1) / 2 of an eighth of the bytes between the nodes.
    #[test]
    fn shapes_follow_the_published_formulas() {
        let shapes = [
            (Operation::AllGather, Algorithm::Ring, 8, 7.0, 7000.0),
            (Operation::ReduceScatter, Algorithm::Ring, 8, 7.0, 875.0),
            (Operation::AllToAll, Algorithm::Ring, 8, 7.0, 875.0),
            (Operation::AllReduce, Algorithm::Tree, 9, 8.0, 2000.0),
            (Operation::AllReduce, Algorithm::Hierarchical { ranks_per_node: 8 }, 16, 16.0, 125.0),
            (Operation::Barrier, Algorithm::Ring, 8, 3.0, 0.0),
            (Operation::SendReceive, Algorithm::Ring, 8, 1.0, 1000.0),
            (Operation::AllReduce, Algorithm::Ring, 1, 0.0, 0.0),
        ];
        for (operation, algorithm, ranks, messages, bytes) in shapes {
            assert_eq!(
                shape(operation, algorithm, ranks, 1000),
                Shape { messages, bytes },
                "{operation} {algorithm:?}"
            );
        }
    }
}
