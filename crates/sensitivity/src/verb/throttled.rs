//! Measures with storage held to a bandwidth.
//!
//! Where storage can be limited, the job runs once at the bandwidth where reading should take as long as computing.
//! Where that run does not already verify the model, it runs once more at half of that bandwidth. The first run
//! measures how far reading and computing overlap, the second verifies the model.

use super::points::{MeasuredPoint, ResourceConfiguration};
use super::profile::{SensitivityProfile, ThrottledEpoch};
use super::runner::RunGoal;
use super::sensitivity_run::{SensitivityRun, StopReason};
use crate::{EpochEstimate, EpochModel, LONGER, MeasuredOverlap, ReadOverlap};
use perf4sight_base::error::Result;
use perf4sight_base::units::{Bytes, Milliseconds};
use perf4sight_limit::Resource;
use perf4sight_report::significant;
use perf4sight_verb::Context;

/// A measured epoch this close to the computed one, as a share of it, is no contradiction: rates are known to 3 %.
pub(super) const SLACK: f64 = 0.05;
/// The most runs with storage held to a bandwidth.
pub(super) const POINTS: usize = 2;
/// Storage is limited to this fraction of its measured bandwidth at most, because the bandwidth fluctuates.
const HELD: f64 = 0.9;
/// This share of the first epoch counts: none of its data was cached, but a job that reads ahead finishes reading
/// before the end.
const COLD: f64 = 0.8;
/// Iterations shorter than this many seconds cannot show the overlap: control groups let a job catch up on bandwidth
/// that it left unused in the previous tenth of a second (`throtl_slice` in the kernel's block/blk-throttle.c), so that
/// a job which reads and computes alternately within that seems to overlap them.
const EVENED_OUT: f64 = 0.2;
/// The counted part takes at least this many seconds, or its rate is unknown.
const SHORTEST: f64 = 2.5;

impl SensitivityRun<'_> {
    /// Measures the job with storage held to a bandwidth. Does nothing where storage cannot be limited, or the model
    /// does not need it.
    ///
    /// # Errors
    /// See [`SensitivityRun::search`].
    pub fn throttle(&mut self, model: &EpochModel, context: &mut Context) -> Result<StopReason> {
        let progress = self.progress(POINTS as u64, context);
        while let Some(configuration) = self.next_throttled(model) {
            if self.is_time_up() {
                return Ok(StopReason::Budget);
            }
            let (asked, counted) = (self.asked, self.counted_iterations(model));
            let goal = RunGoal { warm_up: asked.warm_up, least: 0, most: Some(counted), time: asked.point_time };
            let Some(point) = self.measure(configuration, goal, &progress)? else { return Ok(StopReason::Cancelled) };
            self.keep(point, &progress)?;
        }
        Ok(StopReason::Done)
    }

    /// The measured configurations, the fastest storage first.
    pub fn throttled(&self) -> Vec<&MeasuredPoint> {
        let mut points: Vec<&MeasuredPoint> =
            self.store.points.iter().filter(|point| self.is_throttled(point.configuration)).collect();
        points.sort_by_key(|point| std::cmp::Reverse(point.configuration.storage));
        points
    }

    fn is_throttled(&self, configuration: ResourceConfiguration) -> bool {
        self.is_asked(configuration) && configuration != self.configuration(configuration.cpus, configuration.memory)
    }

    /// Iterations of a first epoch that count.
    fn counted_iterations(&self, model: &EpochModel) -> u64 {
        ((COLD * model.iterations) as u64).saturating_sub(self.asked.warm_up)
    }

    /// Bytes a second at which reading takes as long as computing, or that storage surely delivers. None where that is
    /// so fast that the epoch ends before a rate is known.
    fn informative_bandwidth(&self, model: &EpochModel) -> Option<f64> {
        let cpus = model.curve.highest().cpus;
        let held = model.needed_bandwidth(cpus, 0.0)?.least.min(HELD * model.data.storage_bandwidth);
        let epoch = model.with_storage(held).epoch(cpus, 0.0).least;
        (self.counted_iterations(model) as f64 * epoch >= SHORTEST * model.iterations).then_some(held)
    }

    /// Whether the first run verifies the model already, so that a second one would add nothing.
    fn confirms(&self, first: &MeasuredPoint, model: &EpochModel) -> bool {
        let held = held_model(first, model, self.runner.nodes());
        held.is_some_and(|(held, seconds)| is_as_published(&held, first.configuration.cpus, seconds))
    }

    fn next_throttled(&self, model: &EpochModel) -> Option<ResourceConfiguration> {
        self.runner.survey().by(Resource::Storage)?;
        if let Some(due) = self.throttled().iter().find(|point| self.store.is_due(point.configuration)) {
            return Some(due.configuration);
        }
        let held = match self.throttled()[..] {
            // Each node reads its share of the data.
            [] => self.informative_bandwidth(model)? as u64 / self.runner.nodes() as u64,
            [first] if self.confirms(first, model) => return None,
            [first] => first.configuration.storage?.0 / 2,
            [_, _, ..] => return None,
        };
        Some(ResourceConfiguration {
            cpus: model.curve.highest().cpus,
            memory: self.asked.memory,
            storage: Some(Bytes(held)),
        })
    }
}

