//! The same configurations measured over and over, each time in a fresh worker.

use crate::device::{Allowance, Device, Job, Measurement, Watch};
use crate::error::{Error, Result};
use crate::records::{Conditions, Variant};
use crate::stages::Context;
use crate::workload::Workload;
use std::path::Path;
use std::time::Duration;

/// Rounds without which nothing can be said.
const FEWEST: u32 = 3;
/// With so many the noise itself is known to a fifth; devices that answer at once would else never come to an end.
const MOST: u32 = 20;

/// One measurement of one configuration.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Taken {
    /// Its batch size.
    pub batch: u64,
    /// Seconds from the beginning to its end.
    pub at: f64,
    /// Median milliseconds of a step.
    pub milliseconds: f64,
    /// Half-width of that median's confidence interval, relative to it.
    pub spread: f64,
    /// Steps that were timed.
    pub steps: usize,
    /// Those of them that others disturbed, whether or not they could be replaced.
    pub disturbed_steps: usize,
    /// Whether a profile would measure it once more.
    pub doubtful: bool,
    /// What the machine told.
    pub conditions: Conditions,
}

/// What to measure, and for how long.
pub(super) struct Rounds<'a> {
    pub device: &'a dyn Device,
    pub jobs: &'a [Job],
    pub time: Duration,
}

/// A configuration of which the time matters.
pub(super) fn job(variant: &Variant, file: &Path, workload: Workload) -> Job {
    Job {
        variant: variant.clone(),
        file: file.to_owned(),
        workload,
        latency: true,
        memory: false,
        layers: false,
        round: 1,
        allowance: Allowance::default(),
    }
}

impl Rounds<'_> {
    /// Whole rounds until the time is over or there are enough.
    ///
    /// Every other round goes backwards, so that a device that gets slower does so for all configurations alike.
    ///
    /// # Errors
    /// A configuration that does not run.
    pub fn take(&self, context: &Context) -> Result<Vec<Taken>> {
        let began = context.now();
        let elapsed = || context.now().duration_since(began).unwrap_or_default();
        let progress = context.console.progress(self.time.as_secs(), "seconds");
        let (mut taken, mut shown) = (Vec::new(), 0);
        for round in 1..=MOST {
            // A round more would take as long as those before did on average.
            if context.cancelled()
                || (round > FEWEST && elapsed().mul_f64(f64::from(round) / f64::from(round - 1)) > self.time)
            {
                break;
            }
            let mut jobs: Vec<&Job> = self.jobs.iter().collect();
            if round % 2 == 0 {
                jobs.reverse();
            }
            for job in jobs {
                let Some(one) = self.one(&Job { round, ..job.clone() }, context)? else { return Ok(taken) };
                taken.push(Taken { at: elapsed().as_secs_f64(), ..one });
            }
            let now = elapsed().min(self.time).as_secs();
            progress.advance(now - std::mem::replace(&mut shown, now));
        }
        Ok(taken)
    }

    /// None after Ctrl-C.
    fn one(&self, job: &Job, context: &Context) -> Result<Option<Taken>> {
        self.device.check(job)?;
        let waiting = |what: &str| context.console.note(format_args!("waiting: {what}"));
        let measurement = self.device.measure(job, &Watch { cancelled: &context.cancel, waiting: &waiting })?;
        let refused = |why: &str| {
            let batch = job.workload.batch;
            Error::device(format!("batch size {batch} of {}: {why}", job.variant.network))
                .help("choose others with --network and --bs")
        };
        let doubtful = measurement.doubt().is_some();
        match measurement {
            Measurement::Measured { latency: Some(latency), conditions, .. } => Ok(Some(Taken {
                batch: job.workload.batch,
                at: 0.0,
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
