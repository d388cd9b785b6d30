//! A configuration with its network file and dataset: all that its measurement and its rows need.

use super::test_config::NetworkTests;
use crate::device::Job;
use crate::plan::{Configuration, regroup};
use crate::records::Identity;
use crate::workload::Variable;
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
        self.job_for(&self.configuration.variables)
    }

    /// These variables of it, for a device.
    pub(super) fn job_for(&self, variables: &[Variable]) -> Job {
        Job {
            variant: self.configuration.variant.clone(),
            file: self.file.clone(),
            workload: self.configuration.workload,
            latency: variables.contains(&Variable::Latency),
            memory: variables.contains(&Variable::Memory),
            layers: variables.contains(&Variable::Layers),
        }
    }

    /// The rows it ends in.
    pub(super) fn identities(&self) -> impl Iterator<Item = Identity> {
        let Configuration { variant, workload, variables } = &self.configuration;
        variables.iter().map(|&variable| Identity { variant: variant.clone(), workload: *workload, variable })
    }
}

/// The configurations of all networks in the order they run; `locate` finds a file of the device here.
pub(super) fn of(tests: &[NetworkTests], locate: impl Fn(&Path) -> PathBuf) -> Vec<Planned> {
    let mut planned = Vec::new();
    for network in tests {
        for configuration in regroup(&network.sweep.tests()) {
            let at = network.sweep.variants.iter().position(|variant| *variant == configuration.variant);
            let Some(file) = at.and_then(|at| network.files.get(at)) else { continue };
            planned.push(Planned { file: locate(file), dataset: network.dataset.clone(), configuration });
        }
    }
    planned
}
