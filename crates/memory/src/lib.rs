//! A training or inference step as allocations: what it needs at most on a device, and what is alive at that moment.
//!
//! How close it comes, and which rules were tried and dropped, stands in `docs/accuracy/simulated-memory.md`.

#![warn(missing_docs)]

mod allocator;
mod amount;
mod attention;
mod backward;
mod blocked;
mod channels_last;
mod checkpoint;
mod columns;
mod convolution;
mod course;
mod event;
mod gradient_layouts;
mod ground;
mod layout;
mod layouts;
mod operation;
mod optimizer;
mod pass;
mod peak;
mod plan;
mod product;
mod recorder;
mod recording;
mod recurrent;
mod replay;
mod rule;
mod rules;
mod schedule;
mod set_up;
mod simulations;
mod steps;
mod sums;
mod taking;
mod updates;

pub use course::{Course, Leg, Live};
pub use event::{Phase, Role};
pub use peak::{Alive, Layer, Peak};
pub use simulations::Simulations;

use ground::Grounds;
use layout::Layout;
use layouts::layouts;
use perf4sight_base::remembered::Remembered;
use perf4sight_network::{Network, Trained};
use perf4sight_platform::Platform;
use perf4sight_step::workload::Step;
use plan::Plan;
use replay::{Outcome, replay};
use schedule::Schedule;
use std::sync::{Arc, OnceLock};

/// Any batch of more than one: layouts are the same for all.
const SEVERAL: u64 = 2;

/// For every operation, whether its result is an image whose channels lie last: of a single sample, and of several.
pub fn channels_last(trained: &Trained, step: Step) -> Vec<[bool; 2]> {
    let [single, several] = [1, SEVERAL].map(|batch| layouts(&trained.network, step, &trained.gradients, batch));
    let both = single.iter().zip(&several);
    both.map(|(single, several)| [single, several].map(Layout::is_channels_last)).collect()
}

/// The steps of one network on one device, ready to be simulated at any batch size.
///
/// ```
/// use crate::Simulation;
/// use perf4sight_network::zoo::{Dataset, build};
/// use perf4sight_platform::Platform;
/// use perf4sight_step::workload::{Stage, Step};
///
/// let network = build("mobilenetv2", Dataset::Imagenet)?;
/// let platform = Platform::named("tx2")?;
/// let simulation = Simulation::new(&network, Step::published(Stage::Training), &platform);
/// let peak = simulation.peak(16);
/// assert!(peak.reserved > peak.allocated);
/// let alive = simulation.alive(16);
/// assert!(alive.optimizer_state <= alive.weights && alive.total() >= peak.reserved);
/// # Ok::<(), perf4sight_base::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Simulation<'a> {
    network: &'a Network,
    platform: &'a Platform,
    step: Step,
    grounds: Arc<Grounds<'a>>,
    schedules: Arc<Schedules>,
}

/// What happens in steps that are alike but for their samples, each made when it is first asked for.
#[derive(Debug, Default)]
struct Schedules {
    /// Of a single sample, whose tensors have views that those of several have not.
    single: OnceLock<Schedule>,
    several: OnceLock<Schedule>,
    /// What numbers of samples that lie there at a time come to.
    outcomes: Remembered<u64, Outcome>,
}

impl<'a> Simulation<'a> {
    /// Prepares the steps.
    pub fn new(network: &'a Network, step: Step, platform: &'a Platform) -> Self {
        Simulation {
            network,
            platform,
            step,
            grounds: Arc::new(Grounds::new(network, platform)),
            schedules: Arc::default(),
        }
    }

    /// What happens to so many samples, and how many of them lie there at a time.
    fn schedule(&self, batch: u64) -> (&Schedule, u64) {
        let samples = self.step.accumulate.samples(batch);
        let (schedule, least) =
            if samples == 1 { (&self.schedules.single, 1) } else { (&self.schedules.several, SEVERAL) };
        (schedule.get_or_init(|| self.scheduled(least)), samples)
    }

    /// What a batch size comes to.
    fn outcome(&self, batch: u64) -> Outcome {
        let (schedule, samples) = self.schedule(batch);
        *self.schedules.outcomes.of(samples, || replay(schedule, self.platform, samples))
    }

    fn scheduled(&self, batch: u64) -> Schedule {
        let &Simulation { platform, step, ref grounds, .. } = self;
        let (ground, cuts) = (grounds.of(step, batch), grounds.cuts(step.checkpoint));
        let plan = Plan::new(&ground, step, platform, &cuts);
        Schedule::new(step, &grounds.recorded(&plan, batch))
    }
}
