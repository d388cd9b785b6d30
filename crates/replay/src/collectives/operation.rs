//! The kinds of exchanges, from the names that libraries and versions give them.

use std::fmt;

/// A kind of exchange between ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Every rank gets the reduction of all.
    AllReduce,
    /// Every rank gets the parts of all.
    AllGather,
    /// Every rank gets its part of the reduction.
    ReduceScatter,
    /// Every rank sends a part to every other.
    AllToAll,
    /// One rank sends to all.
    Broadcast,
    /// One rank gets the reduction.
    Reduce,
    /// One rank gets all parts.
    Gather,
    /// One rank sends a part to each.
    Scatter,
    /// Every rank waits for all.
    Barrier,
    /// One rank sends to another.
    Send,
    /// One rank receives from another.
    Receive,
    /// Sends and receives that were enqueued together, such as those of `batch_isend_irecv`.
    SendReceive,
    /// Any other.
    Other,
}

/// Where the data of an operation with a root goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From one rank to all others.
    FromRoot,
    /// From all ranks to one.
    ToRoot,
}

/// Letters of a name, by which it is recognised; earlier rows first, because "allreduce" contains "reduce".
const LETTERS: [(&str, Operation); 14] = [
    ("allreduce", Operation::AllReduce),
    ("allgather", Operation::AllGather),
    ("reducescatter", Operation::ReduceScatter),
    ("alltoall", Operation::AllToAll),
    ("broadcast", Operation::Broadcast),
    ("barrier", Operation::Barrier),
    ("sendrecv", Operation::SendReceive),
    ("coalesced", Operation::SendReceive),
    ("crossdevicereduce", Operation::AllReduce),
    ("reduce", Operation::Reduce),
    ("gather", Operation::Gather),
    ("scatter", Operation::Scatter),
    ("send", Operation::Send),
    ("recv", Operation::Receive),
];

impl Operation {
    /// The operation of a name: `allreduce`, `_allgather_base_`, `ncclDevKernel_SendRecv`, `send 0->1`.
    pub fn named(name: &str) -> Self {
        // The arguments of a kernel are no part of its name.
        let name = name.split('(').next().unwrap_or_default();
        let letters: String = name.chars().filter(char::is_ascii_alphabetic).collect::<String>().to_ascii_lowercase();
        let known = LETTERS.iter().find(|(word, _)| letters.contains(word));
        known.map_or(Operation::Other, |(_, operation)| *operation)
    }

    /// Its name in tables and files.
    pub fn label(self) -> &'static str {
        match self {
            Operation::AllReduce => "all-reduce",
            Operation::AllGather => "all-gather",
            Operation::ReduceScatter => "reduce-scatter",
            Operation::AllToAll => "all-to-all",
            Operation::Broadcast => "broadcast",
            Operation::Reduce => "reduce",
            Operation::Gather => "gather",
            Operation::Scatter => "scatter",
            Operation::Barrier => "barrier",
            Operation::Send => "send",
            Operation::Receive => "receive",
            Operation::SendReceive => "send and receive",
            Operation::Other => "other",
        }
    }

    /// Whether no rank can finish before every rank began, so that all finish nearly together.
    pub fn synchronises(self) -> bool {
        match self {
            Operation::AllReduce
            | Operation::AllGather
            | Operation::ReduceScatter
            | Operation::AllToAll
            | Operation::Barrier => true,
            Operation::Broadcast
            | Operation::Reduce
            | Operation::Gather
            | Operation::Scatter
            | Operation::Send
            | Operation::Receive
            | Operation::SendReceive
            | Operation::Other => false,
        }
    }

    /// Whether all ranks exchange tensors of the same size.
    pub(crate) fn is_even(self) -> bool {
        match self {
            Operation::AllReduce
            | Operation::AllGather
            | Operation::ReduceScatter
            | Operation::Broadcast
            | Operation::Reduce
            | Operation::Send
            | Operation::Receive => true,
            Operation::AllToAll
            | Operation::Gather
            | Operation::Scatter
            | Operation::Barrier
            | Operation::SendReceive
            | Operation::Other => false,
        }
    }

    /// Whether one rank sends to all others, or all send to one; none for all other operations.
    pub(crate) fn direction(self) -> Option<Direction> {
        match self {
            Operation::Broadcast | Operation::Scatter => Some(Direction::FromRoot),
            Operation::Reduce | Operation::Gather => Some(Direction::ToRoot),
            Operation::AllReduce
            | Operation::AllGather
            | Operation::ReduceScatter
            | Operation::AllToAll
            | Operation::Barrier
            | Operation::Send
            | Operation::Receive
            | Operation::SendReceive
            | Operation::Other => None,
        }
    }

    /// Whether only two ranks take part.
    pub fn is_between_two(self) -> bool {
        matches!(self, Operation::Send | Operation::Receive)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that PyTorch 1.8 to 2.13, NCCL 2.7 to 2.27 and RCCL write.
    #[test]
    fn names_of_all_versions_are_known() {
        let names = [
            ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)", Operation::AllReduce),
            (
                "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                Operation::ReduceScatter,
            ),
            ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", Operation::SendReceive),
            ("allreduce_coalesced", Operation::AllReduce),
            ("_allgather_base_", Operation::AllGather),
            ("alltoall_base_", Operation::AllToAll),
            ("all_to_allv", Operation::AllToAll),
            ("send 0->1", Operation::Send),
            ("recv 0<-1", Operation::Receive),
            ("coalesced", Operation::SendReceive),
            ("wait", Operation::Other),
        ];
        names.into_iter().for_each(|(name, operation)| assert_eq!(Operation::named(name), operation, "{name}"));
    }
}
