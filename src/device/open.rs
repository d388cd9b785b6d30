//! From the words of a configuration to a device.

use super::local::Local;
use super::names::DeviceName;
use super::program::Program;
use super::protocol::StepRule;
use super::recorded::Recorded;
use super::simulated::{Abilities, Simulated};
use super::{Device, machine};
use crate::error::{Error, Result};
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
    /// The command of somebody else's worker, word by word; empty: this program.
    pub worker: Vec<String>,
    /// Which of several GPUs.
    pub gpu: u32,
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
    options.check_runnable()?;
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

/// Time after which a worker is taken for hung, where nobody says otherwise.
const TIMEOUT: Duration = Duration::from_secs(600);

impl Options {
    /// A device, and nothing else said about it.
    pub fn new(name: DeviceName) -> Self {
        Options {
            name,
            source: None,
            worker: Vec::new(),
            gpu: 0,
            threads: None,
            mem_limit: None,
            timeout: TIMEOUT,
            seed: 0,
        }
    }

    /// Refuses a device that nothing here can run networks on.
    ///
    /// # Errors
    /// Why, and what would help.
    pub fn check_runnable(&self) -> Result<()> {
        match (self.name, self.worker.is_empty()) {
            (name, true) => name.check_runnable(),
            (DeviceName::Simulated | DeviceName::Recorded, false) => {
                Err(Error::config(format!("a {} device runs nothing, so it needs no worker", self.name.name()))
                    .help("leave worker out, or set the device it runs networks on"))
            }
            _ => Ok(()),
        }
    }
}

fn local(options: &Options, executable: &Path) -> Result<Local> {
    let worker = match options.worker.as_slice() {
        [] => Program::own(executable)?,
        words => Program::ask(words, options.timeout)?,
    };
    worker.check_place(&options.name.place(options.gpu))?;
    Ok(Local {
        name: options.name,
        gpu: options.gpu,
        worker,
        threads: options.threads.unwrap_or_else(machine::threads),
        mem_limit: options.mem_limit,
        timeout: options.timeout,
        seed: options.seed,
        steps: StepRule::default(),
    })
}
