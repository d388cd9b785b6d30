//! The common parts of the steps of one network on one device, each computed once.

use crate::run_through::{Outcome, run_through};
use crate::step::{Kernels, Operations, Pass, Schedule, SetUp, StepContext, Updates, rules_step};
use perf4sight_base::cache::Cache;
use perf4sight_network::{Network, Trainings};
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Accumulate, Optimizer, Step, ZeroGrad};
use std::sync::{Arc, LazyLock, OnceLock};

/// Any batch of more than one: layouts are the same for all. Tensors of a single sample have views that are impossible
/// with several.
pub(crate) const SEVERAL: u64 = 2;

/// Where passes of modules are followed.
static PROCESSOR: LazyLock<Option<Platform>> = LazyLock::new(|| Platform::processor(true).ok());

/// From the second on passes are alike, so that steps with more passes leave the same tensors.
const SEVERAL_PASSES: Accumulate = Accumulate::new(2).expect("two are some");

/// All steps of one network on one device; every key holds the settings of a step on which its value depends, and the
/// least batch.
#[derive(Debug)]
pub(crate) struct Memo<'a> {
    pub network: &'a Network,
    pub platform: &'a Platform,
    /// Whether the memory counts that kernels borrow within one operator.
    within_kernels: bool,
    /// The same on a processor without it.
    followed: OnceLock<Option<Box<Memo<'a>>>>,
    trainings: Trainings<'a>,
    operations: Cache<(Step, u64), Operations<'a>>,
    set_ups: Cache<(Step, u64), SetUp>,
    passes: Cache<(Step, u64), Pass>,
    updates: Cache<(Step, u64), Updates>,
    schedules: Cache<(Step, u64), Schedule>,
    /// By the samples of a pass.
    outcomes: Cache<(Step, u64), Outcome>,
}

impl<'a> Memo<'a> {
    pub fn new(network: &'a Network, platform: &'a Platform) -> Self {
        Memo {
            network,
            platform,
            within_kernels: true,
            followed: OnceLock::new(),
            trainings: Trainings::new(network),
            operations: Cache::default(),
            set_ups: Cache::default(),
            passes: Cache::default(),
            updates: Cache::default(),
            schedules: Cache::default(),
            outcomes: Cache::default(),
        }
    }

    /// The allocations of steps of `batch` samples, and how many of the samples are processed at a time.
    pub fn schedule(&self, step: Step, batch: u64) -> (Arc<Schedule>, u64) {
        let samples = step.accumulate.samples(batch);
        let (step, least) = (alike(step), samples.min(SEVERAL));
        (self.schedules.of((step, least), || self.record(step, least)), samples)
    }

    pub fn outcome(&self, step: Step, (schedule, samples): (&Schedule, u64)) -> Outcome {
        let beyond = || self.beyond(step, samples);
        *self.outcomes.of((alike(step), samples), || run_through(schedule, self.platform, samples, beyond()))
    }

    /// How many bytes a pass of so many samples takes beyond what the graph says, less than nothing where it takes less: 0 where the
    /// module's own passes are not known.
    pub fn beyond(&self, step: Step, samples: u64) -> i64 {
        let followed = self.network.followed().filter(|followed| self.within_kernels && followed.is_of(step));
        let Some((followed, outside)) = followed.zip(self.outside_of_kernels()) else { return 0 };
        // What becomes of gradients and weights is no part of a pass.
        let (optimizer, zero_grad) = (Optimizer::SgdWithoutMomentum, ZeroGrad::Free);
        let plain = Step { optimizer, zero_grad, accumulate: Accumulate::default(), ..step };
        followed.beyond(samples, |samples| {
            let (schedule, samples) = outside.schedule(plain, samples);
            outside.outcome(plain, (&schedule, samples)).of_passes
        })
    }

    fn outside_of_kernels(&self) -> Option<&Memo<'a>> {
        let made = || {
            let platform = PROCESSOR.as_ref()?;
            Some(Box::new(Memo { within_kernels: false, ..Memo::new(self.network, platform) }))
        };
        self.followed.get_or_init(made).as_deref()
    }

    fn record(&self, step: Step, batch: u64) -> Schedule {
        let ruling = rules_step(step);
        let kernels = Kernels { platform: self.platform, counted: self.within_kernels };
        let operations = || Operations::new(self.trainings.of(step.trainable), ruling, kernels, batch);
        let operations = self.operations.of((ruling, batch), operations);
        let context = StepContext::new(&operations, step, self.platform, &self.trainings.cuts(step.checkpoint));
        let Step { optimizer, accumulate, checkpoint, loss, .. } = step;
        let set_up = self.set_ups.of((Step { loss, ..ruling }, batch), || SetUp::record(&context));
        // The handling of gradients and weights is not part of a pass; the number of passes changes each of them.
        let passing = Step { accumulate, checkpoint, loss, ..ruling };
        let pass = self.passes.of((passing, batch), || Pass::record(&context, &set_up));
        let updates = self.updates.of((Step { optimizer, ..ruling }, batch), || Updates::record(&context));
        Schedule::new(step, &set_up, &pass, &updates)
    }
}

/// A step with the same schedule, whatever the number of its passes.
fn alike(step: Step) -> Step {
    Step { accumulate: step.accumulate.min(SEVERAL_PASSES), ..step }
}
