//! Warnings for the reader of a profile.

use super::points::{MeasuredPoint, PointOutcome, cpus_words, is_wide, last_lines, remark};
use super::profile::SensitivityProfile;
use super::progress::ProgressSource;
use super::sensitivity_run::{SensitivityRun, StopReason};
use super::surroundings::JobSurroundings;
use super::throttled::SLACK;
use super::{Sensitivity, throttled};
use crate::{CurveOddity, EpochModel};
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_limit::Resource;
use perf4sight_report::significant;

/// A job may appear to use this many times its CPUs, because clocks count hundredths of seconds.
const EXCEEDING: f64 = 1.15;
/// From this share of the time that a job may have waited for others, there is a warning.
const SHARED: f64 = 0.1;

pub(super) fn warnings(
    around: &JobSurroundings,
    campaign: &SensitivityRun<'_>,
    profile: &SensitivityProfile,
    stop: StopReason,
) -> Vec<String> {
    let mut warnings = around.doubts.clone();
    warnings.extend(around.command.kept.iter().map(|option| {
        format!("{option} was not passed to the script, which does not name it (--pass passes it anyway)")
    }));
    warnings.extend(stopped(stop));
    warnings.extend(of_points(profile));
    warnings.extend(with_limiter_here(profile, campaign.runner.repeats()));
    warnings.extend(unlimited(around, profile));
    warnings.extend(profile.model().filter(|model| campaign.ends_before_epochs(model)).map(|_| {
        "runs end before three epochs are over (--max-iterations), so epochs with little memory are bounded by two kinds of cache".to_owned()
    }));
    warnings.extend(throttled::assumption_warning(profile, campaign));
    warnings.extend(missed(profile, campaign));
    warnings.extend(unmodelled(around, campaign.asked));
    warnings
}

pub(super) fn of_points(profile: &SensitivityProfile) -> Vec<String> {
    let mut warnings: Vec<String> = profile.oddities.iter().map(|oddity| odd(*oddity)).collect();
    warnings.extend(profile.points.iter().filter_map(doubtful));
    warnings.extend(profile.points.iter().filter_map(exceeding));
    warnings.extend(profile.points.iter().filter_map(incredible));
    warnings.extend(profile.curve_points().filter_map(changing));
    warnings.extend(shared(profile.curve_points()));
    warnings.extend(profile.rise_warning());
    warnings.extend(progress_source_warning(profile));
    warnings.extend(throttled::missed(profile));
    warnings
}

fn stopped(stop: StopReason) -> Option<String> {
    match stop {
        StopReason::Done => None,
        StopReason::Budget => {
            Some("the time was up before everything was measured: unverified values are marked".to_owned())
        }
        StopReason::Cancelled => {
            Some("interrupted before everything was measured: unverified values are marked".to_owned())
        }
    }
}

fn odd(oddity: CurveOddity) -> String {
    match oddity {
        CurveOddity::NotConcave(cpus) => format!(
            "the rate is not concave over CPUs: with {} it is lower than between its neighbours; numbers of CPUs that were not measured may surprise",
            cpus_words(cpus)
        ),
        CurveOddity::Falls(cpus) => format!("the rate falls: with {} it is lower than with fewer", cpus_words(cpus)),
    }
}

/// A warning about a point that failed, or that others disturbed every time.
fn doubtful(point: &MeasuredPoint) -> Option<String> {
    let words = point.configuration.to_text();
    let Some((run, _)) = point.counts() else {
        let last = match point.runs.last().map(|run| &run.outcome) {
            Some(PointOutcome::Crashed { last_lines: lines, .. } | PointOutcome::NoRate { last_lines: lines, .. }) => {
                last_lines(lines)
            }
            Some(PointOutcome::Sound | PointOutcome::Disturbed { .. } | PointOutcome::OutOfMemory) | None => {
                String::new()
            }
        };
        return Some(format!("with {words}: {}{last}", remark(point)));
    };
    let PointOutcome::Disturbed { how } = &run.outcome else { return None };
    let tries = match point.runs.len() {
        1 => "in the only try".to_owned(),
        2 => "in both tries".to_owned(),
        tries => format!("in all {tries} tries"),
    };
    let rate = true_rate(point.rate()?.interval);
    Some(format!("with {words}: other programs ran {tries} ({how}). {rate}"))
}

