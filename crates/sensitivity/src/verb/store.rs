//! Points that were measured, kept as soon as each is finished: none is measured twice.

use super::heard::Way;
use super::profile::cpus_words;
use crate::{Disturbance, Measured, Rate};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_base::{input_file, whole_file};
use perf4sight_report::significant;
use serde::{Deserialize, Deserializer, Serialize};
use std::path::{Path, PathBuf};

/// The file of points.
const FILE: &str = "points.json";
/// Its version.
const FORMAT: u32 = 1;

/// What a point was measured with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Place {
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
    pub place: Place,
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
    /// What it told that cannot be, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// The node that this tells of, where there are several: the slowest, or the one that failed.
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
        /// What says so.
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
        /// Iterations that were told.
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

impl Place {
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
    /// The run that counts, with what it tells: the first that was sound, else the fastest of those that were disturbed, whose rate is then as
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
            Some(Disturbance { limit: self.place.cpus, used, waited: run.waited? })
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

    /// Between which seconds such an epoch lies, by how sure its rate is.
    pub fn epoch_between(&self, iterations: f64) -> Option<[f64; 2]> {
        let (seconds, Rate { per_second, interval: [low, high] }) = (self.epoch(iterations)?, self.rate()?);
        Some([seconds * per_second / high, seconds * per_second / low.max(f64::MIN_POSITIVE)])
    }

    /// Whether its rate is a whole run divided by its iterations: nothing tells how sure that is.
    pub fn is_divided(&self) -> bool {
        self.counts().is_some_and(|(run, _)| run.way == Some(Way::Division))
    }

    /// Where its rate lies with a probability of 95 %; none where nothing tells.
    pub fn interval(&self) -> Option<[f64; 2]> {
        Some(self.rate().filter(|_| !self.is_divided())?.interval)
    }

    /// As the search takes it.
    pub fn on_curve(&self) -> Option<crate::Point> {
        Some(crate::Point { cpus: self.place.cpus, rate: self.rate()? })
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

/// All points of a job, in a file.
#[derive(Debug)]
pub(super) struct Store {
    file: PathBuf,
    job: String,
    /// In the order in which they were measured.
    pub points: Vec<Point>,
    /// Points whose runs were all disturbed until now, and which are to be run again.
    unfinished: Vec<Point>,
    /// Points that were found here and were disturbed every time: each is run once more.
    due: Vec<Place>,
}

/// What the file holds.
#[derive(Serialize, Deserialize)]
struct Contents {
    format: u32,
    /// What points of another job do not have in common.
    job: String,
    points: Vec<Point>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_several")]
    unfinished: Vec<Point>,
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

impl Store {
    /// The points of a job in a folder; none where there are none, or where they are to be thrown away.
    ///
    /// # Errors
    /// A file that cannot be read, points of another job.
    pub fn open(folder: &Path, job: &str, overwrite: bool) -> Result<Self> {
        let file = folder.join(FILE);
        let store = |points: Vec<Point>, unfinished| {
            let due = points.iter().filter(|point| point.is_doubtful()).map(|point| point.place).collect();
            Store { file: file.clone(), job: job.to_owned(), points, unfinished, due }
        };
        if overwrite || !file.exists() {
            return Ok(store(Vec::new(), Vec::new()));
        }
        let text = input_file::text(&file, "read the points that were measured")?;
        let contents: Contents = serde_json::from_str(&text)
            .map_err(|cause| Error::input(format!("these are no points of this version: {cause}")).file(&file))?;
        if (contents.format, contents.job.as_str()) != (FORMAT, job) {
            return Err(Error::usage("the points here are those of another job, or measured otherwise")
                .file(&file)
                .expected(job)
                .help("choose another folder (out), or throw these away (overwrite)"));
        }
        Ok(store(contents.points, contents.unfinished))
    }

    /// Keeps a point, in the place of what was known of it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, point: Point) -> Result<()> {
        self.due.retain(|place| *place != point.place);
        self.unfinished.retain(|begun| begun.place != point.place);
        match self.points.iter_mut().find(|known| known.place == point.place) {
            Some(known) => *known = point,
            None => self.points.push(point),
        }
        self.save()
    }

    /// Keeps the runs of a point that is to be run again.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn begin(&mut self, point: &Point) -> Result<()> {
        self.unfinished.retain(|begun| begun.place != point.place);
        self.unfinished.push(point.clone());
        self.save()
    }

    /// Whether runs are kept of a point that is not finished.
    pub fn has_begun(&self) -> bool {
        !self.unfinished.is_empty()
    }

    /// A point with the runs that were kept of it.
    pub fn begun(&self, place: Place) -> Point {
        let kept = self.unfinished.iter().find(|point| point.place == place);
        kept.or(self.at(place)).cloned().unwrap_or(Point { place, runs: Vec::new() })
    }

    /// The places that anything is known of: of points, and of those that are not finished.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.points.iter().chain(&self.unfinished).map(|point| point.place)
    }

