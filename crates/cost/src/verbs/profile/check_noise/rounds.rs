//! Measures the same configurations repeatedly, each time in a new worker.

use crate::device::{Device, Measurement, MeasurementJob};
use perf4sight_base::error::{Error, Result};
use perf4sight_machine::{Conditions, RunWatch};
use perf4sight_verb::Context;
use std::time::Duration;

/// The maximum number of rounds. The noise is then known to within a fifth; without a maximum, devices that answer
/// immediately would never finish.
const MOST: u32 = 20;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct NoiseMeasurement {
    pub batch: u64,
    /// Seconds from the start of the check to its end.
    pub at: f64,
    /// Its duration, including start-up.
    pub took: Duration,
    /// Median milliseconds of a step.
    pub milliseconds: f64,
    /// Half-width of that median's confidence interval, relative to it.
    pub spread: f64,
    pub steps: usize,
    /// The number of steps that other programs disturbed, whether or not they could be replaced.
    pub disturbed_steps: usize,
    /// Whether a profile would repeat it.
    pub doubtful: bool,
    /// The conditions that the machine reported.
    pub conditions: Conditions,
}

pub(super) struct NoiseRounds<'a> {
    pub device: &'a dyn Device,
    pub jobs: &'a [MeasurementJob],
    pub time: Duration,
}

impl NoiseRounds<'_> {
    /// Measures round after round until the next measurement would exceed the time, or there are enough rounds; at
    /// least until one configuration was measured twice.
    ///
    /// Every second round is in reverse order, so that a device that slows down affects all configurations equally.
    ///
    /// # Errors
    /// A configuration that fails.
    pub fn take(&self, context: &Context) -> Result<Vec<NoiseMeasurement>> {
        let began = context.now();
        let elapsed = || context.now().duration_since(began).unwrap_or_default();
        let progress = context.console.progress(self.time.as_secs(), "seconds");
        let (mut taken, mut shown): (Vec<NoiseMeasurement>, u64) = (Vec::new(), 0);
        for (round, job) in self.in_order() {
            let last = taken.iter().rfind(|one| one.batch == job.workload.batch).map(|one| one.took);
            let over = elapsed() + last.unwrap_or_default() > self.time;
            if context.cancelled() || (over && taken.len() > self.jobs.len()) {
                break;
            }
            progress.set_item(format!("batch size {}, round {round}", job.workload.batch));
            let before = elapsed();
            let Some(one) = self.measure(&MeasurementJob { round, ..job.clone() }, context)? else { break };
            taken.push(NoiseMeasurement { at: elapsed().as_secs_f64(), took: elapsed().saturating_sub(before), ..one });
            let now = elapsed().min(self.time).as_secs();
            progress.advance(now - std::mem::replace(&mut shown, now));
        }
        Ok(taken)
    }

    fn in_order(&self) -> impl Iterator<Item = (u32, &MeasurementJob)> {
        (1..=MOST).flat_map(move |round| {
            let backwards = round % 2 == 0;
            let count = self.jobs.len();
            (0..count).map(move |at| (round, &self.jobs[if backwards { count - 1 - at } else { at }]))
        })
    }

    /// None after Ctrl-C.
    fn measure(&self, job: &MeasurementJob, context: &Context) -> Result<Option<NoiseMeasurement>> {
        self.device.check(job)?;
        let waiting = |what: &str| context.console.note(format_args!("waiting: {what}"));
        let measurement =
            self.device.measure(job, &RunWatch { waiting: &waiting, ..RunWatch::quiet(&context.cancel) })?;
        let refused = |why: &str| {
            let batch = job.workload.batch;
            Error::device(format!("batch size {batch} of {}: {why}", job.variant.network))
                .help("choose others with --network and --bs")
        };
        let doubtful = measurement.reason_to_distrust().is_some();
        match measurement {
            Measurement::Measured { latency: Some(latency), conditions, .. } => Ok(Some(NoiseMeasurement {
                batch: job.workload.batch,
                at: 0.0,
                took: Duration::ZERO,
                milliseconds: latency.median,
                spread: latency.spread,
                steps: latency.steps + latency.discarded,
                disturbed_steps: if latency.disturbed { latency.steps } else { latency.discarded },
                doubtful,
                conditions: *conditions,
            })),
            Measurement::Interrupted => Ok(None),
            Measurement::Measured { .. } => Err(refused("no time was measured")),
            Measurement::OutOfMemory { .. } => Err(refused("it does not fit")),
            Measurement::Broken { outcome, reason } => Err(refused(&format!("{outcome}: {reason}"))),
        }
    }
}
