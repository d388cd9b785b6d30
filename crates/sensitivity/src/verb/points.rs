//! What was measured: configurations of a job, with all runs that each took.

use super::progress::Way;
use crate::{Disturbance, Measured, Rate};
use perf4sight_base::units::Bytes;
use perf4sight_report::significant;
use serde::{Deserialize, Deserializer, Serialize};

/// What a point was measured with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Configuration {
    /// CPUs.
    pub cpus: f64,
    /// The limit on memory; none where there was none, and all data was in memory as far as it has room.
    pub memory: Option<Bytes>,
    /// What storage was held to, in bytes a second; none where it was not.
    #[serde(default)]
    pub storage: Option<Bytes>,
}

/// A point, with all runs that it took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Point {
    /// What the job had.
    #[serde(flatten)]
    pub configuration: Configuration,
    /// One run, and repeats of those that were disturbed.
    pub runs: Vec<Run>,
}

/// One run of the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    /// What came of it.
    pub outcome: Outcome,
    /// How its iterations are known.
    pub way: Option<Way>,
    /// Its rate and what that rests on.
    pub measured: Option<Measured>,
    /// Seconds from start to end.
    pub seconds: f64,
    /// Seconds of CPU time.
    pub cpu_seconds: Option<f64>,
    /// Seconds that its limit on CPUs held it back.
    pub throttled_seconds: Option<f64>,
    /// The most memory it held, with the page cache where a control group counted it.
    pub peak_memory: Option<Bytes>,
    /// The most memory of its own that it held at a time, without pages of files.
    #[serde(default)]
    pub own_memory: Option<Bytes>,
    /// What it read from storage.
    pub bytes_read: Option<Bytes>,
    /// Share of the time that something on the host waited for a CPU.
    pub pressure: Option<f64>,
    /// Share of the time that it waited for others, at most.
    #[serde(default)]
    pub waited: Option<f64>,
    /// What it reported that cannot be, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// The node that this is of, where there are several: the slowest, or the one that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What came of it on each of several nodes, by rank.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Run>,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub(super) enum Outcome {
    /// It counts.
    Sound,
    /// It was not alone.
    Disturbed {
        /// The evidence.
        how: String,
    },
    /// It did not fit into its memory.
    OutOfMemory,
    /// It failed.
    Crashed {
        /// How.
        how: String,
        /// What it wrote last.
        last_lines: Vec<String>,
    },
    /// It ended, or its time was up, before there were iterations enough for a rate.
    NoRate {
        /// What there was instead.
        how: String,
        /// Iterations that were reported.
        #[serde(default)]
        told: usize,
        /// What it wrote last.
        last_lines: Vec<String>,
    },
}

impl Outcome {
    /// What the job wrote last, where it failed.
    pub fn last_lines(&self) -> &[String] {
        match self {
            Outcome::Crashed { last_lines, .. } | Outcome::NoRate { last_lines, .. } => last_lines,
            Outcome::Sound | Outcome::Disturbed { .. } | Outcome::OutOfMemory => &[],
        }
    }
}

impl Configuration {
    /// "1.5 CPUs, 4 GiB, storage held to 100 MB/s"
    pub fn words(self) -> String {
        let memory = self.memory.map_or(String::new(), |memory| format!(", {memory}"));
        let megabytes = |storage: Bytes| significant(storage.0 as f64 / 1e6);
        let storage =
            self.storage.map_or(String::new(), |storage| format!(", storage held to {} MB/s", megabytes(storage)));
        format!("{}{memory}{storage}", cpus_words(self.cpus))
    }
}

impl Point {
    /// The run that counts, with its rate: the first that was sound, else the fastest of those that were disturbed, whose rate is then as
    /// uncertain as they differ, and as others may have held it back.
    pub fn counts(&self) -> Option<(&Run, Measured)> {
        let measured = || self.runs.iter().filter_map(|run| Some((run, run.measured?)));
        let sound = measured().find(|(run, _)| run.outcome == Outcome::Sound);
        let disturbed = || {
            let all = || measured().filter(|(run, _)| matches!(run.outcome, Outcome::Disturbed { .. }));
            let rates: Vec<_> = all().map(|(run, measured)| (measured.rate, self.disturbance(run))).collect();
            let rate = Rate::disturbed(&rates)?;
            let (run, fastest) = all().find(|(_, measured)| measured.rate.per_second == rate.per_second)?;
            Some((run, Measured { rate, ..fastest }))
        };
        sound.or_else(disturbed)
    }

