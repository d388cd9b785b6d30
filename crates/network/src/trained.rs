//! A network as steps of different kinds train and cut it: what follows from that for every node, found once.

use super::graph::{Network, NodeId};
use perf4sight_base::cache::Cache;
use perf4sight_step::workload::{Checkpoint, Trainable};
use std::borrow::Cow;
use std::sync::Arc;

/// A network of which a part is trained.
#[derive(Debug)]
pub struct Trained<'a> {
    /// It, with what is not trained frozen.
    pub network: Cow<'a, Network>,
    /// For every node, whether the gradient of its result is computed.
    pub gradients: Vec<bool>,
    /// For every node, whether it overwrites its input.
    pub in_place: Vec<bool>,
    /// For every node, how many times others read it.
    pub reads: Vec<usize>,
}

/// All that of one network may be trained, and all places where it may be cut, each computed when it is first used.
#[derive(Debug)]
pub struct Trainings<'a> {
    network: &'a Network,
    trained: Cache<Trainable, Trained<'a>>,
    cuts: Cache<Checkpoint, Vec<NodeId>>,
}

impl<'a> Trained<'a> {
    /// A network of which this is trained.
    pub fn new(network: &'a Network, trainable: Trainable) -> Self {
        let (in_place, network) = (network.in_place(), network.trained_in(trainable));
        Trained { gradients: network.gradients(), in_place, reads: network.reads(), network }
    }
}

impl<'a> Trainings<'a> {
    /// Of which nothing is known yet.
    pub fn new(network: &'a Network) -> Self {
        Trainings { network, trained: Cache::default(), cuts: Cache::default() }
    }

    /// The network of which this is trained.
    pub fn of(&self, trainable: Trainable) -> Arc<Trained<'a>> {
        self.trained.of(trainable, || Trained::new(self.network, trainable))
    }

    /// The nodes behind which a step cuts it.
    pub fn cuts(&self, checkpoint: Checkpoint) -> Arc<Vec<NodeId>> {
        self.cuts.of(checkpoint, || self.network.cuts(checkpoint))
    }
}
