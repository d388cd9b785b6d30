//! From points to a profile: what is known of the job, what follows, and what a reader should know of it.

use super::campaign::{Campaign, Stop};
use super::heard::Way;
use super::profile::{DataFacts, FORMAT, JobFacts, Limit, ModelFacts, Profile, Provenance, cpus_words};
use super::store::{Outcome, Point};
use super::surroundings::Surroundings;
use super::{Sensitivity, tables, throttled};
use crate::{Data, Model, Oddity};
use perf4sight_base::units::{Bytes, Milliseconds, Percent};
use perf4sight_limit::Axis;
use perf4sight_report::significant;
use perf4sight_verb::Context;
use std::fmt::Display;

/// So far beside what was computed, as a share of it, a measured epoch is no contradiction: rates are known to 3 %.
pub(super) const SLACK: f64 = 0.05;

/// So many times its CPUs a job may have used, by clocks that tell hundredths of seconds.
const EXCEEDING: f64 = 1.15;

/// From this share of the time on that something waited while others used the CPUs of a job, they are worth a word.
const SHARED: f64 = 0.1;

/// What there is to tell of a job, whose curve was measured; none where nothing was.
pub(super) fn profile(around: &Surroundings, campaign: &Campaign<'_>, context: &Context) -> Option<Profile> {
    let asked = campaign.runner.asked;
    campaign.curve()?;
    let data = asked.data.clone().zip(around.size);
    let profile = Profile {
        format: FORMAT,
        job: JobFacts {
            name: asked.name(),
            command: around.command.words.clone(),
            gpus: around.gpus,
            batch: asked.batch,
            most_cpus: around.most,
            cpu_step: Some(around.grid.step()),
            memory: asked.memory,
            storage: campaign.runner.place(around.most, asked.memory).storage,
            data: data.map(|(path, size)| DataFacts { path, bytes: size.bytes(), files: size.files }),
        },
        hosts: around.hosts.clone(),
        limits: limits(around),
        points: campaign.store.points.clone(),
        knees: Vec::new(),
        oddities: Vec::new(),
        own_memory: None,
        model: model(around, asked),
        matrix: Vec::new(),
        throttled: Vec::new(),
        storage_matrix: Vec::new(),
        request: None,
        warnings: Vec::new(),
        provenance: Provenance {
            perf4sight: env!("CARGO_PKG_VERSION").to_owned(),
            date: humantime::format_rfc3339_seconds(context.now()).to_string(),
            complete: false,
        },
    };
    Some(Profile { own_memory: profile.own_memory_of_points(), ..profile })
}

fn limits(around: &Surroundings) -> Vec<Limit> {
    let text = |of: &dyn Display| of.to_string();
    let held = around.limiter.survey().axes.iter();
    held.map(|held| Limit {
        axis: text(&held.axis),
        by: held.by.as_ref().map(|means| text(means)),
        refused: held.refused.iter().map(|refused| format!("{}: {}", refused.means, refused.reason)).collect(),
    })
    .collect()
}

/// Iterations of an epoch; none where nothing tells.
fn iterations(around: &Surroundings, asked: &Sensitivity) -> Option<u64> {
    let samples = asked.samples.or(around.size.map(|size| size.files))?;
    Some(samples.div_ceil(asked.batch? * u64::from(around.gpus.max(1)) * around.hosts.len() as u64))
}

/// Iterations of each run that read data which is not in memory yet: an epoch where memory is limited, for data then leaves the cache before.
pub(super) fn cold(around: &Surroundings, asked: &Sensitivity) -> u64 {
    asked.memory.and_then(|_| iterations(around, asked)).unwrap_or(0)
}

/// What epochs are computed from; none where the data, its storage or the iterations of an epoch are unknown.
fn model(around: &Surroundings, asked: &Sensitivity) -> Option<ModelFacts> {
    let (memory_bandwidth, storage_bandwidth) = (around.memory?, around.storage?);
    let (bytes, storage_between) = (around.size?.bytes as f64, around.storage_between);
    let data = Data { bytes, memory_bandwidth, storage_bandwidth, storage_between };
    Some(ModelFacts { iterations: iterations(around, asked)? as f64, data, cache: None, overlap: None })
}

/// Fills in how the machine keeps what was read, where that was measured.
pub(super) fn place(profile: &mut Profile, campaign: &Campaign<'_>, model: &Model, own: Bytes) {
    let Some((place, cached)) = campaign.telling_place(model, own) else { return };
    let epoch = campaign.store.at(place).and_then(|point| point.epoch(model.iterations));
    let cache = epoch.and_then(|seconds| model.cache_of(place.cpus, cached, seconds));
    profile.model = profile.model.map(|facts| ModelFacts { cache, ..facts });
}

