//! The measured configurations of a job, with all runs of each.

use super::progress::ProgressSource;
use crate::{Disturbance, IterationRate, MeasuredRate};
use perf4sight_base::units::Bytes;
use perf4sight_limit::MemoryRise;
use perf4sight_report::significant;
use serde::{Deserialize, Deserializer, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct ResourceConfiguration {
    pub cpus: f64,
    /// The memory limit; none where there was none, and all data that fits was in memory.
    pub memory: Option<Bytes>,
    /// The bandwidth that storage was held to, in bytes a second; none where it was not limited.
    #[serde(default)]
    pub storage: Option<Bytes>,
}

/// A measured configuration with all its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct MeasuredPoint {
    #[serde(flatten)]
    pub configuration: ResourceConfiguration,
    /// One run, and repeats of those that were disturbed.
    pub runs: Vec<PointRun>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PointRun {
    pub outcome: PointOutcome,
    pub way: Option<ProgressSource>,
    pub measured: Option<MeasuredRate>,
    /// Seconds from start to end.
    pub seconds: f64,
    pub cpu_seconds: Option<f64>,
    /// Seconds that its CPU limit throttled it.
    pub throttled_seconds: Option<f64>,
    /// Its peak memory, with the page cache where a control group counted it.
    pub peak_memory: Option<Bytes>,
    /// Its peak own memory, without pages of files.
    #[serde(default)]
    pub own_memory: Option<Bytes>,
    /// How far its memory still rose at its end; none where it did not, or that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rise: Option<MemoryRise>,
    pub bytes_read: Option<Bytes>,
    /// Share of the time that something on the host waited for a CPU.
    pub pressure: Option<f64>,
    /// Share of the time that the job waited for other programs, at most.
    #[serde(default)]
    pub waited: Option<f64>,
    /// Reports of the job that cannot be true, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// The node of this run, where there are several: the slowest, or the one that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The run on each of several nodes, by rank.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<PointRun>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub(super) enum PointOutcome {
    Sound,
    Disturbed {
        how: String,
    },
    /// It did not fit into its memory.
    OutOfMemory,
    Crashed {
        how: String,
        last_lines: Vec<String>,
    },
    /// It ended, or its time was up, before it reported enough iterations for a rate.
    NoRate {
        how: String,
        #[serde(default, rename = "told")]
        reported: usize,
        last_lines: Vec<String>,
    },
}

impl PointOutcome {
    /// The last lines of output of a job that failed.
    pub fn last_lines(&self) -> &[String] {
        match self {
            PointOutcome::Crashed { last_lines, .. } | PointOutcome::NoRate { last_lines, .. } => last_lines,
            PointOutcome::Sound | PointOutcome::Disturbed { .. } | PointOutcome::OutOfMemory => &[],
        }
    }
}

impl ResourceConfiguration {
    /// "1.5 CPUs, 4 GiB, storage held to 100 MB/s"
    pub fn to_text(self) -> String {
        let memory = self.memory.map_or(String::new(), |memory| format!(", {memory}"));
        let megabytes = |storage: Bytes| significant(storage.0 as f64 / 1e6);
        let storage =
            self.storage.map_or(String::new(), |storage| format!(", storage held to {} MB/s", megabytes(storage)));
        format!("{}{memory}{storage}", cpus_words(self.cpus))
    }
}

impl MeasuredPoint {
    /// The run that counts, with its rate: the first undisturbed one, otherwise the fastest disturbed one. See
    /// [`IterationRate::disturbed`] for the interval of the latter.
    pub fn counts(&self) -> Option<(&PointRun, MeasuredRate)> {
        let measured = || self.runs.iter().filter_map(|run| Some((run, run.measured?)));
        let sound = measured().find(|(run, _)| run.outcome == PointOutcome::Sound);
        let disturbed = || {
            let all = || measured().filter(|(run, _)| matches!(run.outcome, PointOutcome::Disturbed { .. }));
            let rates: Vec<_> = all().map(|(run, measured)| (measured.rate, self.disturbance(run))).collect();
            let rate = IterationRate::disturbed(&rates)?;
            let (run, fastest) = all().find(|(_, measured)| measured.rate.per_second == rate.per_second)?;
            Some((run, MeasuredRate { rate, ..fastest }))
        };
        sound.or_else(disturbed)
    }

    /// How other programs disturbed a run, where that was recorded. Of several nodes it is the one that may have been
    /// delayed most, because all wait for it.
    fn disturbance(&self, run: &PointRun) -> Option<Disturbance> {
        let of = |run: &PointRun| {
            let used = run.cpu_seconds? / run.seconds;
            Some(Disturbance { limit: self.configuration.cpus, used, waited: run.waited? })
        };
        let nodes = run.nodes.iter().filter_map(of);
        nodes.max_by(|a, b| a.faster().total_cmp(&b.faster())).or_else(|| of(run))
    }

    /// Its rate; none where no run counts.
    pub fn rate(&self) -> Option<IterationRate> {
        self.counts().map(|(_, measured)| measured.rate)
    }

    /// Seconds of an epoch of so many iterations, from the average rate.
    pub fn epoch(&self, iterations: f64) -> Option<f64> {
        self.counts().map(|(_, measured)| iterations / measured.mean())
    }

    /// The bounds of such an epoch in seconds, from the interval of its rate.
    pub fn epoch_between(&self, iterations: f64) -> Option<[f64; 2]> {
        let (seconds, IterationRate { per_second, interval: [low, high] }) = (self.epoch(iterations)?, self.rate()?);
        Some([seconds * per_second / high, seconds * per_second / low.max(f64::MIN_POSITIVE)])
    }

    /// Whether its rate is the iterations divided by the time of the whole run, so that its error is unknown.
    pub fn is_divided(&self) -> bool {
        self.counts().is_some_and(|(run, _)| run.way == Some(ProgressSource::Division))
    }

    /// The 95 % interval of its rate; none where it is unknown.
    pub fn interval(&self) -> Option<[f64; 2]> {
        Some(self.rate().filter(|_| !self.is_divided())?.interval)
    }

    /// Whether its rate is only known to be at least the lower end of its interval.
    pub fn is_open(&self) -> bool {
        self.interval().is_some_and(is_wide)
    }

    /// The point as the search uses it.
    pub fn on_curve(&self) -> Option<crate::RatePoint> {
        Some(crate::RatePoint { cpus: self.configuration.cpus, rate: self.rate()? })
    }

    pub fn is_out_of_memory(&self) -> bool {
        self.rate().is_none() && self.runs.last().is_some_and(|run| run.outcome == PointOutcome::OutOfMemory)
    }

    /// Whether it failed in another way than by a lack of memory, which is a result.
    pub fn has_failed(&self) -> bool {
        self.rate().is_none() && !self.is_out_of_memory()
    }

    /// Whether it was disturbed in every run.
    pub fn is_doubtful(&self) -> bool {
        self.counts().is_some_and(|(run, _)| run.outcome != PointOutcome::Sound)
    }
}

/// If the upper end of an interval is at least this many times its lower one, only the lower end is reported.
const WIDE: f64 = 2.0;

/// Whether the upper end of an interval says nothing: other programs ran most of the time, or little was measured.
pub(super) fn is_wide([low, high]: [f64; 2]) -> bool {
    high >= WIDE * low
}

/// Reads a list; older files have a single value in its place.
pub(super) fn one_or_several<'a, D: Deserializer<'a>, T: Deserialize<'a>>(
    text: D,
) -> std::result::Result<Vec<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrSeveral<T> {
        One(T),
        Several(Vec<T>),
    }
    OneOrSeveral::deserialize(text).map(|held| match held {
        OneOrSeveral::One(one) => vec![one],
        OneOrSeveral::Several(several) => several,
    })
}

