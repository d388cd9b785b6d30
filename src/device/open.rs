//! From the words of a configuration to a device.

use super::local::Local;
use super::names::DeviceName;
use super::protocol::StepRule;
use super::recorded::Recorded;
use super::simulated::{Abilities, Simulated};
use super::{Device, LIBTORCH, machine};
use crate::error::{Error, Result};
use crate::records::Setting;
use crate::units::Bytes;
use crate::workload::Stage;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a configuration says about its device.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Which one.
    pub name: DeviceName,
    /// What a simulated device can do, or the profile that a recorded one answers from.
    pub source: Option<PathBuf>,
    /// Threads of the compute library; none: as many as the machine runs at the same time.
    pub threads: Option<usize>,
    /// Memory that measurements may take; none: the device's default.
    pub mem_limit: Option<Bytes>,
    /// Time after which a worker is taken for hung.
    pub timeout: Duration,
    /// Seed of weights, data and simulated noise.
    pub seed: u64,
}

/// Opens the device; `executable` is this program, which is its own worker. A recorded device holds rows of the known
/// `networks`.
///
/// # Errors
/// A device that cannot run here or in this build, or whose source cannot be read.
pub fn open(options: &Options, executable: &Path, networks: &[&str]) -> Result<Box<dyn Device>> {
    options.name.check_runnable()?;
    match options.name {
        DeviceName::Simulated => Ok(Box::new(Simulated {
            abilities: options.source.as_deref().map_or(Ok(Abilities::default()), Abilities::load)?,
            mem_limit: options.mem_limit,
            seed: options.seed,
        })),
        DeviceName::Recorded => {
            let source = options.source.as_deref().ok_or_else(|| {
                Error::config("a recorded device needs the profile it answers from")
                    .expected("device_source = the folder that holds latency and memory")
            })?;
            // Published rows name no stage; they are of training steps.
            Ok(Box::new(Recorded::open(source, networks.iter().copied(), Stage::Training)?))
        }
        _ => local(options, executable).map(|device| Box::new(device) as Box<dyn Device>),
    }
}

fn local(options: &Options, executable: &Path) -> Result<Local> {
    Ok(Local {
        worker: (executable.to_owned(), vec!["worker".to_owned()]),
        software: software()?,
        threads: options.threads.unwrap_or_else(machine::threads),
        mem_limit: options.mem_limit,
        timeout: options.timeout,
        seed: options.seed,
        steps: StepRule::default(),
    })
}

/// What the worker in this program runs networks with.
fn software() -> Result<Setting> {
    let libtorch = LIBTORCH.ok_or_else(|| {
        Error::device("this program was built without libtorch, so it cannot measure on the cpu")
            .help("build it with the feature `torch` (on by default), or set device = simulated or recorded")
    })?;
    Ok([("libtorch".to_owned(), libtorch.to_owned())].into())
}
