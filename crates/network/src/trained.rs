//! A network as different steps train and cut it: gradients, in-place operations and cuts of every node, computed once.

use super::graph::{Network, NodeId};
use perf4sight_base::cache::Cache;
use perf4sight_step::workload::{Checkpoint, Trainable};
use std::borrow::Cow;
use std::sync::Arc;

/// A network that is trained in part.
#[derive(Debug)]
pub struct TrainedNetwork<'a> {
    /// The network, with all untrained weights frozen.
    pub network: Cow<'a, Network>,
    /// For every node, whether the gradient of its result is computed.
    pub gradients: Vec<bool>,
    /// For every node, whether it overwrites its input.
    pub in_place: Vec<bool>,
    /// For every node, how many times other nodes read it.
    pub reads: Vec<usize>,
}

/// The partly trained variants of one network, and its cuts; each is computed at its first use.
#[derive(Debug)]
pub struct TrainedNetworks<'a> {
    network: &'a Network,
    trained: Cache<Trainable, TrainedNetwork<'a>>,
    cuts: Cache<Checkpoint, Vec<NodeId>>,
}

impl<'a> TrainedNetwork<'a> {
    /// The network with only this part trained.
    pub fn new(network: &'a Network, trainable: Trainable) -> Self {
        let (in_place, network) = (network.in_place(), network.trained_in(trainable));
        TrainedNetwork { gradients: network.gradients(), in_place, reads: network.read_counts(), network }
    }
}

impl<'a> TrainedNetworks<'a> {
    /// Nothing is computed yet.
    pub fn new(network: &'a Network) -> Self {
        TrainedNetworks { network, trained: Cache::default(), cuts: Cache::default() }
    }

    /// The network with only this part trained, computed at most once.
    pub fn for_trainable(&self, trainable: Trainable) -> Arc<TrainedNetwork<'a>> {
        self.trained.get_or_compute(trainable, || TrainedNetwork::new(self.network, trainable))
    }

    /// The nodes after which a step cuts it.
    pub fn cuts(&self, checkpoint: Checkpoint) -> Arc<Vec<NodeId>> {
        self.cuts.get_or_compute(checkpoint, || self.network.cuts(checkpoint))
    }
}
