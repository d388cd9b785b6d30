//! Simulates the allocations of a training or inference step: its peak memory on a device, and the tensors alive at the
//! peak.
//!
//! The rules of operations ([`rules`]) with the layouts of tensors ([`layout`]) give the allocations of a step
//! ([`step`]); these are run through a model of the device's allocator ([`run_through`]). Its accuracy, and the rules
//! that were tried and dropped, are in `docs/accuracy/simulated-memory.md`.

#![warn(missing_docs)]
#![allow(rustdoc::private_intra_doc_links)]

mod allocator;
mod amount;
mod each_operation;
mod followed;
mod layout;
mod peak;
mod rules;
mod run_through;
mod simulation_cache;
mod step;
mod tensor;
mod timeline;

pub use peak::{PeakMemory, TensorAtPeak, TensorsAtPeak};
pub use tensor::{StepPhase, TensorRole};
pub use timeline::{MemoryTimeline, TimelineEntry};

use layout::{TensorLayout, layouts};
use perf4sight_base::units::Bytes;
use perf4sight_network::{Network, TrainedNetwork};
use perf4sight_platform::Platform;
use perf4sight_step::workload::{AutocastDevice, Step};
use run_through::StepPeaks;
use simulation_cache::{SEVERAL, SimulationCache};
use std::sync::Arc;
use step::AllocationSchedule;

/// For every operation, whether its result is a channels-last image on a processor: with a single sample, and with several.
pub fn channels_last(trained: &TrainedNetwork, step: Step) -> Vec<[bool; 2]> {
    let [single, several] = [1, SEVERAL]
        .map(|batch| layouts(&trained.network, step, &trained.gradients, (AutocastDevice::Processor, batch)));
    let both = single.iter().zip(&several);
    both.map(|(single, several)| [single, several].map(TensorLayout::is_channels_last)).collect()
}

/// All steps of one network on one device; common parts are computed once.
#[derive(Debug)]
pub struct Simulations<'a> {
    likely: Arc<SimulationCache<'a>>,
    /// The other readings of the network's file.
    others: Vec<Arc<SimulationCache<'a>>>,
}

impl<'a> Simulations<'a> {
    /// Nothing is simulated yet.
    pub fn new(network: &'a Network, platform: &'a Platform) -> Self {
        let memo = |network: &'a Network| Arc::new(SimulationCache::new(network, platform));
        Simulations { likely: memo(network), others: network.other_readings().iter().map(memo).collect() }
    }

    /// The simulation of one of the steps.
    pub fn simulation(&self, step: Step) -> Simulation<'a> {
        let likely = Simulation { memo: Arc::clone(&self.likely), step, others: Vec::new() };
        // What the module itself keeps in a step is not in doubt: other readings are of other steps then.
        let followed = self.likely.network.followed();
        let by_module = followed.is_some_and(|followed| followed.is_of(step));
        let is_possible = |memo: &&Arc<SimulationCache<'a>>| (memo.network.followed() != followed) == by_module;
        let other = |memo: &Arc<SimulationCache<'a>>| Simulation { memo: Arc::clone(memo), ..likely.clone() };
        Simulation { others: self.others.iter().filter(is_possible).map(other).collect(), ..likely }
    }
}

/// A step of one network on one device, ready to be simulated at any batch size.
///
/// ```
/// use perf4sight_memory::{TensorRole, Simulation};
/// use perf4sight_network::zoo::{Dataset, build};
/// use perf4sight_platform::Platform;
/// use perf4sight_step::workload::{Stage, Step};
///
/// let network = build("mobilenetv2", Dataset::Imagenet)?;
/// let platform = Platform::for_name("tx2")?;
/// let simulation = Simulation::new(&network, Step::published(Stage::Training), &platform);
/// let peak = simulation.peak(16);
/// assert!(peak.reserved > peak.allocated);
/// let alive = simulation.alive(16);
/// assert!(alive.bytes(TensorRole::OptimizerState) <= alive.bytes(TensorRole::Weights) && alive.total() >= peak.reserved);
/// # Ok::<(), perf4sight_base::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Simulation<'a> {
    memo: Arc<SimulationCache<'a>>,
    step: Step,
    others: Vec<Simulation<'a>>,
}

impl<'a> Simulation<'a> {
    /// Prepares the simulation of a step.
    pub fn new(network: &'a Network, step: Step, platform: &'a Platform) -> Self {
        Simulations::new(network, platform).simulation(step)
    }

    /// The same step of the other networks that the file can be read as: their memory and this one's are all possible.
    pub fn others(&self) -> &[Simulation<'a>] {
        &self.others
    }

    /// The least and the most that the peak may be.
    pub fn bounds(&self, batch: u64) -> [PeakMemory; 2] {
        let own = self.peak(batch);
        let join = |[least, most]: [PeakMemory; 2], other: &Simulation| {
            let peak = other.peak(batch);
            [least.combine(peak, Bytes::min), most.combine(peak, Bytes::max)]
        };
        self.others.iter().fold([own, own], join)
    }

    /// The allocations of `batch` samples, and how many of the samples are processed at a time.
    fn schedule(&self, batch: u64) -> (Arc<AllocationSchedule>, u64) {
        self.memo.schedule(self.step, batch)
    }

    fn outcome(&self, (schedule, samples): (&AllocationSchedule, u64)) -> StepPeaks {
        self.memo.outcome(self.step, (schedule, samples))
    }
}
