//! The kinds of exchanges, from the names that libraries and versions give them.

use std::fmt;

/// A kind of exchange between ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CollectiveOperation {
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
pub(crate) enum RootDirection {
    /// From one rank to all others.
    FromRoot,
    /// From all ranks to one.
    ToRoot,
}

/// Letters of a name, by which it is recognised; earlier rows first, because "allreduce" contains "reduce".
const LETTERS: [(&str, CollectiveOperation); 14] = [
    ("allreduce", CollectiveOperation::AllReduce),
    ("allgather", CollectiveOperation::AllGather),
    ("reducescatter", CollectiveOperation::ReduceScatter),
    ("alltoall", CollectiveOperation::AllToAll),
    ("broadcast", CollectiveOperation::Broadcast),
    ("barrier", CollectiveOperation::Barrier),
    ("sendrecv", CollectiveOperation::SendReceive),
    ("coalesced", CollectiveOperation::SendReceive),
    ("crossdevicereduce", CollectiveOperation::AllReduce),
    ("reduce", CollectiveOperation::Reduce),
    ("gather", CollectiveOperation::Gather),
    ("scatter", CollectiveOperation::Scatter),
    ("send", CollectiveOperation::Send),
    ("recv", CollectiveOperation::Receive),
];

impl CollectiveOperation {
    /// The operation of a name: `allreduce`, `_allgather_base_`, `ncclDevKernel_SendRecv`, `send 0->1`.
    pub fn from_name(name: &str) -> Self {
        // The arguments of a kernel are no part of its name.
        let name = name.split('(').next().unwrap_or_default();
        let letters: String = name.chars().filter(char::is_ascii_alphabetic).collect::<String>().to_ascii_lowercase();
        let known = LETTERS.iter().find(|(word, _)| letters.contains(word));
        known.map_or(CollectiveOperation::Other, |(_, operation)| *operation)
    }

    /// Its name in tables and files.
    pub fn label(self) -> &'static str {
        match self {
            CollectiveOperation::AllReduce => "all-reduce",
            CollectiveOperation::AllGather => "all-gather",
            CollectiveOperation::ReduceScatter => "reduce-scatter",
            CollectiveOperation::AllToAll => "all-to-all",
            CollectiveOperation::Broadcast => "broadcast",
            CollectiveOperation::Reduce => "reduce",
            CollectiveOperation::Gather => "gather",
            CollectiveOperation::Scatter => "scatter",
            CollectiveOperation::Barrier => "barrier",
            CollectiveOperation::Send => "send",
            CollectiveOperation::Receive => "receive",
            CollectiveOperation::SendReceive => "send and receive",
            CollectiveOperation::Other => "other",
        }
    }

    /// Whether no rank can finish before every rank began, so that all finish nearly together.
    pub fn synchronises(self) -> bool {
        match self {
            CollectiveOperation::AllReduce
            | CollectiveOperation::AllGather
            | CollectiveOperation::ReduceScatter
            | CollectiveOperation::AllToAll
            | CollectiveOperation::Barrier => true,
            CollectiveOperation::Broadcast
            | CollectiveOperation::Reduce
            | CollectiveOperation::Gather
            | CollectiveOperation::Scatter
            | CollectiveOperation::Send
            | CollectiveOperation::Receive
            | CollectiveOperation::SendReceive
            | CollectiveOperation::Other => false,
        }
    }

    /// Whether all ranks exchange tensors of the same size.
    pub(crate) fn is_even(self) -> bool {
        match self {
            CollectiveOperation::AllReduce
            | CollectiveOperation::AllGather
            | CollectiveOperation::ReduceScatter
            | CollectiveOperation::Broadcast
            | CollectiveOperation::Reduce
            | CollectiveOperation::Send
            | CollectiveOperation::Receive => true,
            CollectiveOperation::AllToAll
            | CollectiveOperation::Gather
            | CollectiveOperation::Scatter
            | CollectiveOperation::Barrier
            | CollectiveOperation::SendReceive
            | CollectiveOperation::Other => false,
        }
    }

    /// Whether one rank sends to all others, or all send to one; none for all other operations.
    pub(crate) fn direction(self) -> Option<RootDirection> {
        match self {
            CollectiveOperation::Broadcast | CollectiveOperation::Scatter => Some(RootDirection::FromRoot),
            CollectiveOperation::Reduce | CollectiveOperation::Gather => Some(RootDirection::ToRoot),
            CollectiveOperation::AllReduce
            | CollectiveOperation::AllGather
            | CollectiveOperation::ReduceScatter
            | CollectiveOperation::AllToAll
            | CollectiveOperation::Barrier
            | CollectiveOperation::Send
            | CollectiveOperation::Receive
            | CollectiveOperation::SendReceive
            | CollectiveOperation::Other => None,
        }
    }

    /// Whether only two ranks take part.
    pub fn is_between_two(self) -> bool {
        matches!(self, CollectiveOperation::Send | CollectiveOperation::Receive)
    }
}

impl fmt::Display for CollectiveOperation {
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
            (
                "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
                CollectiveOperation::AllReduce,
            ),
            (
                "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                CollectiveOperation::ReduceScatter,
            ),
            ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", CollectiveOperation::SendReceive),
            ("allreduce_coalesced", CollectiveOperation::AllReduce),
            ("_allgather_base_", CollectiveOperation::AllGather),
            ("alltoall_base_", CollectiveOperation::AllToAll),
            ("all_to_allv", CollectiveOperation::AllToAll),
            ("send 0->1", CollectiveOperation::Send),
            ("recv 0<-1", CollectiveOperation::Receive),
            ("coalesced", CollectiveOperation::SendReceive),
            ("wait", CollectiveOperation::Other),
        ];
        names
            .into_iter()
            .for_each(|(name, operation)| assert_eq!(CollectiveOperation::from_name(name), operation, "{name}"));
    }
}
