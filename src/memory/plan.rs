//! Everything about a step that is known before it runs: the rule of every operation, who reads whom, who needs gradients.

use super::operations::{Place, rule};
use super::rule::Rule;
use crate::network::Network;
use crate::target::Target;
use crate::workload::Step;

/// A network's step on a device.
pub(super) struct Plan<'a> {
    pub network: &'a Network,
    pub target: &'a Target,
    pub step: Step,
    /// Per node.
    pub rules: Vec<Rule>,
    /// Whether the gradient of a node's result is asked for.
    pub tracked: Vec<bool>,
    /// How many times a node's result is read in forward; the network's result once more.
    pub reads: Vec<usize>,
}

impl<'a> Plan<'a> {
    pub fn new(network: &'a Network, step: Step, target: &'a Target) -> Self {
        let tracked = network.gradients();
        let (training, in_place) = (step.trains(), network.in_place());
        let places = network.nodes().iter().zip(in_place).map(|(node, in_place)| Place {
            network,
            node,
            target,
            training,
            in_place,
            tracked: &tracked,
        });
        let rules = places.map(rule).collect();
        let mut reads: Vec<usize> = network.readers().iter().map(Vec::len).collect();
        reads[network.output().index()] += 1;
        Plan { network, target, step, rules, tracked, reads }
    }
}
