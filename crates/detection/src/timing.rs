//! Evaluates the steps of a detector: rate, parts, percentiles, and whether data or the device is the bottleneck.

use perf4sight_base::stats::{mean, percentile};
use perf4sight_base::units::count_text;
use perf4sight_step::detection::{MeasuredDetection, StepSeconds, StepSeries};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The share of a step spent waiting for data from which on loading it is worth changing.
const WORTH_CHANGING: f64 = 0.1;
/// A loss that many times the first one is that of a training which diverges.
const DIVERGED: f64 = 10.0;

/// Steps of one setting.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StepTiming {
    /// Images a second, of steps that ran freely.
    pub rate: f64,
    /// Range of the value in 19 of 20 such runs, if steps differ by chance; none of fewer than three steps.
    pub interval: Option<(f64, f64)>,
    /// Mean seconds of each part of an exact step.
    pub parts: [f64; 6],
    /// Mean seconds of an exact step.
    pub exact: f64,
    /// Mean seconds of a step that ran freely.
    pub plain: f64,
    /// Seconds of a free step that nine of ten and 99 of 100 stay below; none of fewer steps than ten and a hundred.
    pub percentiles: [Option<f64>; 2],
    /// Mean seconds of the first steps.
    pub first: f64,
    /// Mean seconds that an epoch takes to begin.
    pub epoch_start: f64,
}

impl StepTiming {
    /// Of steps of `batch` images; none where there are none.
    pub fn from_measured(measured: &MeasuredDetection, batch: u64) -> Option<Self> {
        let steps: Vec<f64> = measured.plain.parts.iter().map(StepSeconds::sum).collect();
        let (plain, exact, first) =
            (step_seconds(&measured.plain)?, step_seconds(&measured.exact)?, step_seconds(&measured.first)?);
        let images = batch as f64;
        Some(StepTiming {
            rate: images / plain,
            interval: half_width(&steps).map(|half| (images / (plain + half), images / (plain - half).max(0.0))),
            parts: part_means(&measured.exact),
            exact,
            plain,
            percentiles: [(10, 90.0), (100, 99.0)]
                .map(|(least, percent)| (steps.len() >= least).then(|| percentile(&steps, percent))),
            first,
            epoch_start: mean(&measured.epoch_starts),
        })
    }

    /// The share of a free step that waits for data: exact ones leave loaders time to get ahead.
    pub fn waiting(&self, measured: &MeasuredDetection) -> f64 {
        part_means(&measured.plain)[0] / self.plain
    }

    /// Seconds of an epoch of so many images, in whole batches.
    pub fn epoch(&self, images: u64, batch: u64) -> f64 {
        (images / batch) as f64 * self.plain + self.epoch_start
    }

    /// How many worker processes of the DataLoader would keep up with the device, at their present rate: one loads a
    /// batch while the device computes with another; where the device waits for `num_workers` processes, they deliver
    /// as many batches in that step as there are processes.
    pub fn workers_needed(&self, measured: &MeasuredDetection, num_workers: u64) -> u64 {
        let waiting = part_means(&measured.plain)[0];
        let loading = if num_workers == 0 { waiting } else { self.plain * num_workers as f64 };
        (loading / (self.plain - waiting).max(f64::MIN_POSITIVE)).ceil().min(1e6) as u64
    }
}

/// The cause that slowed a setting's steps down: other programs in most of them, a hypervisor, throttled clocks.
pub(super) fn disturbance(measured: &MeasuredDetection) -> Option<String> {
    let StepSeries { parts, disturbed, .. } = &measured.plain;
    let steps = parts.len() as u64;
    let others = (2 * disturbed > steps).then(|| {
        format!("other programs had processors that it waited for in {disturbed} of {}", count_text(steps, "free step"))
    });
    others.or_else(|| measured.conditions.disturbance()).or_else(|| measured.conditions.throttling())
}

/// Whether loading data is worth changing.
pub(super) fn waits_for_data(share: f64) -> bool {
    share > WORTH_CHANGING
}

/// The problem with the losses of a training; its times are then not those of a training that learns.
pub(super) fn losses_doubt(losses: &[Option<f64>]) -> Option<String> {
    if let Some(step) = losses.iter().position(Option::is_none) {
        return Some(format!("the loss of step {} is not a finite number", step + 1));
    }
    let first = losses.first().copied().flatten()?;
    let highest = losses.iter().flatten().fold(first, |highest, loss| highest.max(*loss));
    // A loss of a user's own may be negative, or begin with nothing.
    (first != 0.0 && highest > DIVERGED * first.abs())
        .then(|| format!("the loss rose from {first:.3} to {highest:.3}: training diverges"))
}

/// Mean seconds of a step, by the clock around all of them.
fn step_seconds(phase: &StepSeries) -> Option<f64> {
    (!phase.parts.is_empty()).then(|| phase.seconds / phase.parts.len() as f64)
}

fn part_means(phase: &StepSeries) -> [f64; 6] {
    std::array::from_fn(|part| mean(&phase.parts.iter().map(|parts| parts.in_order()[part]).collect::<Vec<_>>()))
}

/// Half of Student's 95 % interval of a mean.
fn half_width(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let student = (count >= 3.0).then(|| StudentsT::new(0.0, 1.0, count - 1.0)).and_then(Result::ok)?;
    let middle = mean(values);
    let variance = values.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / (count - 1.0);
    Some(student.inverse_cdf(0.975) * (variance / count).sqrt())
}
