//! Memory by simulation: a step's allocations are simulated, a curve of four numbers makes used memory of them, and a limit says whether
//! they fit. How close it comes stands in `ACCURACY.md` of the folder above.

mod curve;
mod limit;
mod simulated;

use super::observations::Observations;
use super::prediction::{MaxBatch, Verdict};
use super::rows::Row;
use super::spread::{Residuals, Spread};
use crate::memory::{Alive, Simulation};
use crate::network::Network;
use crate::target::Target;
use crate::workload::Stage;
use curve::{Curve, Point};
use limit::{Limit, Trial};
use serde::{Deserialize, Serialize};
use simulated::{Simulated, simulation};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How likely the safe batch size must be to fit.
const SAFE: f64 = 0.95;

/// No batch size beyond this is looked for.
const LARGEST_BATCH: u64 = 1 << 20;

/// The fitted memory of one device and stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Memory {
    target: Target,
    curve: Curve,
    limit: Option<Limit>,
    spread: Option<Spread>,
    digest: Vec<Step>,
}

/// One row as the fit sees it: kept, so that more rows can be added later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Step {
    network: String,
    simulated: Simulated,
    /// MiB; none where it did not fit.
    used: Option<f64>,
}

/// One network, ready to be asked about.
pub(super) struct Prepared<'a> {
    memory: &'a Memory,
    simulation: Simulation<'a>,
}

impl Memory {
    pub fn fit(stage: Stage, observations: &Observations) -> Self {
        Memory::of(digest(stage, observations), observations.target)
    }

    fn of(digest: Vec<Step>, target: &Target) -> Self {
        let all: Vec<&Step> = digest.iter().collect();
        let (curve, limit) = fit(&all);
        let spread = Spread::new(&left_out(&digest));
        Memory { target: target.clone(), curve, limit, spread, digest }
    }

    /// The same, fitted with more rows.
    pub fn calibrate(&self, stage: Stage, rows: &[Row]) -> Self {
        let added = digest(stage, &Observations { rows, failed: &[], target: &self.target });
        Memory::of(self.digest.iter().cloned().chain(added).collect(), &self.target)
    }

    pub fn about<'a>(&'a self, stage: Stage, network: &'a Network) -> Prepared<'a> {
        Prepared { memory: self, simulation: simulation(network, stage, &self.target) }
    }

    pub fn spread(&self) -> Option<Spread> {
        self.spread
    }
}

impl Prepared<'_> {
    /// MiB used.
    pub fn at(&self, batch: u64) -> f64 {
        self.memory.curve.at(Simulated::of(&self.simulation, batch).reserved)
    }

    /// What is alive at the peak.
    pub fn alive(&self, batch: u64) -> Alive {
        self.simulation.alive(batch)
    }

    /// None where nothing profiled ever failed to fit.
    pub fn verdict(&self, batch: u64) -> Option<Verdict> {
        let limit = self.memory.limit?;
        Some(Verdict::new(limit.fits(Simulated::of(&self.simulation, batch).reserved)))
    }

    /// None where nothing profiled ever failed to fit.
    pub fn max_batch(&self) -> Option<MaxBatch> {
        let limit = self.memory.limit?;
        let largest = |probability: f64| self.largest_within(limit.reach(probability));
        Some(MaxBatch { safe: largest(SAFE), likely: largest(0.5) })
    }

    /// The largest batch size whose simulated memory stays within so many MiB.
    fn largest_within(&self, reserved: f64) -> u64 {
        let fits = |batch: u64| Simulated::of(&self.simulation, batch).reserved <= reserved;
        let (mut low, mut high) = (0, 1);
        while high < LARGEST_BATCH && fits(high) {
            (low, high) = (high, 2 * high);
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        low
    }
}

fn fit(steps: &[&Step]) -> (Curve, Option<Limit>) {
    let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
    steps.iter().filter(|step| step.used.is_some()).for_each(|step| *counts.entry(&step.network).or_default() += 1.0);
    let points = steps.iter().filter_map(|step| {
        let weight = 1.0 / counts.get(step.network.as_str())?;
        Some(Point { simulated: step.simulated.reserved, used: step.used?, weight })
    });
    let trials =
        steps.iter().map(|step| Trial { simulated: step.simulated.reserved, fitted: step.used.is_some(), weight: 1.0 });
    (Curve::fit(&points.collect::<Vec<_>>()), Limit::fit(&trials.collect::<Vec<_>>()))
}

/// Residuals of every network, predicted from all others.
fn left_out(digest: &[Step]) -> Vec<Residuals> {
    let mut networks: Vec<&str> = digest.iter().map(|step| step.network.as_str()).collect();
    networks.sort_unstable();
    networks.dedup();
    let residuals = networks.iter().filter_map(|name| {
        let (own, others): (Vec<&Step>, Vec<&Step>) = digest.iter().partition(|step| step.network == *name);
        if others.iter().all(|step| step.used.is_none()) {
            return None;
        }
        let (curve, _) = fit(&others);
        let residual = |step: &&Step| Some((step.used? / curve.at(step.simulated.reserved)).ln());
        Some(own.iter().filter_map(residual).collect())
    });
    residuals.collect()
}

/// Every row and every failure to fit, simulated; each network is prepared once.
fn digest(stage: Stage, observations: &Observations) -> Vec<Step> {
    let passed = observations.rows.iter().map(|row| (&row.network, &row.record, Some(row.measured)));
    let attempts = observations.failed.iter().filter(|attempt| attempt.did_not_fit());
    let failed = attempts.map(|attempt| (&attempt.network, &attempt.record, None));
    let mut simulations: BTreeMap<*const Network, Simulation> = BTreeMap::new();
    let steps = passed.chain(failed).map(|(network, record, used)| {
        let key = Arc::as_ptr(network);
        let simulation = simulations.entry(key).or_insert_with(|| simulation(network, stage, observations.target));
        Step {
            network: record.variant.network.clone(),
            simulated: Simulated::of(simulation, record.workload.batch),
            used,
        }
    });
    steps.collect()
}
