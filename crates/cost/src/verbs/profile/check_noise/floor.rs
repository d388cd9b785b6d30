//! The noise of a device, from repeated measurements.

use super::rounds::NoiseMeasurement;
use perf4sight_base::stats::{mean, median, scatter, trend};
use perf4sight_machine::Conditions;
use std::collections::BTreeMap;

/// The noise in percent below which more repeats are not worth their time: predictions are several percent off for
/// other reasons.
const GOOD_ENOUGH: f64 = 1.0;
/// Above this number of repeats a quieter device is cheaper.
const MOST_REPEATS: f64 = 10.0;
/// A slope of more than this many standard errors is significant (two-sided 5 %).
const SIGNIFICANT: f64 = 2.0;

/// The noise of a device. All values are in percent unless stated otherwise.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NoiseFloor {
    /// Each batch size.
    pub configurations: Vec<RepeatedBatch>,
    /// The average deviation of one measurement from the truth: no prediction can be closer to single measurements.
    pub floor: f64,
    /// The same within a worker: the half-width of a median's 95 % interval, median over all runs.
    pub within: f64,
    /// How much the device slowed down from the first to the last measurement.
    pub drift: Option<NoiseDrift>,
    /// Steps that other programs disturbed.
    pub disturbed_steps: f64,
    /// Processor time that the hypervisor gave to other machines (steal time); none if the machine does not report it.
    pub stolen: Option<f64>,
    /// The number of measurements that a profile would repeat.
    pub doubtful: usize,
    /// The conditions that the machine reported before the first and after the last measurement.
    pub conditions: Conditions,
    /// Seconds that the whole check took.
    pub seconds: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RepeatedBatch {
    pub batch: u64,
    pub runs: usize,
    /// The median of their medians.
    pub milliseconds: f64,
    pub within: f64,
    pub between: f64,
    /// The largest deviation of a measurement from the median.
    pub worst: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NoiseDrift {
    /// In percent, from beginning to end; negative: the device got faster.
    pub percent: f64,
    pub error: f64,
}

impl NoiseDrift {
    pub fn is_significant(&self) -> bool {
        self.percent.abs() > SIGNIFICANT * self.error
    }
}

impl NoiseFloor {
    /// The noise from all measurements in order; none if nothing was measured twice.
    pub fn from_measurements(taken: &[NoiseMeasurement]) -> Option<Self> {
        let mut groups: BTreeMap<u64, Vec<&NoiseMeasurement>> = BTreeMap::new();
        taken.iter().for_each(|one| groups.entry(one.batch).or_default().push(one));
        groups.retain(|_, group| group.len() > 1);
        let configurations: Vec<RepeatedBatch> =
            groups.iter().map(|(batch, group)| RepeatedBatch::new(*batch, group)).collect();
        let mut conditions = Conditions::default();
        taken.iter().for_each(|one| conditions.extend(&one.conditions));
        let steps: usize = taken.iter().map(|one| one.steps).sum();
        let disturbed: usize = taken.iter().map(|one| one.disturbed_steps).sum();
        Some(NoiseFloor {
            floor: mean(&configurations.iter().map(|one| one.between).collect::<Vec<_>>()),
            within: 100.0 * median(&taken.iter().map(|one| one.spread).collect::<Vec<_>>()),
            drift: drift(&groups),
            disturbed_steps: 100.0 * disturbed as f64 / steps.max(1) as f64,
            stolen: conditions.stolen_share().map(|share| 100.0 * share),
            doubtful: taken.iter().filter(|one| one.doubtful).count(),
            seconds: taken.last()?.at,
            conditions,
            configurations,
        })
        .filter(|noise| !noise.configurations.is_empty())
    }

    /// How often to measure every configuration so that the mean of its rows is off by [`GOOD_ENOUGH`] at most: noise
    /// shrinks with the square root of their number. None if that is more often than useful.
    pub fn repeats(&self) -> Option<u32> {
        let needed = (self.floor / GOOD_ENOUGH).powi(2).ceil().max(1.0);
        (needed <= MOST_REPEATS).then_some(needed as u32)
    }
}

impl RepeatedBatch {
    fn new(batch: u64, group: &[&NoiseMeasurement]) -> Self {
        let times: Vec<f64> = group.iter().map(|one| one.milliseconds).collect();
        let middle = median(&times);
        RepeatedBatch {
            batch,
            runs: group.len(),
            milliseconds: middle,
            within: 100.0 * median(&group.iter().map(|one| one.spread).collect::<Vec<_>>()),
            between: scatter(&times),
            worst: times.iter().map(|time| 100.0 * (time - middle).abs() / middle).fold(0.0, f64::max),
        }
    }
}

/// The slope of all times relative to the median of their configuration.
fn drift(groups: &BTreeMap<u64, Vec<&NoiseMeasurement>>) -> Option<NoiseDrift> {
    let relative = groups.values().flat_map(|group| {
        let middle = median(&group.iter().map(|one| one.milliseconds).collect::<Vec<_>>());
        group.iter().map(move |one| (one.at, 100.0 * one.milliseconds / middle))
    });
    let points: Vec<(f64, f64)> = relative.collect();
    let (slope, error) = trend(&points)?;
    let ends = points.iter().map(|(at, _)| *at);
    let span = ends.clone().fold(f64::MIN, f64::max) - ends.fold(f64::MAX, f64::min);
    Some(NoiseDrift { percent: slope * span, error: error * span })
}
