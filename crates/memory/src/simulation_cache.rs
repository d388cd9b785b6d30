//! The common parts of the steps of one network on one device, each computed once.

use crate::followed::extra_bytes;
use crate::run_through::{ExtraBytes, StepPeaks, run_through};
use crate::step::{
    AllocationSchedule, DeviceKernels, DeviceOperations, RecordedPass, SetUp, StepContext, WeightUpdates, rules_step,
};
use perf4sight_base::cache::Cache;
use perf4sight_network::{FollowedPass, Network, TrainedNetworks};
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Accumulate, Step};
use std::sync::{Arc, OnceLock};

/// Any batch of more than one: layouts are the same for all. Tensors of a single sample have views that are impossible
/// with several.
pub(crate) const SEVERAL: u64 = 2;

/// As many samples as threads share in no other way than more of them.
const MANY: u64 = 1 << 20;

/// From the second on passes are alike, so that steps with more passes leave the same tensors.
const SEVERAL_PASSES: Accumulate = Accumulate::new(2).expect("two are some");

/// All steps of one network on one device; every key holds the settings of a step on which its value depends, and the
/// samples: those of the step on a processor, else one or [`SEVERAL`].
#[derive(Debug)]
pub(crate) struct SimulationCache<'a> {
    pub network: &'a Network,
    pub platform: &'a Platform,
    /// Whether the memory counts that kernels borrow within one operator.
    within_kernels: bool,
    /// The same without it.
    outside: OnceLock<Box<SimulationCache<'a>>>,
    trainings: TrainedNetworks<'a>,
    operations: Cache<(Step, u64), DeviceOperations<'a>>,
    set_ups: Cache<(Step, u64), SetUp>,
    passes: Cache<(Step, u64), RecordedPass>,
    updates: Cache<(Step, u64), WeightUpdates>,
    schedules: Cache<(Step, u64), AllocationSchedule>,
    /// By the samples of followed passes.
    beyond: Cache<(Step, u64), ExtraBytes>,
    /// By the samples of a pass.
    outcomes: Cache<(Step, u64), StepPeaks>,
}

impl<'a> SimulationCache<'a> {
    pub fn new(network: &'a Network, platform: &'a Platform) -> Self {
        SimulationCache {
            network,
            platform,
            within_kernels: true,
            outside: OnceLock::new(),
            trainings: TrainedNetworks::new(network),
            operations: Cache::default(),
            set_ups: Cache::default(),
            passes: Cache::default(),
            updates: Cache::default(),
            schedules: Cache::default(),
            beyond: Cache::default(),
            outcomes: Cache::default(),
        }
    }

    /// The allocations of steps of `batch` samples, and how many of the samples are processed at a time.
    pub fn schedule(&self, step: Step, batch: u64) -> (Arc<AllocationSchedule>, u64) {
        let samples = step.accumulate.samples(batch);
        // A processor's threads share the samples.
        let different = if self.platform.threads().is_some() { MANY } else { SEVERAL };
        let (step, alike) = (alike(step), samples.min(different));
        (self.schedules.get_or_compute((step, alike), || self.record(step, alike)), samples)
    }

    pub fn outcome(&self, step: Step, (schedule, samples): (&AllocationSchedule, u64)) -> StepPeaks {
        let beyond = || self.extra_bytes(step, samples);
        *self
            .outcomes
            .get_or_compute((alike(step), samples), || run_through(schedule, self.platform, samples, beyond()))
    }

    /// What steps with passes of so many samples take beyond what the graph says: nothing where the module's own passes are not known.
    pub fn extra_bytes(&self, step: Step, samples: u64) -> ExtraBytes {
        let followed = self.network.followed().filter(|followed| self.within_kernels && followed.is_of(step));
        let found = |pass: &FollowedPass| {
            let key = (Step { accumulate: Accumulate::default(), ..step }, pass.samples);
            *self.beyond.get_or_compute(key, || extra_bytes(self, self.outside_of_kernels(), step, pass))
        };
        followed.map_or_else(ExtraBytes::default, |followed| ExtraBytes {
            in_pass: followed.extra_bytes(samples, |pass| found(pass).in_pass),
            after_pass: followed.extra_bytes(samples, |pass| found(pass).after_pass),
        })
    }

    /// The same without the memory that kernels borrow.
    fn outside_of_kernels(&self) -> &SimulationCache<'a> {
        let made =
            || Box::new(SimulationCache { within_kernels: false, ..SimulationCache::new(self.network, self.platform) });
        self.outside.get_or_init(made)
    }

    fn record(&self, step: Step, batch: u64) -> AllocationSchedule {
        let ruling = rules_step(step);
        let kernels = DeviceKernels { platform: self.platform, counted: self.within_kernels };
        let operations = || DeviceOperations::new(self.trainings.for_trainable(step.trainable), ruling, kernels, batch);
        let operations = self.operations.get_or_compute((ruling, batch), operations);
        let context = StepContext::new(&operations, step, self.platform, &self.trainings.cuts(step.checkpoint));
        let Step { optimizer, accumulate, checkpoint, .. } = step;
        let set_up = self.set_ups.get_or_compute((ruling, batch), || SetUp::record(&context));
        // The handling of gradients and weights is not part of a pass; the number of passes changes each of them.
        let passing = Step { accumulate, checkpoint, ..ruling };
        let pass = self.passes.get_or_compute((passing, batch), || RecordedPass::record(&context, &set_up));
        let updates =
            self.updates.get_or_compute((Step { optimizer, ..ruling }, batch), || WeightUpdates::record(&context));
        AllocationSchedule::new(step, &set_up, &pass, &updates)
    }
}

/// A step with the same schedule, whatever the number of its passes.
fn alike(step: Step) -> Step {
    Step { accumulate: step.accumulate.min(SEVERAL_PASSES), ..step }
}
