//! Devices: what can run a network and say what it cost.
//!
//! [`hardware`] measures in worker processes, on this machine or over the network, [`simulated`] computes, [`recorded`] looks up.
//! All answer the same [`Job`] with the same [`Measurement`], so that what is built on them never knows which one it has.

pub mod hardware;
pub mod kind;
mod open;
mod possible;
pub mod program;
pub mod recorded;
mod rows;
mod shipping;
pub mod simulated;
#[cfg(test)]
mod tests;

pub use perf4sight_step::{protocol, sampling};

pub use open::{GpuOptions, Options, open, open_all};

use crate::records::{Outcome, Variant};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_machine::{Conditions, Setting, Watch};
use perf4sight_onnx as onnx;
use perf4sight_step::workload::{Checkpoint, Step, Trainable, Workload};
use protocol::{LatencyReading, LayersReading, MemoryReading, StepRule};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What can run a network and say what it cost.
pub trait Device: Sync {
    /// Its name in configuration files.
    fn name(&self) -> &str;

    /// The memory that a network may take on it, where that is known.
    fn capacity(&self) -> Option<Bytes>;

    /// What its measurements depend on; rows measured under another setting are not comparable.
    fn setting(&self) -> Setting;

    /// Whether it can answer this job at all: one that only looks up answers what it has.
    fn offers(&self, _job: &Job) -> bool {
        true
    }

    /// Refuses a job that can be known to fail before anything runs.
    ///
    /// # Errors
    /// What is missing, and where it should be.
    fn check(&self, job: &Job) -> Result<()>;

    /// Runs one configuration. Running out of memory, crashing and hanging are outcomes.
    ///
    /// # Errors
    /// When the device as a whole cannot measure.
    fn measure(&self, job: &Job, watch: &Watch<'_>) -> Result<Measurement>;
}

/// Why what is measured under such a setting may say little of what its hardware can.
pub fn slow_arithmetic(setting: &Setting) -> Option<&'static str> {
    let reference = setting.get("blas").is_some_and(|blas| blas == "reference");
    reference.then_some(
        "PyTorch multiplies matrices by the reference BLAS here, many times slower than by others (on Debian: apt-get install \
         libopenblas0); times are those of a PyTorch that computes so",
    )
}

/// One configuration to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The network at its level.
    pub variant: Variant,
    /// Its file.
    pub file: PathBuf,
    /// Stage and batch size.
    pub workload: Workload,
    /// Whether steps are timed.
    pub latency: bool,
    /// Whether memory is counted.
    pub memory: bool,
    /// Whether every operation of a step is timed.
    pub layers: bool,
    /// Which of its runs it is, from 1 on.
    pub round: u32,
    /// How long it may take.
    pub allowance: Allowance,
}

/// How long one run may take, where that is less than the device takes by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Allowance {
    /// When enough steps were timed; none: as the device has it.
    pub steps: Option<StepRule>,
    /// Time after which it counts as hung, if sooner than the device has it.
    pub timeout: Option<Duration>,
    /// Whether other programs keep the processors so busy that it has to be started otherwise.
    pub among_others: bool,
}

/// What became of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Measurement {
    /// The step ran; each reading is there when the job asked for it.
    Measured {
        /// Time of a step.
        latency: Option<LatencyReading>,
        /// Memory of a step.
        memory: Option<MemoryReading>,
        /// Times of its operations.
        layers: Option<LayersReading>,
        /// Seconds the device spent in steps.
        seconds: f64,
        /// What the machine told before and after.
        conditions: Box<Conditions>,
    },
    /// The step did not fit.
    OutOfMemory {
        /// What had been counted until then, by a worker that lived to tell.
        memory: Option<MemoryReading>,
        /// Seconds the device spent in steps until then, where it lived to tell.
        seconds: f64,
    },
    /// There is no result, for another reason than memory.
    Broken {
        /// One of `Failed`, `Crashed`, `TimedOut` and `Garbled`.
        outcome: Outcome,
        /// What happened, for people.
        reason: String,
    },
    /// Ctrl-C came first.
    Interrupted,
}