    /// What others did to a run, where that was counted; on several nodes, to the one that they may have held back the most: all wait for it.
    fn disturbance(&self, run: &Run) -> Option<Disturbance> {
        let of = |run: &Run| {
            let used = run.cpu_seconds? / run.seconds;
            Some(Disturbance { limit: self.configuration.cpus, used, waited: run.waited? })
        };
        let nodes = run.nodes.iter().filter_map(of);
        nodes.max_by(|a, b| a.faster().total_cmp(&b.faster())).or_else(|| of(run))
    }

    /// Its rate; none where nothing counts.
    pub fn rate(&self) -> Option<Rate> {
        self.counts().map(|(_, measured)| measured.rate)
    }

    /// Seconds of an epoch of so many iterations, going by all that counted.
    pub fn epoch(&self, iterations: f64) -> Option<f64> {
        self.counts().map(|(_, measured)| iterations / measured.mean())
    }

    /// The bounds of such an epoch in seconds, by the interval of its rate.
    pub fn epoch_between(&self, iterations: f64) -> Option<[f64; 2]> {
        let (seconds, Rate { per_second, interval: [low, high] }) = (self.epoch(iterations)?, self.rate()?);
        Some([seconds * per_second / high, seconds * per_second / low.max(f64::MIN_POSITIVE)])
    }

    /// Whether its rate is a whole run divided by its iterations: its error is not known.
    pub fn is_divided(&self) -> bool {
        self.counts().is_some_and(|(run, _)| run.way == Some(Way::Division))
    }

    /// The interval of 95 % of its rate; none where that is not known.
    pub fn interval(&self) -> Option<[f64; 2]> {
        Some(self.rate().filter(|_| !self.is_divided())?.interval)
    }

    /// As the search takes it.
    pub fn on_curve(&self) -> Option<crate::Point> {
        Some(crate::Point { cpus: self.configuration.cpus, rate: self.rate()? })
    }

    /// Whether it is known not to fit into its memory.
    pub fn is_out_of_memory(&self) -> bool {
        self.rate().is_none() && self.runs.last().is_some_and(|run| run.outcome == Outcome::OutOfMemory)
    }

    /// Whether it was disturbed again and again.
    pub fn is_doubtful(&self) -> bool {
        self.counts().is_some_and(|(run, _)| run.outcome != Outcome::Sound)
    }
}

/// Several of what there was one of in files that were written before.
pub(super) fn one_or_several<'a, D: Deserializer<'a>, T: Deserialize<'a>>(
    text: D,
) -> std::result::Result<Vec<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Held<T> {
        One(T),
        Several(Vec<T>),
    }
    Held::deserialize(text).map(|held| match held {
        Held::One(one) => vec![one],
        Held::Several(several) => several,
    })
}

/// What is to be known of a point; nothing where it is sound.
pub(super) fn remark(point: &Point) -> String {
    let disturbed = point.runs.iter().filter(|run| matches!(run.outcome, Outcome::Disturbed { .. })).count();
    let again = format!("disturbed {disturbed} of {} times", point.runs.len());
    // A repeat of a disturbed run may have reported nothing.
    match point.counts().map(|(run, _)| run).or(point.runs.last()).map(|run| &run.outcome) {
        Some(Outcome::Sound) if disturbed == 0 => String::new(),
        Some(Outcome::Sound) => again,
        Some(Outcome::Disturbed { .. }) => again,
        Some(Outcome::OutOfMemory) => format!("out of memory{}", on(point)),
        Some(Outcome::Crashed { how, .. }) => format!("failed: {how}"),
        Some(Outcome::NoRate { how, .. }) => format!("no rate: {how}"),
        None => "not measured".to_owned(),
    }
}

/// What a job that failed wrote last, beneath a sentence that says so.
pub(super) fn last_lines(lines: &[String]) -> String {
    match lines {
        [] => "; it wrote nothing".to_owned(),
        lines => format!("\n  its last lines:\n    {}", lines.join("\n    ")),
    }
}

/// Which of several nodes the last run is of.
pub(super) fn on(point: &Point) -> String {
    let node = point.runs.last().and_then(|run| run.node.as_ref());
    node.map_or(String::new(), |node| format!(" on {node}"))
}

/// "1 CPU", "2.5 CPUs"
pub(super) fn cpus_words(cpus: f64) -> String {
    if cpus == 1.0 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") }
}

#[cfg(test)]
pub(super) mod tests;
