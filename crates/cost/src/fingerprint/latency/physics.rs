//! A network on a device with known parameters: the time of a step, and of its parts.

use super::layers::{OperationCorrections, PhysicalOperation};
use super::narrow::{self, NarrowFactors};
use super::parts::{NetworkSteps, PartKind, StepParts};
use super::predicted_steps::PassTimes;
use super::step::{LaunchCounts, StepTime, combined_time};
use super::term::ParameterValues;
use super::terms::DeviceRules;
use crate::features::physical::{Kernel, KernelClass};
use perf4sight_network::{Network, NodeId};
use perf4sight_platform::SpeedParameter;
use perf4sight_step::workload::Step;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// One network's kernels and the device they run on.
#[derive(Debug, Clone)]
pub(super) struct PhysicalModel<'a> {
    rules: DeviceRules<'a>,
    values: ParameterValues,
    /// The speed at the step's precision, where the step uses a narrow one and it was measured.
    narrow: Option<NarrowFactors>,
    parts: StepParts,
    launches: LaunchCounts,
    /// Batch sizes at which another library takes over, and milliseconds of half of each, computed on demand: lower
    /// bounds of the time from these sizes on.
    turns: Vec<(f64, OnceLock<f64>)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct PartTime {
    kernels: Vec<f64>,
    /// The time of all of them, with launches.
    physical: f64,
    factor: f64,
}

/// The breakdown of a step's time.
pub(super) struct TimeBreakdown {
    /// Milliseconds of the step, every operation corrected.
    pub(super) corrected: f64,
    /// Corrected milliseconds of the kernels by class, in the order of [`KernelClass::ALL`].
    pub(super) classes: [f64; KernelClass::ALL.len()],
}

impl<'a> PhysicalModel<'a> {
    pub(super) fn new(rules: DeviceRules<'a>, values: ParameterValues, network: &Network, step: Step) -> Self {
        PhysicalModel::for_step(rules, values, &NetworkSteps::new(network), step)
    }

    pub(super) fn for_step(rules: DeviceRules<'a>, values: ParameterValues, steps: &NetworkSteps, step: Step) -> Self {
        let parts = StepParts::from_network_steps(steps, step);
        let launches = LaunchCounts::count(parts.kernels());
        let mut physics = PhysicalModel { rules, values, narrow: None, launches, parts, turns: Vec::new() };
        physics.find_turns(step);
        physics
    }

    /// The same step with a known speed at its narrow precision.
    pub(super) fn with(mut self, narrow: Option<NarrowFactors>) -> Self {
        if narrow == self.narrow {
            return self;
        }
        self.narrow = narrow;
        self.turns.iter_mut().for_each(|(_, half)| *half = OnceLock::new());
        self
    }

    fn find_turns(&mut self, step: Step) {
        let rules = self.rules;
        let turns = rules.processor().map(|processor| [2.0, processor.library_from()]).into_iter().flatten();
        // Each pass has its share of the samples.
        let turns = turns.filter(|turn| *turn >= 2.0).map(|turn| turn * step.accumulate.passes() as f64);
        self.turns = turns.map(|turn| (turn, OnceLock::new())).collect();
    }

    pub(super) fn parts(&self) -> &StepParts {
        &self.parts
    }

    /// Milliseconds of a step of `batch` samples; more samples never take less.
    pub(super) fn time(&self, batch: f64) -> f64 {
        // With one thread 16 samples really take less time than 15, which another library computes. Users ask for 16
        // and not for 15, so the few batch sizes below a switch are predicted to take no longer than those above it.
        let behind = |turn: f64, half: f64| self.uncorrected_time(turn).max(half);
        self.turns.iter().fold(self.uncorrected_time(batch), |time, &(turn, ref half)| {
            let half = || *half.get_or_init(|| self.uncorrected_time(0.5 * turn));
            match batch {
                _ if batch >= turn => time.max(half()),
                _ if batch > 0.5 * turn => time.min(behind(turn, half())),
                _ => time,
            }
        })
    }

    fn uncorrected_time(&self, batch: f64) -> f64 {
        let work =
            |kind: &PartKind| kind.count() * kind.kernels.iter().map(|kernel| self.work(kernel, batch)).sum::<f64>();
        self.step(self.parts.kinds.iter().map(work).sum())
    }

    /// Milliseconds of a step of `batch` samples, and their derivatives by the logarithms of the parameters.
    pub(super) fn slopes(&self, batch: f64) -> (f64, ParameterValues) {
        self.step_time(batch).slopes(&self.values)
    }

    /// A step of `batch` samples as a function of the parameters.
    pub(super) fn step_time(&self, batch: f64) -> StepTime {
        StepTime::new(self.rules, &self.parts, batch)
    }

    /// Milliseconds of some of its kernels in isolation.
    pub(super) fn isolated_time(&self, kernels: &[Kernel], batch: f64) -> f64 {
        self.launch_time(kernels, kernels.iter().map(|kernel| self.work(kernel, batch)).sum())
    }

