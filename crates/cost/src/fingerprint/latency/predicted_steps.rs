//! The predicted time of one step of one network, with every operation corrected.

use super::LatencyModel;
use super::NetworkSteps;
use super::layers::{self, OperationCorrections};
use super::physics::{PartTime, PhysicalModel, TimeBreakdown};
use crate::features::physical::{KernelClass, KernelPass};
use crate::fingerprint::prediction::{LatencyShare, LatencyShares, TimedOperation};
use crate::fingerprint::rows::MeasuredRow;
use perf4sight_base::cache::Cache;
use perf4sight_base::units::Milliseconds;
use perf4sight_network::Network;
use perf4sight_step::workload::Step;
use std::sync::Arc;

pub(in crate::fingerprint) struct PredictedSteps<'a> {
    pub(super) network: &'a Network,
    pub(super) corrections: &'a OperationCorrections,
    pub(super) physics: PhysicalModel<'a>,
    timed: Cache<u64, (Vec<PartTime>, TimeBreakdown)>,
    passes: Cache<u64, PassTimes>,
}

/// Milliseconds of every pass of every operation; zero for a pass that it does not have.
pub(super) type PassTimes = Vec<[f64; KernelPass::COUNT]>;

impl<'a> PredictedSteps<'a> {
    pub(super) fn new(latency: &'a LatencyModel, steps: &NetworkSteps<'a>, step: Step) -> Self {
        let (corrections, physics) = (&latency.corrections, latency.physics(step, steps));
        PredictedSteps {
            network: steps.network,
            corrections,
            physics,
            timed: Cache::default(),
            passes: Cache::default(),
        }
    }

    fn part_times(&self, batch: u64) -> Arc<(Vec<PartTime>, TimeBreakdown)> {
        self.timed.get_or_compute(batch, || {
            let timed = self.physics.part_times(self.corrections, batch as f64);
            let spent = self.physics.breakdown(&timed);
            (timed, spent)
        })
    }

    /// Predicted milliseconds, with every operation corrected.
    pub(super) fn milliseconds(&self, batch: u64) -> f64 {
        self.part_times(batch).1.corrected
    }

    /// Shares of a step's time in kernels with narrow numbers, by kind of kernel.
    pub(super) fn narrow_shares(&self, batch: u64) -> [f64; 2] {
        self.physics.narrow_shares(&self.part_times(batch).0)
    }

    /// Milliseconds of every pass of every operation, corrected.
    pub(super) fn passes(&self, batch: u64) -> Arc<PassTimes> {
        self.passes.get_or_compute(batch, || self.physics.passes(self.network, &self.part_times(batch).0))
    }

    /// The breakdown of a step with this total time.
    pub(super) fn shares_of(&self, batch: u64, milliseconds: f64) -> LatencyShares {
        let classes = self.part_times(batch).1.classes;
        let scale = milliseconds / classes.iter().sum::<f64>();
        let share = |name: &str, time: f64| LatencyShare { name: name.to_owned(), latency: Milliseconds(time * scale) };
        let classes = KernelClass::ALL.into_iter().zip(classes).filter(|(_, time)| *time > 0.0);
        let nodes = self.physics.nodes(self.corrections, batch as f64).into_iter();
        let nodes = nodes.map(|(node, time)| share(&self.network.node(node).name, time));
        let costliest_first = |mut shares: Vec<LatencyShare>| {
            shares.sort_by(|a, b| b.latency.0.total_cmp(&a.latency.0));
            shares
        };
        LatencyShares {
            classes: costliest_first(classes.map(|(class, time)| share(class.name(), time)).collect()),
            layers: costliest_first(nodes.collect()),
        }
    }

    pub(super) fn operations(&self, row: &MeasuredRow) -> Vec<TimedOperation> {
        let batch = row.record.workload.batch as f64;
        let timed = |sample: layers::TimedKernels| {
            let physical = self.physics.isolated_time(sample.kernels, batch);
            let operation = self.physics.operation(sample.kernels, batch, physical);
            TimedOperation {
                class: sample.kernels[0].class.name(),
                measured: Milliseconds(sample.milliseconds),
                predicted: Milliseconds(physical * self.corrections.factor(operation)),
            }
        };
        layers::samples(row, self.physics.parts()).into_iter().map(timed).collect()
    }
}
