//! A network on a device whose parameters are known: the time of a step, and of its parts.

use super::step::{Launches, together};
use super::terms::{Rules, Values};
use crate::features::physical::{Class, Kernel, kernels};
use crate::network::{Network, NodeId};
use crate::target::Parameter;
use crate::workload::Stage;

/// One network's kernels and the device they run on.
#[derive(Debug, Clone)]
pub(super) struct Physics<'a> {
    rules: Rules<'a>,
    values: Values,
    kernels: Vec<Kernel>,
    launches: Launches,
}

/// Milliseconds of a step by what it is spent on.
pub(super) struct Parts {
    /// By class, in the order of [`Class::ALL`].
    pub(super) classes: [f64; Class::ALL.len()],
    /// By node, in the order they run; the loss belongs to none.
    pub(super) nodes: Vec<(NodeId, f64)>,
}

impl<'a> Physics<'a> {
    pub(super) fn new(rules: Rules<'a>, values: Values, network: &Network, stage: Stage) -> Self {
        let kernels = kernels(network, stage);
        Physics { rules, values, launches: Launches::of(&kernels), kernels }
    }

    /// Milliseconds of a step of `batch` samples; more samples never take less.
    pub(super) fn time(&self, batch: f64) -> f64 {
        let work: f64 = self.kernels.iter().map(|kernel| self.rules.time(kernel, batch, &self.values)).sum();
        let [pace, step] = [Parameter::Pace, Parameter::Step].map(|parameter| self.values[parameter as usize]);
        together(work * pace, self.launches.time(&self.values), self.rules.speed.overlap) + step
    }

    /// What the time of a step is spent on.
    pub(super) fn parts(&self, batch: f64) -> Parts {
        let pace = self.values[Parameter::Pace as usize];
        let (mut classes, mut nodes) = ([0.0; _], Vec::<(NodeId, f64)>::new());
        for kernel in &self.kernels {
            let time = pace * self.rules.time(kernel, batch, &self.values);
            classes[kernel.class as usize] += time;
            match nodes.last_mut() {
                _ if kernel.class == Class::Loss => {}
                Some((node, sum)) if *node == kernel.node => *sum += time,
                _ => nodes.push((kernel.node, time)),
            }
        }
        Parts { classes, nodes }
    }
}