/// The overlap that the first run with limited storage shows, and the epochs of all such runs.
pub(super) fn find_overlap(
    campaign: &SensitivityRun<'_>,
    model: &EpochModel,
) -> (Option<MeasuredOverlap>, Vec<ThrottledEpoch>) {
    let nodes = campaign.runner.nodes();
    let overlap = campaign.throttled().first().and_then(|point| {
        let (held, seconds) = held_model(point, model, nodes)?;
        held.overlap_of(point.configuration.cpus, seconds, point.epoch_between(model.iterations)?)
    });
    let hidden = may_be_hidden(model, campaign);
    let overlap = overlap.map(|overlap| if hidden { overlap.at_least() } else { overlap });
    let overlapped = EpochModel { overlap, ..model.clone() };
    let epoch = |point: &&MeasuredPoint| {
        let (held, seconds) = held_model(point, &overlapped, nodes)?;
        let cpus = point.configuration.cpus;
        let from_storage = |model: &EpochModel| model.epoch(cpus, 0.0);
        let side_by_side = from_storage(&side_by_side(&held)).likely?;
        let storage_bandwidth = held.data.storage_bandwidth;
        Some(ThrottledEpoch { cpus, storage_bandwidth, seconds, side_by_side, model: from_storage(&held) })
    };
    (overlap, campaign.throttled().iter().filter_map(epoch).collect())
}

/// Whether a run agrees with complete overlap: reading took longer than computing, the epoch took as long as reading,
/// and the difference does not show a partial overlap.
fn is_as_published(held: &EpochModel, cpus: f64, seconds: f64) -> bool {
    let (reading, computing) = (held.data.fetch(0.0), held.compute(cpus).likely);
    let is_told =
        held.overlap_of(cpus, seconds, [seconds; 2]).is_some_and(|overlap| overlap.likely().epoch(1.0, 1.0) > LONGER);
    let is_reading = computing.is_some_and(|computing| reading > LONGER * computing);
    is_reading && !is_told && (seconds / reading - 1.0).abs() <= SLACK
}

/// The same model with complete overlap.
fn side_by_side(model: &EpochModel) -> EpochModel {
    EpochModel { overlap: Some(MeasuredOverlap::exactly(ReadOverlap::SIDE_BY_SIDE)), ..model.clone() }
}

/// Whether reading and computing may overlap less than a run with limited storage shows. If the storage in question is
/// limited in the same way, the run shows all of it.
fn may_be_hidden(model: &EpochModel, campaign: &SensitivityRun<'_>) -> bool {
    is_evened_out(model) && campaign.asked.storage_bandwidth.is_none()
}

