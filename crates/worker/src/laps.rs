//! Where the time of one step went: a stopwatch with a lap for every operation and pass.

use super::clock::{ClockMark, StepClock};
use perf4sight_network::{Network, Op};
use perf4sight_step::protocol::LayerTime;
use perf4sight_step::sampling::LapSummary;
use perf4sight_step::workload::StepPart;
use std::time::Duration;
use tch::TchError;

/// The laps of one step. Each moment belongs to exactly one lap, so that their sum is the step.
///
/// In order: forward of every node, backward of every node, loss, zero_grad, optimizer.
pub(super) struct Stopwatch {
    clock: StepClock,
    nodes: usize,
    ran: usize,
    began: ClockMark,
    /// The lap and the moment of its end; on a GPU the durations are known only when it has passed the events.
    ended: Vec<(usize, ClockMark)>,
}

/// The laps after those of the nodes.
const OTHERS: [StepPart; 3] = [StepPart::Loss, StepPart::ZeroGrad, StepPart::Optimizer];

impl Stopwatch {
    /// Starts with no time spent, for a network of that many nodes.
    pub fn new(nodes: usize, clock: StepClock) -> Result<Self, TchError> {
        let ended = Vec::with_capacity(2 * (nodes + OTHERS.len()));
        Ok(Stopwatch { clock, nodes, ran: 0, began: clock.now()?, ended })
    }

    /// How many nodes the network has.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The next node ran forward.
    pub fn forward(&mut self) -> Result<(), TchError> {
        // In as many passes as there are.
        self.ran += 1;
        self.lap((self.ran - 1) % self.nodes)
    }

    pub fn backward(&mut self, node: usize) -> Result<(), TchError> {
        self.lap(self.nodes + node)
    }

    /// The loss, or its gradient, is computed.
    pub fn loss(&mut self) -> Result<(), TchError> {
        self.lap(2 * self.nodes)
    }

    pub fn zero_grad(&mut self) -> Result<(), TchError> {
        self.lap(2 * self.nodes + 1)
    }

    /// Parameters are updated.
    pub fn optimizer(&mut self) -> Result<(), TchError> {
        self.lap(2 * self.nodes + 2)
    }

    /// The laps of a step whose work is finished.
    pub fn into_laps(self) -> Result<Vec<Duration>, TchError> {
        let mut spent = vec![Duration::ZERO; 2 * self.nodes + OTHERS.len()];
        let mut began = &self.began;
        for (lap, end) in &self.ended {
            spent[*lap] += end.since(began)?;
            began = end;
        }
        Ok(spent)
    }

    fn lap(&mut self, index: usize) -> Result<(), TchError> {
        self.ended.push((index, self.clock.now()?));
        Ok(())
    }
}

/// Summarised laps by the names of their nodes. The input is no operation, and laps of zero time did not run: inference
/// has no backward.
pub(super) fn lap_times(network: &Network, laps: &[LapSummary]) -> Vec<LayerTime> {
    let ran = |node: usize| !matches!(network.nodes()[node].op, Op::Input(_));
    let nodes = network.nodes().len();
    let lap = |(index, lap): (usize, &LapSummary)| {
        let (node, pass) = match index / nodes {
            0 => (Some(index), StepPart::Forward),
            1 => (Some(index - nodes), StepPart::Backward),
            _ => (None, OTHERS[index - 2 * nodes]),
        };
        let kept = node.is_none_or(ran) && lap.milliseconds > 0.0;
        let node = node.map(|node| network.nodes()[node].name.clone());
        kept.then_some(LayerTime { node, pass, milliseconds: lap.milliseconds, spread: lap.spread })
    };
    laps.iter().enumerate().filter_map(lap).collect()
}
