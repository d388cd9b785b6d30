//! One network with the fitted memory: its simulation at a batch size gives memory used, a verdict, a largest batch.

use super::curve::UsageCurve;
use super::edge::MemoryEdge;
use super::error_distribution::ErrorDistributions;
use super::kernels::NetworkKernels;
use super::largest_batch::largest_batch;
use super::query::MemoryQuery;
use super::query::SimulatedMemory;
use super::{MemoryModel, ProcessMemoryPrior};
use crate::fingerprint::distribution::{Extrapolation, architecture};
use crate::fingerprint::prediction::{
    CountedMemory, FitVerdict, IntervalBand, IntervalBasis, LowerBound, MaxBatch, MemoryLimit, Predictor,
};
use perf4sight_base::stats::mean;
use perf4sight_base::units::Bytes;
use perf4sight_memory::{MemoryTimeline, Simulation, Simulations, TensorsAtPeak};
use perf4sight_network::Network;
use perf4sight_step::workload::{Accumulate, Stage, Step, Trainable};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Probability that the safe batch size fits, where a limit is known.
const SAFE: f64 = 0.95;

/// MiB that any step takes: a page.
const LEAST: f64 = 4096.0 / (1 << 20) as f64;

/// One network: the data that all of its steps share.
pub(in crate::fingerprint) struct PreparedMemory<'a> {
    memory: &'a MemoryModel,
    network: &'a Network,
    architecture: Arc<str>,
    parameters: u64,
    simulations: Simulations<'a>,
    /// By the properties of a step that they depend on.
    kernels: Mutex<BTreeMap<(Stage, Trainable), NetworkKernels>>,
}

/// One step of a network, ready for predictions.
pub(in crate::fingerprint) struct PreparedMemoryStep<'a> {
    memory: &'a MemoryModel,
    passes: Accumulate,
    architecture: Arc<str>,
    parameters: u64,
    kernels: NetworkKernels,
    simulation: Simulation<'a>,
    curve: UsageCurve,
    edge: Option<MemoryEdge>,
    doubts: ErrorDistributions,
    band: Option<IntervalBand>,
    /// Whether no error of the fit is one of networks like this.
    is_apart: bool,
    /// The doubts without what is not understood of the network.
    understood: ErrorDistributions,
    /// Cached simulations: value and verdict of a batch size share one.
    simulated: RefCell<BTreeMap<u64, SimulatedMemory>>,
    /// The same of the other readings of the network's file.
    otherwise: RefCell<BTreeMap<u64, Vec<SimulatedMemory>>>,
}

impl<'a> PreparedMemory<'a> {
    pub(super) fn new(memory: &'a MemoryModel, network: &'a Network) -> Self {
        PreparedMemory {
            memory,
            network,
            architecture: architecture(network).into(),
            parameters: network.parameters(),
            simulations: Simulations::new(network, &memory.platform),
            kernels: Mutex::default(),
        }
    }

    fn kernels(&self, step: Step) -> NetworkKernels {
        let mut known = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let kernels = || NetworkKernels::new(self.network, step, &self.memory.platform);
        *known.entry((step.stage, step.trainable)).or_insert_with(kernels)
    }

    /// One of its steps; `extrapolation` describes how the network differs from the profiled ones.
    pub fn about(&self, step: Step, extrapolation: &Extrapolation) -> PreparedMemoryStep<'a> {
        let &PreparedMemory { memory, ref architecture, parameters, ref simulations, .. } = self;
        let band = memory.spread.as_ref().map(|spread| spread.band(extrapolation.family.as_deref()));
        let above = band.map_or(0.0, |band| band.ends[1]);
        let is_apart = extrapolation.family.is_none() && (extrapolation.is_unlike || memory.knows_one_network());
        let other = ProcessMemoryPrior::new(memory.platform.memory).between_networks;
        let doubts = if is_apart { memory.doubts.of_another_process(other) } else { memory.doubts };
        PreparedMemoryStep {
            memory,
            passes: step.accumulate,
            architecture: Arc::clone(architecture),
            parameters,
            kernels: self.kernels(step),
            simulation: simulations.simulation(step),
            curve: memory.model.curve,
            edge: memory.edge,
            doubts: doubts.at_least_as_unsure(above).widened(extrapolation.ignorance),
            band,
            is_apart,
            understood: doubts,
            simulated: RefCell::default(),
            otherwise: RefCell::default(),
        }
    }
}

