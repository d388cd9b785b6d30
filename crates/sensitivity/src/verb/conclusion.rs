//! Measures a job and computes all results.

use super::campaign::{Campaign, Stop};
use super::profile::{DataFacts, FORMAT, JobFacts, Limit, ModelFacts, Profile, Provenance, own_memory};
use super::surroundings::Surroundings;
use super::warnings::warnings;
use super::{Sensitivity, throttled};
use crate::Data;
use perf4sight_base::error::Result;
use perf4sight_verb::Context;

/// Measures the curve, then, where that is informative, epochs with less storage and less memory. No profile where no
/// point is known.
pub(super) fn measure(
    around: &Surroundings,
    campaign: &mut Campaign<'_>,
    context: &mut Context,
) -> Result<(Option<Profile>, Stop)> {
    let mut stop = campaign.search(context)?;
    let Some(curve) = campaign.curve() else { return Ok((None, stop)) };
    let (mut facts, mut throttled) = (model(around, campaign.asked), Vec::new());
    if let (Stop::Done, Some(known)) = (stop, &mut facts) {
        let model = known.model(curve.clone());
        stop = campaign.throttle(&model, context)?;
        (known.overlap, throttled) = throttled::learned(campaign, &model);
    }
    let own = own_memory(campaign.curve_points());
    if let (Stop::Done, Some(known), Some(own)) = (stop, &mut facts, own) {
        let model = known.model(curve);
        stop = campaign.measure_cache(&model, own, context)?;
        known.cache = campaign.cache(&model, own);
    }
    let profile = Profile { model: facts, throttled, ..measured(around, campaign, stop, context) };
    let profile = profile.concluded(&campaign.grid);
    Ok((Some(Profile { warnings: warnings(around, campaign, &profile, stop), ..profile }), stop))
}

/// The measurements, without results.
fn measured(around: &Surroundings, campaign: &Campaign<'_>, stop: Stop, context: &Context) -> Profile {
    let asked = campaign.asked;
    let data = asked.data.clone().zip(around.size);
    Profile {
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
        provenance: Provenance {
            perf4sight: env!("CARGO_PKG_VERSION").to_owned(),
            date: humantime::format_rfc3339_seconds(context.now()).to_string(),
            complete: stop == Stop::Done,
        },
        ..Profile::default()
    }
}

fn limits(around: &Surroundings) -> Vec<Limit> {
    let held = around.survey.resources.iter();
    held.map(|held| Limit {
        axis: held.resource.to_string(),
        by: held.by.map(ToString::to_string),
        refused: held.refused.iter().map(|refused| format!("{}: {}", refused.backend, refused.reason)).collect(),
    })
    .collect()
}

/// Iterations of an epoch; none where they are unknown.
fn iterations(around: &Surroundings, asked: &Sensitivity) -> Option<u64> {
    let samples = asked.samples.or(around.size.map(|size| size.files))?;
    Some(samples.div_ceil(asked.batch? * u64::from(around.gpus.max(1)) * around.hosts.len() as u64))
}

/// Iterations of each run that read data which is not in memory yet: an epoch where memory is limited, because data is
/// dropped from the cache first.
pub(super) fn cold(around: &Surroundings, asked: &Sensitivity) -> u64 {
    asked.memory.and_then(|_| iterations(around, asked)).unwrap_or(0)
}

/// The inputs of the model; none where the data, its storage or the iterations of an epoch are unknown.
fn model(around: &Surroundings, asked: &Sensitivity) -> Option<ModelFacts> {
    let (memory_bandwidth, storage_bandwidth) = (around.memory?, around.storage?);
    let (bytes, storage_between) = (around.size?.bytes as f64, around.storage_between);
    let data = Data { bytes, memory_bandwidth, storage_bandwidth, storage_between };
    Some(ModelFacts { iterations: iterations(around, asked)? as f64, data, cache: None, overlap: None })
}
