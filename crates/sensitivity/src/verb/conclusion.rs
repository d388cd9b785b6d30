//! Measures a job and computes all results.

use super::profile::{
    DataFacts, FORMAT, JobFacts, ModelFacts, ProfileLimit, SensitivityProfile, SensitivityProvenance, own_memory,
};
use super::sensitivity_run::{SensitivityRun, StopReason};
use super::surroundings::JobSurroundings;
use super::warnings::warnings;
use super::{Sensitivity, throttled};
use crate::JobData;
use perf4sight_base::error::Result;
use perf4sight_verb::Context;

/// Measures the curve, then, where that is informative, epochs with less storage and less memory. No profile where no
/// point is known.
pub(super) fn measure(
    around: &JobSurroundings,
    campaign: &mut SensitivityRun<'_>,
    context: &mut Context,
) -> Result<(Option<SensitivityProfile>, StopReason)> {
    let mut stop = campaign.search(context)?;
    let Some(curve) = campaign.curve() else { return Ok((None, stop)) };
    let (mut facts, mut throttled) = (model(around, campaign.asked), Vec::new());
    if let (StopReason::Done, Some(known)) = (stop, &mut facts) {
        let model = known.model(curve.clone());
        stop = campaign.throttle(&model, context)?;
        (known.overlap, throttled) = throttled::find_overlap(campaign, &model);
    }
    let own = own_memory(campaign.curve_points());
    if let (StopReason::Done, Some(known), Some(own)) = (stop, &mut facts, own) {
        let model = known.model(curve);
        stop = campaign.measure_cache(&model, own, context)?;
        known.cache = campaign.cache(&model, own);
    }
    let profile = SensitivityProfile { model: facts, throttled, ..measured(around, campaign, stop, context) };
    let profile = profile.concluded(&campaign.grid);
    Ok((Some(SensitivityProfile { warnings: warnings(around, campaign, &profile, stop), ..profile }), stop))
}

/// The measurements, without results.
fn measured(
    around: &JobSurroundings,
    campaign: &SensitivityRun<'_>,
    stop: StopReason,
    context: &Context,
) -> SensitivityProfile {
    let asked = campaign.asked;
    let data = asked.data.clone().zip(around.size);
    SensitivityProfile {
        format: FORMAT,
        job: JobFacts {
            name: asked.name(),
            command: around.command.words.clone(),
            gpus: around.gpus,
            batch: asked.batch,
            most_cpus: around.most,
            cpu_step: Some(around.grid.step()),
            memory: asked.memory,
            storage: campaign.configuration(around.most, asked.memory).storage,
            data: data.map(|(path, size)| DataFacts { path, bytes: size.bytes(), files: size.files }),
        },
        hosts: around.hosts.clone(),
        limits: limits(around),
        points: campaign.store.points.clone(),
        provenance: SensitivityProvenance {
            perf4sight: env!("CARGO_PKG_VERSION").to_owned(),
            date: humantime::format_rfc3339_seconds(context.now()).to_string(),
            complete: stop == StopReason::Done,
        },
        ..SensitivityProfile::default()
    }
}

fn limits(around: &JobSurroundings) -> Vec<ProfileLimit> {
    let held = around.survey.resources.iter();
    held.map(|held| ProfileLimit {
        axis: held.resource.to_string(),
        by: held.by.map(ToString::to_string),
        refused: held.refused.iter().map(|refused| format!("{}: {}", refused.backend, refused.reason)).collect(),
    })
    .collect()
}

/// Iterations of an epoch; none where they are unknown.
fn iterations(around: &JobSurroundings, asked: &Sensitivity) -> Option<u64> {
    let samples = asked.samples.or(around.size.map(|size| size.files))?;
    Some(samples.div_ceil(asked.batch? * u64::from(around.gpus.max(1)) * around.hosts.len() as u64))
}

/// Iterations of each run that read data which is not in memory yet: an epoch where memory is limited, because data is
/// dropped from the cache first.
pub(super) fn cold(around: &JobSurroundings, asked: &Sensitivity) -> u64 {
    asked.memory.and_then(|_| iterations(around, asked)).unwrap_or(0)
}

/// The inputs of the model; none where the data, its storage or the iterations of an epoch are unknown.
fn model(around: &JobSurroundings, asked: &Sensitivity) -> Option<ModelFacts> {
    let (memory_bandwidth, storage_bandwidth) = (around.memory?, around.storage?);
    let (bytes, storage_between) = (around.size?.bytes as f64, around.storage_between);
    let data = JobData { bytes, memory_bandwidth, storage_bandwidth, storage_between };
    Some(ModelFacts { iterations: iterations(around, asked)? as f64, data, cache: None, overlap: None })
}
