//! A configuration with its network file and dataset: the input of its measurement and its rows.

use super::calibration::is_calibration;
use super::test_config::NetworkTests;
use crate::device::MeasurementJob;
use crate::plan::{Configuration, regroup};
use crate::records::MeasurementIdentity;
use perf4sight_step::workload::{Step, Variable};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A configuration that is to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedMeasurement {
    /// The configuration.
    pub configuration: Configuration,
    /// The network's file.
    pub file: PathBuf,
    /// The dataset it is for.
    pub dataset: String,
}

impl PlannedMeasurement {
    /// The job for a device.
    pub fn job(&self) -> MeasurementJob {
        let variables = &self.configuration.variables;
        MeasurementJob {
            latency: variables.contains(&Variable::Latency),
            memory: variables.contains(&Variable::Memory),
            layers: variables.contains(&Variable::Layers),
            round: self.configuration.round,
            ..MeasurementJob::new(&self.configuration.variant, &self.file, self.configuration.workload)
        }
    }

    pub(super) fn with_variable(&self, variable: Variable) -> PlannedMeasurement {
        let configuration = Configuration { variables: vec![variable], ..self.configuration.clone() };
        PlannedMeasurement { configuration, ..self.clone() }
    }

    /// The same for a second measurement.
    pub(super) fn for_repetition(&self) -> PlannedMeasurement {
        PlannedMeasurement { configuration: Configuration { round: 2, ..self.configuration.clone() }, ..self.clone() }
    }

    pub(super) fn identities(&self) -> impl Iterator<Item = MeasurementIdentity> {
        let Configuration { variant, workload, variables, .. } = &self.configuration;
        variables.iter().map(|&variable| MeasurementIdentity {
            variant: variant.clone(),
            workload: *workload,
            variable,
        })
    }
}

/// The number of configurations of every network and step that come first if time is limited; it is the minimum of the
/// adaptive plan ([`RowShare`](crate::plan::RowShare)). With three networks, six of whose ten levels are fitted on, a fit
/// has its ten rows after the thirteenth.
const ESSENTIAL: usize = 12;

/// The sort key of a configuration: its milliseconds; then, of equally cheap ones, the larger batch, so that batch
/// sizes are mixed early; then its index.
type CostKey = (u64, Reverse<u64>, usize);

/// The order if time is limited: the cheapest configurations of every network come first, alternating between
/// networks, so that a fit has its rows however slow the machine is. The others stay in their order. Also returns how
/// many come first. `seconds` are the estimates for each configuration.
pub(super) fn cheapest_first(planned: &[PlannedMeasurement], seconds: &[f64]) -> (Vec<Configuration>, usize) {
    let mut networks: BTreeMap<(&str, Step), Vec<CostKey>> = BTreeMap::new();
    for (at, (one, seconds)) in planned.iter().zip(seconds).enumerate() {
        let Configuration { variant, workload, round, .. } = &one.configuration;
        if *round == 1 && !is_calibration(one) {
            let cost = ((1e3 * seconds).round() as u64, Reverse(workload.batch), at);
            networks.entry((&variant.network, workload.step)).or_default().push(cost);
        }
    }
    let mut first: Vec<(usize, CostKey)> = Vec::new();
    for mut costs in networks.into_values() {
        costs.sort_unstable();
        first.extend(costs.into_iter().take(ESSENTIAL).enumerate());
    }
    first.sort_unstable();
    let first: Vec<usize> = first.into_iter().map(|(_, (_, _, at))| at).collect();
    let rest = (0..planned.len()).filter(|at| !first.contains(at));
    (first.iter().copied().chain(rest).map(|at| planned[at].configuration.clone()).collect(), first.len())
}

/// The order in which configurations run, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunOrder {
    /// The number of times each one runs. All run once before any runs again, so that repeats show changes of the
    /// machine over time.
    pub rounds: u32,
    /// The seed that shuffles every round, so that a machine that slows down, for example from heat, does not bias
    /// large batches or the last networks. None: by variant, in ascending order of the batch sizes.
    pub shuffled: Option<u64>,
}

/// The configurations of all networks in the order they run; `locate` maps a file on the device to a local file.
pub(super) fn plan_measurements(
    tests: &[NetworkTests],
    order: RunOrder,
    locate: impl Fn(&Path) -> PathBuf,
) -> Vec<PlannedMeasurement> {
    let mut random = order.shuffled.map(Xoshiro256PlusPlus::seed_from_u64);
    let mut planned = Vec::new();
    for round in 1..=order.rounds {
        let first = planned.len();
        for network in tests {
            for configuration in regroup(&network.sweep.tests()) {
                let at = network.sweep.variants.iter().position(|variant| *variant == configuration.variant);
                let Some(file) = at.and_then(|at| network.files.get(at)) else { continue };
                let configuration = Configuration { round, ..configuration };
                planned.push(PlannedMeasurement {
                    file: locate(file),
                    dataset: network.dataset.clone(),
                    configuration,
                });
            }
        }
        random.iter_mut().for_each(|random| planned[first..].shuffle(random));
    }
    planned
}