/// A remark about a point; empty where no run was disturbed and its rate is known.
pub(super) fn remark(point: &MeasuredPoint) -> String {
    let open = point.is_open().then(|| "only the lower end is known".to_owned());
    let outcome = Some(outcome(point)).filter(|words| !words.is_empty());
    outcome.into_iter().chain(open).collect::<Vec<_>>().join("; ")
}

fn outcome(point: &MeasuredPoint) -> String {
    let disturbed = point.runs.iter().filter(|run| matches!(run.outcome, PointOutcome::Disturbed { .. })).count();
    let again = format!("disturbed {disturbed} of {} times", point.runs.len());
    // A repeat of a disturbed run may have reported nothing.
    match point.counts().map(|(run, _)| run).or(point.runs.last()).map(|run| &run.outcome) {
        Some(PointOutcome::Sound) if disturbed == 0 => String::new(),
        Some(PointOutcome::Sound) => again,
        Some(PointOutcome::Disturbed { .. }) => again,
        Some(PointOutcome::OutOfMemory) => format!("out of memory{}", node_suffix(point)),
        Some(PointOutcome::Crashed { how, .. }) => format!("failed: {how}"),
        Some(PointOutcome::NoRate { how, .. }) => format!("no rate: {how}"),
        None => "not measured".to_owned(),
    }
}

/// The last lines of output of a job that failed, to append to a sentence.
pub(super) fn last_lines(lines: &[String]) -> String {
    match lines {
        [] => "; it wrote nothing".to_owned(),
        lines => format!("\n  its last lines:\n    {}", lines.join("\n    ")),
    }
}

/// The node of the last run, where there are several.
pub(super) fn node_suffix(point: &MeasuredPoint) -> String {
    let node = point.runs.last().and_then(|run| run.node.as_ref());
    node.map_or(String::new(), |node| format!(" on {node}"))
}

/// "1 CPU", "2.5 CPUs"
pub(super) fn cpus_words(cpus: f64) -> String {
    if cpus == 1.0 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") }
}

#[cfg(test)]
pub(super) mod tests;
