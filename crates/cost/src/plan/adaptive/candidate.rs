//! The configurations that could be measured, with their properties before any measurement.

use crate::fingerprint::check_understood;
use crate::plan::Configuration;
use crate::records::Variant;
use perf4sight_base::units::Bytes;
use perf4sight_memory::Simulation;
use perf4sight_network::Network;
use perf4sight_platform::Platform;
use perf4sight_step::workload::Step;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A configuration that may be measured.
#[derive(Debug, Clone)]
pub struct OfferedConfiguration {
    /// What would be measured.
    pub configuration: Configuration,
    /// The network of that configuration, read once.
    pub network: Arc<Network>,
}

/// The number of coordinates that locate a candidate among the others.
pub(super) const PLACES: usize = 4;

#[derive(Debug, Clone)]
pub(super) struct PlanCandidate {
    pub configuration: Configuration,
    pub graph: Arc<Network>,
    pub network: usize,
    pub variant: usize,
    /// The memory of the step in MiB, by simulation; if too little of the network is understood to simulate it, the
    /// memory of its activations.
    pub demand: f64,
    pub simulated: bool,
    /// Natural logarithms of batch size, multiply-accumulates and activations of a sample, and memory.
    pub place: [f64; PLACES],
}

struct MemoryDemand {
    mib: f64,
    simulated: bool,
}

pub(super) fn candidates(offers: Vec<OfferedConfiguration>, platform: &Platform) -> Vec<PlanCandidate> {
    let variants: BTreeSet<Variant> = offers.iter().map(|offer| offer.configuration.variant.clone()).collect();
    let networks: BTreeSet<String> = variants.iter().map(|variant| variant.network.clone()).collect();
    let variants: BTreeMap<Variant, usize> = variants.into_iter().zip(0..).collect();
    let networks: BTreeMap<String, usize> = networks.into_iter().zip(0..).collect();
    let demands = demands(&offers, platform);
    let candidate =
        |(OfferedConfiguration { configuration, network }, demand): (OfferedConfiguration, MemoryDemand)| {
            let sizes = [configuration.workload.batch, network.macs(), network.activations()];
            let [batch, macs, activations] = sizes.map(|size| (size.max(1) as f64).ln());
            PlanCandidate {
                network: networks[&configuration.variant.network],
                variant: variants[&configuration.variant],
                place: [batch, macs, activations, demand.mib.ln()],
                configuration,
                graph: network,
                demand: demand.mib,
                simulated: demand.simulated,
            }
        };
    offers.into_iter().zip(demands).map(candidate).collect()
}

/// The memory of every offer; each variant is prepared for simulation once.
fn demands(offers: &[OfferedConfiguration], platform: &Platform) -> Vec<MemoryDemand> {
    let mut groups: BTreeMap<(&Variant, Step), Vec<usize>> = BTreeMap::new();
    for (at, OfferedConfiguration { configuration, .. }) in offers.iter().enumerate() {
        groups.entry((&configuration.variant, configuration.workload.step)).or_default().push(at);
    }
    let groups: Vec<((&Variant, Step), Vec<usize>)> = groups.into_iter().collect();
    let demands = groups.into_par_iter().flat_map_iter(|((_, step), group)| {
        let network = &offers[group[0]].network;
        let simulated = check_understood(network).is_ok();
        let simulation = simulated.then(|| Simulation::new(network, step, platform));
        let demand = |at: usize| {
            let batch = offers[at].configuration.workload.batch;
            let bytes = simulation
                .as_ref()
                .map_or_else(|| activations(network, step, batch), |known| known.peak(batch).reserved);
            // The logarithm is taken of it, so it must not be too small.
            (at, MemoryDemand { mib: bytes.mib().max(1.0), simulated })
        };
        group.into_iter().map(demand).collect::<Vec<_>>()
    });
    let demands: BTreeMap<usize, MemoryDemand> = demands.collect::<Vec<_>>().into_iter().collect();
    demands.into_values().collect()
}

fn activations(network: &Network, step: Step, batch: u64) -> Bytes {
    Bytes(network.activations().saturating_mul(step.activation()).saturating_mul(batch))
}