impl PreparedMemoryStep<'_> {
    /// The same with another limit than the device's, which applies to all memory that a step uses.
    pub fn with_limit(mut self, limit: Option<Bytes>) -> Self {
        if let Some(bytes) = limit {
            self.edge = Some(MemoryEdge::Known(MemoryLimit { bytes, counts: CountedMemory::All }));
            // The end of the device's memory is unrelated to that limit.
            self.curve.cap = None;
        }
        self
    }

    /// MiB of the counted memory.
    fn needed_memory(&self, batch: u64, counts: Option<CountedMemory>) -> f64 {
        self.counted_memory(batch, self.simulate(batch), counts)
    }

    /// MiB of the counted memory, from a simulated step.
    fn counted_memory(&self, batch: u64, simulated: SimulatedMemory, counts: Option<CountedMemory>) -> f64 {
        match counts {
            Some(CountedMemory::Tensors) => simulated.reserved,
            Some(CountedMemory::All) | None => self.used_memory(batch, simulated),
        }
    }

    /// MiB of all memory used, from a simulated step.
    fn used_memory(&self, batch: u64, simulated: SimulatedMemory) -> f64 {
        let &PreparedMemoryStep { parameters, kernels, .. } = self;
        let query = MemoryQuery { batch: self.passes.samples(batch), parameters, kernels, simulated };
        self.memory.model.used_by(&self.curve, &self.architecture, &query)
    }

    /// Where the file can be read in several ways, any of them may be the right one.
    fn judge_readings(&self, batch: u64, readings: &[SimulatedMemory]) -> Option<FitVerdict> {
        let edge = self.edge?;
        let fits = readings.iter().map(|&simulated| match edge {
            MemoryEdge::Known(limit) => {
                let needed = self.counted_memory(batch, simulated, Some(limit.counts));
                self.doubts.about(limit.counts).fit_probability(needed, limit.bytes.mib())
            }
            MemoryEdge::Taught(boundary) => boundary.fit_probability(simulated.reserved),
        });
        Some(FitVerdict::new(mean(&fits.collect::<Vec<_>>())))
    }

    /// The band around the likeliest memory, for a step that is simulated so.
    fn band_of(&self, batch: u64, simulated: SimulatedMemory) -> Option<IntervalBand> {
        let (likely, need) = (self.predict(batch), self.used_memory(batch, simulated));
        let doubtful = |basis| self.interval_of_doubts(need, simulated, basis);
        let band = match self.band {
            None if self.memory.known.is_empty() => doubtful(IntervalBasis::Prior),
            None if self.is_apart => doubtful(IntervalBasis::Estimated),
            None => return None,
            // The errors of a few networks show too little of those of others (`docs/accuracy/memory.md`).
            Some(band) if self.is_apart || band.basis == IntervalBasis::Estimated => band.union(doubtful(band.basis)),
            Some(band) => band,
        };
        Some(IntervalBand { ends: band.ends.map(|end| end + (need / likely).ln()), ..band })
    }

    /// The interval by the doubts alone, but never below the tensors, which are needed in any case. Operations
    /// that are not understood widen every kind of interval in the same way (`About::interval`).
    fn interval_of_doubts(&self, need: f64, simulated: SimulatedMemory, basis: IntervalBasis) -> IntervalBand {
        let ErrorDistributions { tensors, all } = self.understood;
        let least = tensors.need_at_probability(simulated.allocated, 0.05).max(LEAST);
        let [low, high] = [0.05, 0.95].map(|share| all.need_at_probability(need, share));
        IntervalBand { ends: [(low.max(least) / need).ln(), (high / need).ln()], basis }
    }

    /// The step by every reading of the network's file, the likeliest first.
    fn readings(&self, batch: u64) -> Vec<SimulatedMemory> {
        let others = || self.simulation.others().iter().map(|other| SimulatedMemory::new(other, batch)).collect();
        let mut otherwise = self.otherwise.borrow_mut();
        std::iter::once(self.simulate(batch))
            .chain(otherwise.entry(batch).or_insert_with(others).iter().copied())
            .collect()
    }

    fn simulate(&self, batch: u64) -> SimulatedMemory {
        *self.simulated.borrow_mut().entry(batch).or_insert_with(|| SimulatedMemory::new(&self.simulation, batch))
    }
}