/// What becomes of points that others disturbed every time, or that failed.
fn with_limiter_here(profile: &SensitivityProfile, repeats: bool) -> Option<String> {
    let is_due = |point: &MeasuredPoint| point.is_doubtful() || point.has_failed();
    let cpus: Vec<String> = profile
        .curve_points()
        .filter(|point| is_due(point))
        .map(|point| cpus_words(point.configuration.cpus))
        .collect();
    let command = if repeats { "the same command measures" } else { "without --slurm, the same command measures" };
    (!cpus.is_empty()).then(|| format!("{command} once more with {}", cpus.join(", ")))
}

/// The rate of a job without the programs that disturbed it.
fn true_rate([low, high]: [f64; 2]) -> String {
    match is_wide([low, high]) {
        true => format!("The true rate is at least {} iterations/s, and how much more is not known", significant(low)),
        false => {
            format!("The true rate is between {} and {} iterations/s", significant(low), significant(high))
        }
    }
}

/// A warning about points during which others used the CPUs of the job, even if it had its full quota: with busy
/// neighbours a job lost a third of its rate although it had every millisecond of its quota.
fn shared<'a>(points: impl Iterator<Item = &'a MeasuredPoint>) -> Option<String> {
    let waited =
        |point: &MeasuredPoint| point.counts().and_then(|(run, _)| run.waited).filter(|waited| *waited >= SHARED);
    let mut cpus: Vec<f64> =
        points.filter(|point| waited(point).is_some()).map(|point| point.configuration.cpus).collect();
    cpus.sort_by(f64::total_cmp);
    let words: Vec<String> = cpus.into_iter().map(cpus_words).collect();
    (!words.is_empty()).then(|| {
        format!(
            "with {}: other programs used the same CPUs meanwhile. They share cores and caches with the job, which may be faster without them than its interval says",
            words.join(", ")
        )
    })
}

/// A warning about reports of a job that cannot be true.
fn incredible(point: &MeasuredPoint) -> Option<String> {
    let (run, _) = point.counts()?;
    (!run.doubts.is_empty()).then(|| format!("with {}: {}", point.configuration.to_text(), run.doubts.join("; ")))
}

/// A warning about a job that became faster or slower during the measurement: its steady rate is unknown.
fn changing(point: &MeasuredPoint) -> Option<String> {
    let [before, after] = point.counts()?.1.changed?.map(significant);
    Some(format!(
        "with {}: the rate changed while it was measured, from {before} to {after} iterations/s: which of them lasts is not known; count later (--warm-up), or for longer (--point-time)",
        point.configuration.to_text()
    ))
}

/// A warning about a job that exceeded its CPUs, for instance by escaping the limit: its rate is that of more CPUs.
fn exceeding(point: &MeasuredPoint) -> Option<String> {
    let (run, _) = point.counts()?;
    let used = run.cpu_seconds? / run.seconds;
    (used > EXCEEDING * point.configuration.cpus).then(|| {
        format!(
            "with {}: the job used {} CPUs, more than its limit, and its rate is one of more CPUs",
            point.configuration.to_text(),
            significant(used)
        )
    })
}

/// A warning about rates that include more than iterations.
fn progress_source_warning(profile: &SensitivityProfile) -> Option<String> {
    let divided = profile
        .curve_points()
        .filter_map(MeasuredPoint::counts)
        .any(|(run, _)| run.way == Some(ProgressSource::Division));
    divided.then(|| {
        "rates are whole runs divided by their iterations: starting up counts, and their error is unknown".to_owned()
    })
}

/// Warnings about resources that could not be limited.
fn unlimited(around: &JobSurroundings, profile: &SensitivityProfile) -> Vec<String> {
    let by = |resource: Resource| around.survey.by(resource).is_some();
    let memory = "memory cannot be limited here, so epochs with little of it are bounded by two kinds of cache";
    let reasons = [
        (!by(Resource::Cpus), "CPUs cannot be limited here, so there is one point"),
        (!by(Resource::Memory) && profile.model.is_some(), memory),
    ];
    reasons.into_iter().filter(|(lacks, _)| *lacks).map(|(_, words)| words.to_owned()).collect()
}