    /// Some of the kernels as features of the correction trees.
    pub(super) fn operation<'k>(&self, kernels: &'k [Kernel], batch: f64, physical: f64) -> PhysicalOperation<'k> {
        let effort = kernels.iter().map(|kernel| self.rules.effort(kernel)).fold(1.0, f64::max);
        // The samples of each repetition.
        let (samples, repeats) = kernels.first().map_or((batch, 1.0), |kernel| (kernel.samples(batch), kernel.repeats));
        let route = self.rules.route(kernels, batch);
        PhysicalOperation { kernels, route, effort, batch: samples, physical: physical / repeats }
    }

    pub(super) fn part_times(&self, corrections: &OperationCorrections, batch: f64) -> Vec<PartTime> {
        let timed = |kind: &PartKind| {
            let kernels: Vec<f64> = kind.kernels.iter().map(|kernel| self.work(kernel, batch)).collect();
            let physical = self.launch_time(&kind.kernels, kernels.iter().sum());
            let factor = corrections.factor(self.operation(&kind.kernels, batch, physical));
            PartTime { kernels, physical, factor }
        };
        self.parts.kinds.iter().map(timed).collect()
    }

    /// The breakdown of a step, given the times of its kinds of parts.
    pub(super) fn breakdown(&self, timed: &[PartTime]) -> TimeBreakdown {
        let (mut work, mut plain, mut sum, mut classes) = (0.0, 0.0, 0.0, [0.0; _]);
        for (kind, PartTime { kernels, physical, factor }) in self.parts.kinds.iter().zip(timed) {
            for (kernel, time) in kind.kernels.iter().zip(kernels) {
                work += kind.count() * time;
                classes[kernel.class as usize] += kind.count() * factor * time;
            }
            plain += kind.count() * physical;
            sum += kind.count() * factor * physical;
        }
        // The factor of the sums keeps the time that no part owns, and the overlap between parts, unchanged.
        TimeBreakdown { corrected: self.step(work) * sum / plain, classes }
    }

    /// Corrected milliseconds of every pass of every node, launches included; the loss is its last node's.
    pub(super) fn passes(&self, network: &Network, timed: &[PartTime]) -> PassTimes {
        let mut passes = vec![[0.0; _]; network.nodes().len()];
        for (kind, PartTime { kernels, physical, factor }) in self.parts.kinds.iter().zip(timed) {
            let work: f64 = kernels.iter().sum();
            let corrected = physical * factor;
            for (kernel, time) in kind.kernels.iter().zip(kernels).filter(|_| work > 0.0) {
                for part in &kind.parts {
                    let node = part.node.unwrap_or(kernel.node);
                    passes[node.index()][kernel.pass as usize] += corrected * time / work;
                }
            }
        }
        passes
    }

    /// Corrected milliseconds of the kernels of every node, in the order they run; the loss is not included.
    pub(super) fn nodes(&self, corrections: &OperationCorrections, batch: f64) -> BTreeMap<NodeId, f64> {
        let mut nodes = BTreeMap::new();
        for kind in &self.parts.kinds {
            let kernels = &kind.kernels;
            let factor = corrections.factor(self.operation(kernels, batch, self.isolated_time(kernels, batch)));
            for kernel in kernels.iter().filter(|kernel| kernel.class != KernelClass::Loss) {
                let time = factor * self.work(kernel, batch);
                for part in &kind.parts {
                    // A part has the kernels of its kind; the optimizer part has kernels of all nodes.
                    *nodes.entry(part.node.unwrap_or(kernel.node)).or_default() += time;
                }
            }
        }
        nodes
    }

    /// Shares of a step's corrected time in kernels with narrow numbers, by kind.
    pub(super) fn narrow_shares(&self, timed: &[PartTime]) -> [f64; 2] {
        let (mut whole, mut shares) = (0.0, [0.0; 2]);
        for (kind, PartTime { kernels, factor, .. }) in self.parts.kinds.iter().zip(timed) {
            let factor = kind.count() * factor;
            for (kernel, time) in kind.kernels.iter().zip(kernels) {
                whole += factor * time;
                narrow::kind(kernel).into_iter().for_each(|kind| shares[kind] += factor * time);
            }
        }
        shares.map(|share| share / whole)
    }

    fn work(&self, kernel: &Kernel, batch: f64) -> f64 {
        let factor = self.narrow.map_or(1.0, |narrow| narrow.factor(kernel));
        factor * self.values[SpeedParameter::Pace as usize] * self.rules.time(kernel, batch, &self.values)
    }

    fn launch_time(&self, kernels: &[Kernel], work: f64) -> f64 {
        combined_time(
            work,
            LaunchCounts::count(kernels.iter()).time(|parameter| self.values[parameter as usize]),
            self.rules.speed.overlap,
        )
    }

    fn step(&self, work: f64) -> f64 {
        let launching = self.launches.time(|parameter| self.values[parameter as usize]);
        combined_time(work, launching, self.rules.speed.overlap) + self.values[SpeedParameter::Step as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_network::zoo::{Dataset, build};
    use perf4sight_platform::Platform;
    use perf4sight_step::workload::{Accumulate, Stage};

    #[test]
    fn more_samples_take_no_less_in_several_passes_either() {
        // One thread computes 1x1 convolutions of 16 images with another library than those of 15, which are slower:
        // in four passes, of 64 and 60.
        let platform = Platform::for_name("cpu").unwrap().on_threads(1);
        let rules = DeviceRules { speed: &platform.speed, platform: &platform };
        let values = SpeedParameter::ALL.map(|parameter| platform.speed.prior(parameter).typical);
        let network = build("mobilenetv2", Dataset::Imagenet).unwrap();
        for passes in [1, 4] {
            let accumulate = Accumulate::new(passes).unwrap();
            let step = Step { accumulate, ..Step::published(Stage::Training) };
            let physics = PhysicalModel::new(rules, values, &network, step);
            let [below, from] = [15, 16].map(|samples| (passes * samples) as f64);
            assert!(
                physics.uncorrected_time(below) > physics.uncorrected_time(from),
                "{passes} passes take another library all the same"
            );
            assert!(physics.time(below) <= physics.time(from), "{passes} passes");
        }
    }
}
