//! Where the time of one step went: a stopwatch with a lap for every operation and pass.

use crate::device::protocol::LayerTime;
use crate::device::sampling::LapSummary;
use crate::network::{Network, Op};
use crate::records::layers::Pass;
use std::time::{Duration, Instant};

/// The laps of one step. All its time lies in one of them, so that their sum is the step.
///
/// In order: forward of every node, backward of every node, loss, zero_grad, optimizer.
pub(super) struct Stopwatch {
    nodes: usize,
    began: Instant,
    spent: Vec<Duration>,
    ran: usize,
}

/// The laps behind those of the nodes.
const OTHERS: [Pass; 3] = [Pass::Loss, Pass::ZeroGrad, Pass::Optimizer];

impl Stopwatch {
    /// Starts with nothing spent, for a network of so many nodes.
    pub fn new(nodes: usize) -> Self {
        let spent = vec![Duration::ZERO; 2 * nodes + OTHERS.len()];
        Stopwatch { nodes, spent, ran: 0, began: Instant::now() }
    }

    /// How many nodes the network has.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The next node ran forward.
    pub fn forward(&mut self) {
        self.lap(self.ran);
        self.ran += 1;
    }

    /// This node ran backward.
    pub fn backward(&mut self, node: usize) {
        self.lap(self.nodes + node);
    }

    /// The loss, or its gradient, is computed.
    pub fn loss(&mut self) {
        self.lap(2 * self.nodes);
    }

    /// Gradients are zero.
    pub fn zero_grad(&mut self) {
        self.lap(2 * self.nodes + 1);
    }

    /// Parameters are updated.
    pub fn optimizer(&mut self) {
        self.lap(2 * self.nodes + 2);
    }

    /// The laps by now.
    pub fn into_laps(self) -> Vec<Duration> {
        self.spent
    }

    fn lap(&mut self, index: usize) {
        let now = Instant::now();
        self.spent[index] += now - self.began;
        self.began = now;
    }
}

/// Summarised laps by the names of their nodes. The input is no operation, and what took no time did not run: inference has no
/// backward.
pub(super) fn named(network: &Network, laps: &[LapSummary]) -> Vec<LayerTime> {
    let ran = |node: usize| !matches!(network.nodes()[node].op, Op::Input(_));
    let nodes = network.nodes().len();
    let lap = |(index, lap): (usize, &LapSummary)| {
        let (node, pass) = match index / nodes {
            0 => (Some(index), Pass::Forward),
            1 => (Some(index - nodes), Pass::Backward),
            _ => (None, OTHERS[index - 2 * nodes]),
        };
        let kept = node.is_none_or(ran) && lap.milliseconds > 0.0;
        let node = node.map(|node| network.nodes()[node].name.clone());
        kept.then_some(LayerTime { node, pass, milliseconds: lap.milliseconds, spread: lap.spread })
    };
    laps.iter().enumerate().filter_map(lap).collect()
}