/// What a reader should know.
pub(super) fn warnings(around: &Surroundings, campaign: &Campaign<'_>, profile: &Profile, stop: Stop) -> Vec<String> {
    let mut told = around.doubts.clone();
    told.extend(around.command.kept.iter().map(|option| {
        format!("{option} was not passed to the script, which does not name it (--pass passes it anyway)")
    }));
    told.extend(stopped(stop));
    told.extend(of_points(profile));
    told.extend(unlimited(around, profile));
    told.extend(profile.model().filter(|model| campaign.ends_before_epochs(model)).map(|_| {
        "runs end before three epochs are over (--max-iterations), so that epochs with little memory are intervals between two kinds of cache".to_owned()
    }));
    told.extend(throttled::assumed(profile, campaign));
    told.extend(missed(profile, campaign));
    told.extend(unmodelled(around, campaign.runner.asked));
    told
}

/// What a reader should know that points tell.
pub(super) fn of_points(profile: &Profile) -> Vec<String> {
    let mut told: Vec<String> = profile.oddities.iter().map(|oddity| odd(*oddity)).collect();
    told.extend(profile.points.iter().filter_map(doubtful));
    told.extend(profile.points.iter().filter_map(exceeding));
    told.extend(profile.points.iter().filter_map(incredible));
    told.extend(profile.curve_points().filter_map(changing));
    told.extend(shared(profile.curve_points()));
    told.extend(ways(profile));
    told.extend(throttled::missed(profile));
    told
}

fn stopped(stop: Stop) -> Option<String> {
    match stop {
        Stop::Done => None,
        Stop::Budget => Some("the time was up before all was measured: what is not verified says so".to_owned()),
        Stop::Cancelled => Some("interrupted before all was measured: what is not verified says so".to_owned()),
    }
}

fn odd(oddity: Oddity) -> String {
    match oddity {
        Oddity::NotConcave(cpus) => format!(
            "the rate is not concave over CPUs: with {} it is lower than between its neighbours; numbers of CPUs that were not measured may surprise",
            cpus_words(cpus)
        ),
        Oddity::Falls(cpus) => format!("the rate falls: with {} it is lower than with fewer", cpus_words(cpus)),
    }
}

/// A point that failed, or that others disturbed every time.
fn doubtful(point: &Point) -> Option<String> {
    let remark = (point.counts().is_none() || point.is_doubtful()).then(|| tables::remark(point))?;
    let words = point.place.words();
    Some(match point.runs.last().map(|run| &run.outcome).filter(|_| point.counts().is_none()) {
        Some(Outcome::Crashed { last_lines, .. } | Outcome::NoRate { last_lines, .. }) => {
            format!("with {words}: {remark}{}", tables::last_lines(last_lines))
        }
        Some(Outcome::Sound | Outcome::Disturbed { .. } | Outcome::OutOfMemory) | None => {
            format!("with {words}: {remark}{}", disturbed(point).unwrap_or_default())
        }
    })
}

/// Where the rate of a point lies that others disturbed every time, and what says that they did.
fn disturbed(point: &Point) -> Option<String> {
    let (run, measured) = point.counts()?;
    let Outcome::Disturbed { how } = &run.outcome else { return None };
    let [low, high] = measured.rate.interval.map(significant);
    Some(format!(
        ", so that it makes anything from {low} to {high} iterations/s, going by how long it waited: {how}; the same command measures it once more"
    ))
}

/// Points during which others used the CPUs of the job, had it all its time or not: beside busy neighbours one was seen to lose a third of its rate,
/// and had every millisecond of its quota.
fn shared<'a>(points: impl Iterator<Item = &'a Point>) -> Option<String> {
    let waited = |point: &Point| point.counts().and_then(|(run, _)| run.waited).filter(|waited| *waited >= SHARED);
    let mut cpus: Vec<f64> = points.filter(|point| waited(point).is_some()).map(|point| point.place.cpus).collect();
    cpus.sort_by(f64::total_cmp);
    let words: Vec<String> = cpus.into_iter().map(cpus_words).collect();
    (!words.is_empty()).then(|| {
        format!(
            "with {}: other programs used the same CPUs meanwhile; what CPUs do in their time is less then, by what cores and caches share, and rates alone may be above their intervals",
            words.join(", ")
        )
    })
}

/// What a job told that cannot be.
fn incredible(point: &Point) -> Option<String> {
    let (run, _) = point.counts()?;
    (!run.doubts.is_empty()).then(|| format!("with {}: {}", point.place.words(), run.doubts.join("; ")))
}

