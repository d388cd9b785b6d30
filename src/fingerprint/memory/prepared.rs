//! One network before the fitted memory: simulated at a batch size, it is used memory, a verdict, a largest batch.

use super::Memory;
use super::kernels::Kernels;
use super::residual::Query;
use super::simulated::{Simulated, simulation};
use crate::fingerprint::architecture::architecture;
use crate::fingerprint::prediction::{MaxBatch, Verdict};
use crate::memory::{Alive, Simulation};
use crate::network::Network;
use crate::workload::Stage;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// No batch size beyond this is looked for.
const LARGEST_BATCH: u64 = 1 << 20;

/// One network, ready to be asked about.
pub(in crate::fingerprint) struct Prepared<'a> {
    memory: &'a Memory,
    architecture: String,
    parameters: u64,
    kernels: Kernels,
    simulation: Simulation<'a>,
    /// What was simulated already: value and verdict of a batch size share it.
    simulated: RefCell<BTreeMap<u64, Simulated>>,
}

impl<'a> Prepared<'a> {
    pub(super) fn new(memory: &'a Memory, stage: Stage, network: &'a Network) -> Self {
        Prepared {
            memory,
            architecture: architecture(network),
            parameters: network.parameters(),
            kernels: Kernels::of(network, stage, &memory.target),
            simulation: simulation(network, stage, &memory.target),
            simulated: RefCell::default(),
        }
    }

    /// MiB used.
    pub fn at(&self, batch: u64) -> f64 {
        let &Prepared { parameters, kernels, .. } = self;
        let query = Query { batch, parameters, kernels, simulated: self.simulate(batch) };
        self.memory.model.used(&self.architecture, &query)
    }

    /// What is alive at the peak.
    pub fn alive(&self, batch: u64) -> Alive {
        self.simulation.alive(batch)
    }

    /// None where nothing says what the device can give.
    pub fn verdict(&self, batch: u64) -> Option<Verdict> {
        let limit = self.memory.limit?;
        Some(Verdict::new(limit.fits(self.simulate(batch).reserved)))
    }

    /// None where nothing says what the device can give.
    pub fn max_batch(&self) -> Option<MaxBatch> {
        let limit = self.memory.limit?;
        let likely = self.largest_within(limit.likely());
        let safe = self.largest_within(limit.safe(self.memory.target.allocator));
        Some(MaxBatch { safe: safe.min(likely), likely })
    }

    /// The largest batch size whose simulated memory stays within so many MiB. Memory is nearly a straight line in the batch size, so the
    /// search goes where that line would cross, and halves what is left when it comes no closer.
    fn largest_within(&self, limit: f64) -> u64 {
        let need = |batch: u64| self.simulate(batch).reserved;
        let (mut low, mut high) = ((0, 0.0), (1, need(1)));
        while high.1 <= limit && high.0 < LARGEST_BATCH {
            let ahead = (high.0 as f64 * limit / high.1 * 1.05) as u64;
            low = high;
            let next = ahead.clamp(high.0 + 1, LARGEST_BATCH);
            high = (next, need(next));
        }
        let mut halve = false;
        while high.0 - low.0 > 1 && high.1 > limit {
            let share = if halve { 0.5 } else { (limit - low.1) / (high.1 - low.1) };
            let middle = low.0 + ((high.0 - low.0) as f64 * share) as u64;
            let middle = middle.clamp(low.0 + 1, high.0 - 1);
            let found = (middle, need(middle));
            if found.1 <= limit {
                low = found
            } else {
                high = found
            }
            halve = !halve;
        }
        if high.1 <= limit { high.0 } else { low.0 }
    }

    fn simulate(&self, batch: u64) -> Simulated {
        *self.simulated.borrow_mut().entry(batch).or_insert_with(|| Simulated::of(&self.simulation, batch))
    }
}
