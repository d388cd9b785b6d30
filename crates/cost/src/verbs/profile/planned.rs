//! A configuration with its network file and dataset: all that its measurement and its rows need.

use super::test_config::NetworkTests;
use crate::device::{Allowance, Job};
use crate::plan::{Configuration, regroup};
use crate::records::Identity;
use perf4sight_step::workload::Variable;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::path::{Path, PathBuf};

/// A configuration that is to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// What is measured.
    pub configuration: Configuration,
    /// The network's file.
    pub file: PathBuf,
    /// The dataset it is for.
    pub dataset: String,
}

impl Planned {
    /// All of it, for a device.
    pub fn job(&self) -> Job {
        let variables = &self.configuration.variables;
        Job {
            variant: self.configuration.variant.clone(),
            file: self.file.clone(),
            workload: self.configuration.workload,
            latency: variables.contains(&Variable::Latency),
            memory: variables.contains(&Variable::Memory),
            layers: variables.contains(&Variable::Layers),
            round: self.configuration.round,
            allowance: Allowance::default(),
        }
    }

    /// The same, with nothing but one variable of it.
    pub(super) fn only(&self, variable: Variable) -> Planned {
        let configuration = Configuration { variables: vec![variable], ..self.configuration.clone() };
        Planned { configuration, ..self.clone() }
    }

    /// The same, a second time.
    pub(super) fn again(&self) -> Planned {
        Planned { configuration: Configuration { round: 2, ..self.configuration.clone() }, ..self.clone() }
    }

    /// The rows it ends in.
    pub(super) fn identities(&self) -> impl Iterator<Item = Identity> {
        let Configuration { variant, workload, variables, .. } = &self.configuration;
        variables.iter().map(|&variable| Identity { variant: variant.clone(), workload: *workload, variable })
    }
}

/// In which order configurations run, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    /// How often each of them. All run once before any runs again, so that repeats tell how the machine changes meanwhile.
    pub rounds: u32,
    /// The seed that every round is shuffled with, so that a machine that gets slower, by heat say, does not make it look as if large
    /// batches were, or the networks that come last. None: by variant, in ascending order of the batch sizes.
    pub shuffled: Option<u64>,
}

/// The configurations of all networks in the order they run; `locate` finds a file of the device here.
pub(super) fn of(tests: &[NetworkTests], order: Order, locate: impl Fn(&Path) -> PathBuf) -> Vec<Planned> {
    let mut random = order.shuffled.map(Xoshiro256PlusPlus::seed_from_u64);
    let mut planned = Vec::new();
    for round in 1..=order.rounds {
        let first = planned.len();
        for network in tests {
            for configuration in regroup(&network.sweep.tests()) {
                let at = network.sweep.variants.iter().position(|variant| *variant == configuration.variant);
                let Some(file) = at.and_then(|at| network.files.get(at)) else { continue };
                let configuration = Configuration { round, ..configuration };
                planned.push(Planned { file: locate(file), dataset: network.dataset.clone(), configuration });
            }
        }
        random.iter_mut().for_each(|random| planned[first..].shuffle(random));
    }
    planned
}