/// A job that became faster or slower while it was measured: which of its rates lasts is not known.
fn changing(point: &Point) -> Option<String> {
    let [before, after] = point.counts()?.1.changed?.map(significant);
    Some(format!(
        "with {}: the rate changed while it was measured, from {before} to {after} iterations/s: which of them lasts is not known; count later (--warm-up), or for longer (--point-time)",
        point.place.words()
    ))
}

/// A job that did not keep to its CPUs, as one that got away from what holds it: its rate is one of more.
fn exceeding(point: &Point) -> Option<String> {
    let (run, _) = point.counts()?;
    let used = run.cpu_seconds? / run.seconds;
    (used > EXCEEDING * point.place.cpus).then(|| {
        format!(
            "with {}: the job used {} CPUs, more than its limit, and its rate is one of more CPUs",
            point.place.words(),
            significant(used)
        )
    })
}

/// Rates that hold more than iterations.
fn ways(profile: &Profile) -> Option<String> {
    let divided = profile.curve_points().filter_map(Point::counts).any(|(run, _)| run.way == Some(Way::Division));
    divided.then(|| {
        "rates are whole runs divided by their iterations: starting up counts, and how sure they are is unknown"
            .to_owned()
    })
}

/// What could not be limited.
fn unlimited(around: &Surroundings, profile: &Profile) -> Vec<String> {
    let by = |axis: Axis| around.limiter.survey().by(axis).is_some();
    let memory =
        "memory cannot be limited here, so that epochs with little of it are intervals between two kinds of cache";
    let told = [
        (!by(Axis::Cpus), "CPUs cannot be limited here, so that there is one point"),
        (!by(Axis::Memory) && profile.model.is_some(), memory),
    ];
    told.into_iter().filter(|(lacks, _)| *lacks).map(|(_, words)| words.to_owned()).collect()
}

/// A measured epoch that lies elsewhere than between both caches, so that the model lacks something.
fn missed(profile: &Profile, campaign: &Campaign<'_>) -> Option<String> {
    let model = Model { cache: None, ..profile.model()? };
    let (place, cached) = campaign.telling_place(&model, profile.own_memory?)?;
    let seconds = campaign.store.at(place)?.epoch(model.iterations)?;
    let epoch = model.epoch(place.cpus, cached);
    let inside = (epoch.least * (1.0 - SLACK)..=epoch.most * (1.0 + SLACK)).contains(&seconds);
    let words = |seconds: f64| Milliseconds(1000.0 * seconds);
    (!inside).then(|| {
        format!(
            "with room for {} of the data an epoch took {}, and not {} to {} as computed: epochs with little memory are doubtful, and storage may be faster or slower than was taken",
            Percent(100.0 * cached),
            words(seconds),
            words(epoch.least),
            words(epoch.most)
        )
    })
}

/// Why there are no epochs, or what they rest on.
fn unmodelled(around: &Surroundings, asked: &Sensitivity) -> Vec<String> {
    let mut told = Vec::new();
    let Some(size) = around.size else { return told };
    if asked.batch.is_none() {
        told.push("epochs are not known without the samples of an iteration (-b)".to_owned());
    }
    if asked.samples.is_none() && asked.batch.is_some() {
        told.push(format!(
            "each of the {} files of the data counts as a sample (--samples says otherwise)",
            size.files
        ));
    }
    if !around.fits {
        told.push("the data has no room in memory, so that rates hold reading from storage too".to_owned());
    }
    if size.links > 0 {
        told.push(format!(
            "symbolic links in the data: {} were followed, as the job is taken to follow them, and count as what they lead to",
            size.links
        ));
    }
    if size.unreadable > 0 {
        told.push(super::data::unreadable(size.unreadable));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verb::store::tests::run;
    use crate::verb::store::{Place, Run};

    /// With a quarter of a CPU it had all of its quota, and others the rest of the time; with one CPU it was alone.
    #[test]
    fn what_others_did_meanwhile_is_told_of_sound_points_too() {
        let at = |cpus: f64, waited: f64| Point {
            place: Place { cpus, memory: None, storage: None },
            runs: vec![Run { waited: Some(waited), ..run(3.1, 20.0) }],
        };
        let told = shared([at(1.0, 0.02), at(0.25, 0.74)].iter()).unwrap();
        assert!(told.starts_with("with 0.25 CPUs: other programs used the same CPUs"), "{told}");
        assert_eq!(shared([at(1.0, 0.02)].iter()), None);
    }
}