impl Measurement {
    fn broken(outcome: Outcome, reason: impl AsRef<str>) -> Self {
        Measurement::Broken { outcome, reason: one_line(reason.as_ref()) }
    }

    /// Seconds the device spent in steps; what a measurement took beyond them was start-up and bookkeeping.
    pub fn seconds(&self) -> f64 {
        match self {
            Measurement::Measured { seconds, .. } | Measurement::OutOfMemory { seconds, .. } => *seconds,
            Measurement::Broken { .. } | Measurement::Interrupted => 0.0,
        }
    }

    /// Why its times are not to be trusted, with the word for that; none where nothing speaks against them or there are none.
    pub fn doubt(&self) -> Option<(Outcome, String)> {
        let Measurement::Measured { latency, layers, conditions, .. } = self else { return None };
        if latency.is_none() && layers.is_none() {
            return None;
        }
        let disturbed = latency.as_ref().is_some_and(|latency| latency.disturbed)
            || layers.as_ref().is_some_and(|layers| layers.disturbed);
        let steps = || disturbed.then(|| "other programs kept using the processor".to_owned());
        let throttled = conditions.throttling().map(|why| (Outcome::Throttled, why));
        throttled.or_else(|| Some((Outcome::Disturbed, conditions.disturbance().or_else(steps)?)))
    }

    /// The word for the row; none when there will be no row.
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            Measurement::Measured { .. } => Some(self.doubt().map_or(Outcome::Measured, |(outcome, _)| outcome)),
            Measurement::OutOfMemory { .. } => Some(Outcome::OutOfMemory),
            Measurement::Broken { outcome, .. } => Some(*outcome),
            Measurement::Interrupted => None,
        }
    }
}

/// Characters that are kept of what a worker says.
const LONGEST_REASON: usize = 4000;

/// A worker's words in one line, at most [`LONGEST_REASON`] characters; what would break the line or turn its direction is escaped, for a
/// worker could else forge lines of ours.
fn one_line(words: &str) -> String {
    let mut line = String::new();
    for character in words.trim().chars().take(LONGEST_REASON) {
        match character {
            '"' | '\'' | '\\' => line.push(character),
            _ => line.extend(character.escape_debug()),
        }
    }
    line
}

/// Refuses jobs that can be known to fail before anything runs, also for steps that their networks cannot take; each network is read once, and
/// any can take the published step.
///
/// # Errors
/// As [`Device::check`] and [`Network::check_step`](perf4sight_network::Network::check_step), and a file that is no network.
pub fn check_all(device: &dyn Device, jobs: &[Job]) -> Result<()> {
    jobs.iter().try_for_each(|job| device.check(job))?;
    let mut asked: BTreeMap<&Path, BTreeSet<Step>> = BTreeMap::new();
    let is_plain = |step: Step| (step.trainable, step.checkpoint) == (Trainable::All, Checkpoint::None);
    // A device that only looks up needs no networks.
    for job in jobs.iter().filter(|job| !is_plain(job.workload.step) && job.file.exists()) {
        asked.entry(&job.file).or_default().insert(job.workload.step);
    }
    asked.into_iter().try_for_each(|(file, steps)| {
        let network = onnx::read(file)?.network;
        steps.into_iter().try_for_each(|step| network.check_step(step))
    })
}

/// For devices that run nothing: they know no single operations.
fn refuse_layers(device: &dyn Device, job: &Job) -> Result<()> {
    if !job.layers {
        return Ok(());
    }
    Err(Error::device(format!("{} cannot time the layers of {}: it runs none", device.name(), job.variant))
        .expected("device = cpu for profile_variables with layers")
        .help("take layers out of profile_variables"))
}
