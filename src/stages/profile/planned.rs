//! A configuration with its network file and dataset: all that its measurement and its rows need.

use super::test_config::NetworkTests;
use crate::device::Job;
use crate::plan::{Configuration, regroup};
use crate::records::Identity;
use crate::workload::Quantity;
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
        self.job_for(&self.configuration.quantities)
    }

    /// These quantities of it, for a device.
    pub(super) fn job_for(&self, quantities: &[Quantity]) -> Job {
        Job {
            variant: self.configuration.variant.clone(),
            file: self.file.clone(),
            workload: self.configuration.workload,
            latency: quantities.contains(&Quantity::Latency),
            memory: quantities.contains(&Quantity::Memory),
        }
    }

    /// The rows it ends in.
    pub(super) fn identities(&self) -> impl Iterator<Item = Identity> {
        let Configuration { variant, workload, quantities } = &self.configuration;
        quantities.iter().map(|&quantity| Identity { variant: variant.clone(), workload: *workload, quantity })
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