/// A warning about a measured epoch outside the bounds of both caches: the model is incomplete.
fn missed(profile: &SensitivityProfile, campaign: &SensitivityRun<'_>) -> Option<String> {
    let model = EpochModel { cache: None, ..profile.model()? };
    let (configuration, cached) = campaign.most_informative_cache_size(&model, profile.own_memory?)?;
    let seconds = campaign.store.find(configuration)?.epoch(model.iterations)?;
    let epoch = model.epoch(configuration.cpus, cached);
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

/// Warnings about missing epochs or their assumptions.
fn unmodelled(around: &JobSurroundings, asked: &Sensitivity) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(size) = around.size else { return warnings };
    if asked.batch.is_none() {
        warnings.push("epochs are not known without the samples of an iteration (-b)".to_owned());
    }
    if asked.samples.is_none() && asked.batch.is_some() {
        warnings.push(format!(
            "each of the {} files of the data counts as a sample (set --samples if that is wrong)",
            size.files
        ));
    }
    if !around.fits {
        warnings.push("the data does not fit into memory, so rates include reading from storage".to_owned());
    }
    if size.links > 0 {
        warnings.push(format!(
            "symbolic links in the data: {} were followed, as the job is taken to follow them, and count as what they lead to",
            size.links
        ));
    }
    if size.unreadable > 0 {
        warnings.push(super::data::unreadable(size.unreadable));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verb::points::tests::{profile_of, run};
    use crate::verb::points::{PointRun, ResourceConfiguration};
    use crate::verb::tables;

    /// With a quarter of a CPU it had all of its quota, and others the rest of the time; with one CPU it was
    /// undisturbed.
    #[test]
    fn what_others_did_meanwhile_is_told_of_sound_points_too() {
        let at = |cpus: f64, waited: f64| MeasuredPoint {
            configuration: ResourceConfiguration { cpus, memory: None, storage: None },
            runs: vec![PointRun { waited: Some(waited), ..run(3.1, 20.0) }],
        };
        let warnings = shared([at(1.0, 0.02), at(0.25, 0.74)].iter()).unwrap();
        assert!(warnings.starts_with("with 0.25 CPUs: other programs used the same CPUs"), "{warnings}");
        assert_eq!(shared([at(1.0, 0.02)].iter()), None);
    }

    /// The rate is at least 14.3: the tables and the chart do not say 16.4, or 46.8.
    #[test]
    fn of_an_open_rate_tables_have_the_lower_end_alone() {
        let mut run = run(16.4, 20.0);
        run.measured.as_mut().unwrap().rate.interval = [14.3, 46.8];
        let configuration = ResourceConfiguration { cpus: 1.0, memory: None, storage: None };
        let table = tables::curve(&profile_of(vec![MeasuredPoint { configuration, runs: vec![run] }], 1.0)).to_csv();
        assert!(table.contains("14.3") && !table.contains("16.4") && !table.contains("46.8"), "{table}");
        assert!(table.contains("only the lower end is known"), "{table}");
    }

    #[test]
    fn what_becomes_of_disturbed_points_depends_on_who_measures() {
        let outcome = PointOutcome::Disturbed { how: "others".to_owned() };
        let configuration = ResourceConfiguration { cpus: 1.0, memory: None, storage: None };
        let disturbed = PointRun { outcome, ..run(3.1, 20.0) };
        let profile = profile_of(vec![MeasuredPoint { configuration, runs: vec![disturbed.clone(), disturbed] }], 1.0);
        assert_eq!(with_limiter_here(&profile, true).unwrap(), "the same command measures once more with 1 CPU");
        assert!(with_limiter_here(&profile, false).unwrap().starts_with("without --slurm, "));
        let warning = doubtful(&profile.points[0]).unwrap();
        assert!(warning.contains("other programs ran in both tries") && !warning.contains("slurm"), "{warning}");
    }

    #[test]
    fn an_upper_end_far_above_the_lower_one_is_not_told() {
        assert_eq!(true_rate([9.6, 11.2]), "The true rate is between 9.60 and 11.2 iterations/s");
        let open = true_rate([9.62, 98.0]);
        assert!(open.starts_with("The true rate is at least 9.62 iterations/s") && !open.contains("98"), "{open}");
    }
}
