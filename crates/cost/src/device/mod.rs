//! Devices: they run a network and report its time and memory.
//!
//! [`hardware`] measures in worker processes, on this machine or over ssh. [`simulated`] computes. [`recorded`] looks
//! up recorded rows. All take the same [`MeasurementJob`] and return the same [`Measurement`], so callers need not distinguish
//! them.

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

pub use open::{DeviceOptions, GpuOptions, open, open_all};

use crate::records::{MeasurementOutcome, Variant};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_machine::{Conditions, MachineProperties, RunWatch};
use perf4sight_onnx as onnx;
use perf4sight_step::workload::{Checkpoint, Step, Trainable, Workload};
use protocol::{LatencyReading, LayersReading, MemoryReading, StepRule};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A device that runs a network and reports its time and memory.
pub trait Device: Sync {
    /// Its name in configuration files.
    fn name(&self) -> &str;

    /// The memory that a network may use on it, if known.
    fn capacity(&self) -> Option<Bytes>;

    /// The facts that its measurements depend on; rows measured under different settings are not comparable.
    fn setting(&self) -> MachineProperties;

    /// Whether it can answer this job; a recorded device answers only the jobs that it has rows of.
    fn offers(&self, _job: &MeasurementJob) -> bool {
        true
    }

    /// Refuses a job that is certain to fail, before anything runs.
    ///
    /// # Errors
    /// The missing file or feature.
    fn check(&self, job: &MeasurementJob) -> Result<()>;

    /// Runs one configuration. Running out of memory, crashing and hanging are outcomes.
    ///
    /// # Errors
    /// When the device as a whole cannot measure.
    fn measure(&self, job: &MeasurementJob, watch: &RunWatch<'_>) -> Result<Measurement>;
}

/// A warning if the software of this setting is much slower than the hardware allows.
pub fn slow_arithmetic(setting: &MachineProperties) -> Option<&'static str> {
    let reference = setting.get("blas").is_some_and(|blas| blas == "reference");
    reference.then_some(
        "PyTorch multiplies matrices by the reference BLAS here, many times slower than by others (on Debian: apt-get install \
         libopenblas0); times are those of a PyTorch that computes so",
    )
}

/// One configuration to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasurementJob {
    /// The network at its level.
    pub variant: Variant,
    /// The network's file.
    pub file: PathBuf,
    /// Stage and batch size.
    pub workload: Workload,
    /// Whether steps are timed.
    pub latency: bool,
    /// Whether memory is counted.
    pub memory: bool,
    /// Whether every operation of a step is timed.
    pub layers: bool,
    /// The number of this repetition, from 1 on.
    pub round: u32,
    /// Limits on its duration.
    pub allowance: RunAllowance,
}

impl MeasurementJob {
    /// A first run that measures nothing yet, without limits of its own.
    pub fn new(variant: &Variant, file: &Path, workload: Workload) -> Self {
        MeasurementJob {
            variant: variant.clone(),
            file: file.to_owned(),
            workload,
            latency: false,
            memory: false,
            layers: false,
            round: 1,
            allowance: RunAllowance::default(),
        }
    }
}

/// Limits on the duration of one run, where they are tighter than the device's own.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RunAllowance {
    /// The rule for when enough steps were timed; none: the device's own.
    pub steps: Option<StepRule>,
    /// Time after which the worker counts as hung, if shorter than the device's own.
    pub timeout: Option<Duration>,
    /// Whether other programs keep the processors busy, so that the worker is started with a higher priority.
    pub among_others: bool,
}

/// The result of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Measurement {
    /// The step ran; it has each reading that the job requested.
    Measured {
        /// Time of a step.
        latency: Option<LatencyReading>,
        /// Peaks of the step, where memory was requested.
        memory: Option<MemoryReading>,
        /// Times of its operations.
        layers: Option<LayersReading>,
        /// Seconds the device spent in steps.
        seconds: f64,
        /// The conditions of the machine before and after.
        conditions: Box<Conditions>,
    },
    /// The step did not fit.
    OutOfMemory {
        /// The memory counted until then, if the worker survived.
        memory: Option<MemoryReading>,
        /// Seconds spent in steps until then, if the worker survived; otherwise 0.
        seconds: f64,
    },
    /// There is no result, for a reason other than memory.
    Broken {
        /// One of `Failed`, `Crashed`, `TimedOut` and `Garbled`.
        outcome: MeasurementOutcome,
        /// What happened, for people.
        reason: String,
    },
    /// Ctrl-C came first.
    Interrupted,
}