    /// Whether a point was found here that was disturbed every time, and was not run again since.
    pub fn is_due(&self, place: Place) -> bool {
        self.due.contains(&place)
    }

    fn save(&self) -> Result<()> {
        let (job, points) = (self.job.clone(), self.points.clone());
        let contents = Contents { format: FORMAT, job, points, unfinished: self.unfinished.clone() };
        let text = serde_json::to_string_pretty(&contents).expect("numbers and text are JSON");
        whole_file::save(&self.file, text + "\n")
    }

    /// The point of a place.
    pub fn at(&self, place: Place) -> Option<&Point> {
        self.points.iter().find(|point| point.place == place)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use tempfile::TempDir;

    /// A run with so many iterations a second, which took so many seconds.
    pub fn run(per_second: f64, seconds: f64) -> Run {
        let rate = Rate::exactly(per_second);
        Run {
            outcome: Outcome::Sound,
            way: None,
            measured: Some(Measured { rate, iterations: 100, seconds, blocks: 12, waiting: None, changed: None }),
            seconds,
            cpu_seconds: None,
            throttled_seconds: None,
            peak_memory: Some(Bytes(seconds as u64)),
            own_memory: None,
            doubts: Vec::new(),
            bytes_read: None,
            pressure: None,
            waited: None,
            node: None,
            nodes: Vec::new(),
        }
    }

    /// Of a point that was disturbed twice, and whose third run was interrupted, two runs are found again; finished, it is a point.
    #[test]
    fn runs_of_a_point_that_is_not_finished_are_kept() {
        let folder = TempDir::new().unwrap();
        let place = Place { cpus: 0.5, memory: None, storage: None };
        let disturbed = Run { outcome: Outcome::Disturbed { how: "others".to_owned() }, ..run(10.0, 4.0) };
        let point = Point { place, runs: vec![disturbed.clone(), disturbed] };
        let open = || Store::open(folder.path(), "job", false).unwrap();
        open().begin(&point).unwrap();
        let mut store = open();
        assert_eq!((store.points.len(), store.begun(place)), (0, point.clone()));
        assert!(store.begun(Place { cpus: 1.0, ..place }).runs.is_empty());
        store.add(point.clone()).unwrap();
        let found = open();
        assert_eq!((found.points.len(), found.begun(place).runs.len()), (1, 2));
    }

    /// 1 CPU was disturbed every time, and 0.25 CPUs are not finished: what is run at 1 CPU meanwhile takes nothing from them, nor does what is
    /// begun anew there. Files that were written before held one unfinished point.
    #[test]
    fn what_is_run_elsewhere_leaves_an_unfinished_point_as_it_is() {
        let folder = TempDir::new().unwrap();
        let disturbed = Run { outcome: Outcome::Disturbed { how: "others".to_owned() }, ..run(10.0, 4.0) };
        let at = |cpus: f64, runs: usize| Point {
            place: Place { cpus, memory: None, storage: None },
            runs: vec![disturbed.clone(); runs],
        };
        let open = || Store::open(folder.path(), "job", false).unwrap();
        let mut store = open();
        store.add(at(1.0, 3)).unwrap();
        store.begin(&at(0.25, 1)).unwrap();
        let mut store = open();
        store.begin(&at(1.0, 4)).unwrap();
        assert_eq!(open().begun(at(0.25, 0).place), at(0.25, 1));
        assert_eq!(open().begun(at(1.0, 0).place), at(1.0, 4));
        store.add(at(1.0, 4)).unwrap();
        assert_eq!(open().begun(at(0.25, 0).place), at(0.25, 1));
        assert!(open().has_begun());
        let file = folder.path().join(FILE);
        let mut contents: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        contents["unfinished"] = contents["unfinished"][0].clone();
        std::fs::write(&file, contents.to_string()).unwrap();
        assert_eq!(open().begun(at(0.25, 0).place), at(0.25, 1));
    }

    /// Two nodes of 2 CPUs, which both wait for the slower: node 0, which made 10.0 iterations a second, was alone, node 1, which made 10.1, waited
    /// for others half of the time. Without them it may all have been twice as fast, and what node 0 saw does not tell.
    #[test]
    fn of_several_nodes_the_one_that_others_held_back_tells_how_far_a_rate_may_be_off() {
        let used = |waited: f64, per_second: f64| Run {
            cpu_seconds: Some(5.0),
            waited: Some(waited),
            ..run(per_second, 10.0)
        };
        let outcome = Outcome::Disturbed { how: "others on node 1".to_owned() };
        let all = Run { outcome, nodes: vec![used(0.0, 10.0), used(0.5, 10.1)], ..used(0.0, 10.0) };
        let point = Point { place: Place { cpus: 2.0, memory: None, storage: None }, runs: vec![all] };
        let rate = point.rate().unwrap();
        assert!((rate.interval[1] - 20.0).abs() < 1e-9, "{rate:?}");
    }

    /// Runs at 10 and 11 a second that others disturbed, which waited for them a fifth of the time at most.
    #[test]
    fn a_disturbed_point_is_as_uncertain_as_its_runs_and_due_once_more_when_it_is_found() {
        let folder = TempDir::new().unwrap();
        let disturbed = |rate: f64| Run {
            outcome: Outcome::Disturbed { how: "others".to_owned() },
            cpu_seconds: Some(5.0),
            waited: Some(0.2),
            ..run(rate, 10.0)
        };
        let place = Place { cpus: 1.0, memory: None, storage: None };
        let point = Point { place, runs: vec![disturbed(10.0), disturbed(11.0)] };
        let rate = point.rate().unwrap();
        // 11 + (11 - 10), and 11 / (1 - 0.2).
        assert!(
            (rate.per_second, rate.interval[0]) == (11.0, 10.0) && (rate.interval[1] - 13.75).abs() < 1e-9,
            "{rate:?}"
        );
        let [least, most] = point.epoch_between(110.0).unwrap();
        // It made 100 iterations in 10 s, stalls and all: 11 s, and 11 s by 11 / 13.75 and by 11 / 10.
        assert!((least - 8.8).abs() < 1e-9 && (most - 12.1).abs() < 1e-9, "{least} {most}");
        let open = || Store::open(folder.path(), "job", false).unwrap();
        let mut store = open();
        store.add(point.clone()).unwrap();
        assert!(!store.is_due(place), "it was run again just now");
        let mut store = open();
        assert!(store.is_due(place));
        let mut runs = store.begun(place).runs;
        runs.push(run(12.0, 10.0));
        store.add(Point { place, runs }).unwrap();
        assert!(!store.is_due(place));
        let found = open();
        assert!(!found.is_due(place) && found.points.len() == 1 && found.points[0].runs.len() == 3);
        assert_eq!(found.points[0].rate().unwrap(), Rate::exactly(12.0), "a sound run counts");
    }
}
