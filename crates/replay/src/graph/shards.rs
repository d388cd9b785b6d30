//! By which transfers FSDP gathers shards of parameters.

use super::{StepGraph, TransferPart};
use crate::collectives::CollectiveOperation;

/// Names of what FSDP gathers shards inside: those of `fully_shard`, and of the module of the first version. Others gather as well, but no
/// parameters.
const FSDP: [&str; 2] = ["fsdp::", "fullyshardeddataparallel"];

impl StepGraph {
    /// The places in [`StepGraph::transfers`] of those by which FSDP gathers shards.
    pub fn gathers_of_shards(&self) -> Vec<usize> {
        let is_fsdp = |part: &TransferPart| {
            let mut path = self.graph.calls().path(self.graph.node(part.issuing.0).call);
            path.any(|name| FSDP.iter().any(|known| name.to_ascii_lowercase().contains(known)))
        };
        let is_gather = |place: &usize| {
            let transfer = &self.transfers[*place];
            transfer.operation == CollectiveOperation::AllGather && transfer.parts.iter().any(is_fsdp)
        };
        (0..self.transfers.len()).filter(is_gather).collect()
    }

    /// Whether FSDP shards the parameters: it reduces what it shards together, and has no buckets to choose.
    pub fn is_sharded(&self) -> bool {
        !self.gathers_of_shards().is_empty()
    }
}