impl Predictor for PreparedMemoryStep<'_> {
    fn predict(&self, batch: u64) -> f64 {
        self.used_memory(batch, self.simulate(batch))
    }

    fn band(&self, batch: u64) -> Option<IntervalBand> {
        let bands = self.readings(batch).into_iter().map(|simulated| self.band_of(batch, simulated));
        bands.reduce(|one, other| Some(one?.union(other?)))?
    }

    fn tensors(&self, batch: u64) -> Option<f64> {
        Some(self.simulate(batch).reserved)
    }

    fn tensors_between(&self, batch: u64) -> Option<[f64; 2]> {
        let reserved = || self.readings(batch).into_iter().map(|simulated| simulated.reserved);
        Some([reserved().reduce(f64::min)?, reserved().reduce(f64::max)?])
    }

    fn alive(&self, batch: u64) -> Option<TensorsAtPeak> {
        Some(self.simulation.alive(batch))
    }

    fn timeline(&self, batch: u64) -> Option<MemoryTimeline> {
        Some(self.simulation.timeline(batch))
    }

    fn limit(&self) -> Option<MemoryLimit> {
        match self.edge? {
            MemoryEdge::Known(limit) => Some(limit),
            MemoryEdge::Taught(_) => Some(MemoryLimit { bytes: self.memory.capacity()?, counts: CountedMemory::All }),
        }
    }

    fn counted_need(&self, batch: u64) -> Option<f64> {
        Some(self.needed_memory(batch, self.limit().map(|limit| limit.counts)))
    }

    fn at_least(&self, batch: u64) -> Option<LowerBound> {
        if !self.memory.model.grows_with(&self.architecture) {
            return None;
        }
        let all = std::iter::once(&self.simulation).chain(self.simulation.others());
        let readings: Vec<SimulatedMemory> =
            all.map(|one| SimulatedMemory::at_least(one, batch)).collect::<Option<_>>()?;
        let need = self.counted_memory(batch, readings[0], self.limit().map(|limit| limit.counts));
        Some(LowerBound { need, verdict: self.judge_readings(batch, &readings) })
    }

    /// None where the device's capacity is unknown.
    fn verdict(&self, batch: u64) -> Option<FitVerdict> {
        self.judge_readings(batch, &self.readings(batch))
    }

    /// None where the device's capacity is unknown.
    fn max_batch(&self) -> Option<MaxBatch> {
        let [likely, safe] = match self.edge? {
            MemoryEdge::Known(MemoryLimit { bytes, counts }) => {
                let doubt = self.doubts.about(counts);
                let need = |batch| self.needed_memory(batch, Some(counts));
                let most = |batch| {
                    self.readings(batch).into_iter().map(move |one| self.counted_memory(batch, one, Some(counts)))
                };
                let surely = |batch| doubt.need_at_probability(most(batch).fold(0.0, f64::max), SAFE);
                [largest_batch(bytes.mib(), need), largest_batch(bytes.mib(), surely)]
            }
            MemoryEdge::Taught(boundary) => {
                let most = |batch| self.readings(batch).into_iter().fold(0.0, |most: f64, one| most.max(one.reserved));
                let safe = largest_batch(boundary.safe_demand(self.memory.platform.allocator), most);
                [largest_batch(boundary.likely_demand(), |batch| self.simulate(batch).reserved), safe]
            }
        };
        Some(MaxBatch { safe: safe.min(likely), likely })
    }
}