impl Measurement {
    fn broken_run(outcome: MeasurementOutcome, reason: impl AsRef<str>) -> Self {
        Measurement::Broken { outcome, reason: one_line(reason.as_ref()) }
    }

    /// Seconds that the device spent in steps; start-up and bookkeeping are not included.
    pub fn seconds(&self) -> f64 {
        match self {
            Measurement::Measured { seconds, .. } | Measurement::OutOfMemory { seconds, .. } => *seconds,
            Measurement::Broken { .. } | Measurement::Interrupted => 0.0,
        }
    }

    /// The reason not to trust its times, and the outcome for it; none if there is no such reason or there are no
    /// times.
    pub fn reason_to_distrust(&self) -> Option<(MeasurementOutcome, String)> {
        let Measurement::Measured { latency, layers, conditions, .. } = self else { return None };
        if latency.is_none() && layers.is_none() {
            return None;
        }
        let disturbed = latency.as_ref().is_some_and(|latency| latency.disturbed)
            || layers.as_ref().is_some_and(|layers| layers.disturbed);
        let steps = || disturbed.then(|| "other programs kept using the processor".to_owned());
        let throttled = conditions.throttling().map(|why| (MeasurementOutcome::Throttled, why));
        throttled.or_else(|| Some((MeasurementOutcome::Disturbed, conditions.disturbance().or_else(steps)?)))
    }

    /// The outcome for the row; none if there is no row.
    pub fn outcome(&self) -> Option<MeasurementOutcome> {
        match self {
            Measurement::Measured { .. } => {
                Some(self.reason_to_distrust().map_or(MeasurementOutcome::Measured, |(outcome, _)| outcome))
            }
            Measurement::OutOfMemory { .. } => Some(MeasurementOutcome::OutOfMemory),
            Measurement::Broken { outcome, .. } => Some(*outcome),
            Measurement::Interrupted => None,
        }
    }
}

/// The longest error message of a worker that is kept, in characters.
const LONGEST_REASON: usize = 4000;

/// A worker's message in one line of at most [`LONGEST_REASON`] characters. What an error expects and advises follows it; other line breaks and characters that change the
/// direction of text are escaped; otherwise a worker could forge lines of output.
fn one_line(words: &str) -> String {
    let mut line = String::new();
    for character in words.trim().replace("\n  ", "; ").chars().take(LONGEST_REASON) {
        match character {
            '"' | '\'' | '\\' => line.push(character),
            _ => line.extend(character.escape_debug()),
        }
    }
    line
}

/// Refuses jobs that are certain to fail, before anything runs. It also refuses steps that a network does not support;
/// for this it reads each network once. Every network supports the published step.
///
/// # Errors
/// As [`Device::check`] and [`Network::check_step`](perf4sight_network::Network::check_step), and a file that is no network.
pub fn check_all(device: &dyn Device, jobs: &[MeasurementJob]) -> Result<()> {
    jobs.iter().try_for_each(|job| device.check(job))?;
    let mut asked: BTreeMap<&Path, BTreeSet<Step>> = BTreeMap::new();
    let is_plain = |step: Step| (step.trainable, step.checkpoint) == (Trainable::All, Checkpoint::None);
    // A recorded device needs no network files.
    for job in jobs.iter().filter(|job| !is_plain(job.workload.step) && job.file.exists()) {
        asked.entry(&job.file).or_default().insert(job.workload.step);
    }
    asked.into_iter().try_for_each(|(file, steps)| {
        let network = onnx::read(file)?.network;
        steps.into_iter().try_for_each(|step| network.check_step(step))
    })
}

/// For devices that run nothing: they cannot time single operations.
fn refuse_layers(device: &dyn Device, job: &MeasurementJob) -> Result<()> {
    if !job.layers {
        return Ok(());
    }
    Err(Error::device(format!("{} cannot time the layers of {}: it runs none", device.name(), job.variant))
        .expected("device = cpu for profile_variables with layers")
        .help("take layers out of profile_variables"))
}