/// Whether iterations are so short that a job may have caught up on reading while it computed.
fn is_evened_out(model: &EpochModel) -> bool {
    model.curve.highest().rate.per_second * EVENED_OUT > 1.0
}

/// The model with the storage bandwidth of a point, summed over the nodes, and the seconds of an epoch there.
fn held_model(point: &MeasuredPoint, model: &EpochModel, nodes: usize) -> Option<(EpochModel, f64)> {
    Some((model.with_storage((point.configuration.storage?.0 * nodes as u64) as f64), point.epoch(model.iterations)?))
}

/// A warning about results for storage that are assumptions only, with the reason.
pub(super) fn assumption_warning(profile: &SensitivityProfile, campaign: &SensitivityRun<'_>) -> Option<String> {
    let model = profile.model()?;
    let axis = campaign.runner.survey().limitable(Resource::Storage)?;
    if model.overlap.is_some() {
        return may_be_hidden(&model, campaign).then(|| {
            format!(
                "limits on storage even out over a tenth of a second, and an iteration takes less than {EVENED_OUT} s: reading and computing may get in each other's way more than was seen"
            )
        });
    }
    let why = match (axis.by, profile.throttled.is_empty()) {
        (None, _) => format!("storage cannot be limited here ({})", axis.remark.as_deref().unwrap_or("see limits")),
        (Some(_), false) => "reading or computing takes too little of an epoch to know how far they overlap".to_owned(),
        (Some(_), true) if campaign.informative_bandwidth(&model).is_none() => {
            "an epoch is too short to measure a part of it".to_owned()
        }
        (Some(_), true) => "no epoch was measured with storage held to a bandwidth".to_owned(),
    };
    Some(format!(
        "{why}: epochs are bounded by reading and computing side by side, and one after the other; the storage that is needed is computed side by side"
    ))
}

/// Warnings about points with limited storage that differ from the model by more than the error of rates.
pub(super) fn missed(profile: &SensitivityProfile) -> Vec<String> {
    let is_far = |throttled: &&ThrottledEpoch| {
        let EpochEstimate { least, most, .. } = throttled.model;
        !(least * (1.0 - SLACK)..=most * (1.0 + SLACK)).contains(&throttled.seconds)
    };
    let words = |throttled: &ThrottledEpoch| {
        format!(
            "with storage held to {} MB/s an epoch took {}, and not {} as computed: what epochs take that wait for storage is doubtful",
            significant(throttled.storage_bandwidth / 1e6),
            Milliseconds(1000.0 * throttled.seconds),
            Milliseconds(1000.0 * throttled.model.likely.unwrap_or(throttled.model.most)),
        )
    };
    profile.throttled.iter().filter(is_far).map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IterationRate, JobData, RateCurve};

    /// Reading takes 2 s and computing 1 s. An epoch of 2.08 s is 4 % longer than reading, and yet `(2^3 + 1^3)^(1/3)`
    /// = 2.08 s, a third of the way to no overlap: a second run has to decide that.
    #[test]
    fn an_overlap_that_one_run_told_is_held_to_another_one() {
        let rate = IterationRate::exactly(10.0);
        let data = JobData { bytes: 2e8, memory_bandwidth: 1e10, storage_bandwidth: 1e8, storage_between: None };
        let curve = RateCurve::new(&[crate::RatePoint { cpus: 1.0, rate }]).unwrap();
        let held = EpochModel { curve, iterations: 10.0, data, cache: None, overlap: None };
        assert!(is_as_published(&held, 1.0, 2.0));
        assert!(!is_as_published(&held, 1.0, 2.08));
        assert!(!is_as_published(&held, 1.0, 1.8), "faster than its storage");
        assert!(!is_as_published(&held.with_storage(2e8), 1.0, 1.0), "computing takes as long");
    }
}
