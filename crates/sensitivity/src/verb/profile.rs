//! What is known of a job when its points were measured: `profile.json`.

use super::points::{Configuration, Point, cpus_words, one_or_several};
use crate::{Bound, Cache, Curve, Data, Estimate, Knee, MeasuredOverlap, Model, Oddity, Rate, Request};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_base::units::Bytes;
use perf4sight_machine::Setting;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The version of the file; the first one had one host.
pub(super) const FORMAT: u32 = 2;

/// So many numbers of CPUs are never tried: hundredths of those of the largest machines.
const NUMBERS: f64 = 1e6;

/// Everything that came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Profile {
    /// Version of this format.
    pub format: u32,
    /// What was measured.
    pub job: JobFacts,
    /// What measurements depend on and a run does not change, of each node by rank; the first format had one.
    #[serde(alias = "host", deserialize_with = "one_or_several")]
    pub hosts: Vec<Setting>,
    /// What held limits, axis by axis.
    pub limits: Vec<Limit>,
    /// All points, with all runs.
    pub points: Vec<Point>,
    /// The fewest CPUs with shares of the best rate.
    pub knees: Vec<Knee>,
    /// What does not fit a concave curve that does not fall.
    pub oddities: Vec<Oddity>,
    /// The memory that the job holds without any of its data.
    pub own_memory: Option<Bytes>,
    /// What epochs are computed from; none where too little is known of the data.
    pub model: Option<ModelFacts>,
    /// Epochs for each number of CPUs that was measured and each memory.
    pub matrix: Vec<Epoch>,
    /// Epochs that were measured with nothing in memory and storage held to a bandwidth, the first of which placed the overlap.
    #[serde(default)]
    pub throttled: Vec<Throttled>,
    /// Epochs over bandwidths of storage and memory, with the CPUs of the last knee.
    #[serde(default)]
    pub storage_matrix: Vec<StorageEpoch>,
    /// What to request.
    pub request: Option<Requested>,
    /// What a reader should know.
    pub warnings: Vec<String>,
    /// Where this comes from.
    pub provenance: Provenance,
}

/// What was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct JobFacts {
    /// Its name.
    pub name: String,
    /// Its words, with what was passed.
    pub command: Vec<String>,
    /// GPUs.
    pub gpus: u32,
    /// Samples of an iteration on each GPU.
    pub batch: Option<u64>,
    /// The most CPUs that were to be tried.
    pub most_cpus: f64,
    /// The step between the numbers of them that might be tried; none in older files.
    #[serde(default)]
    pub cpu_step: Option<f64>,
    /// The limit on memory of the curve.
    pub memory: Option<Bytes>,
    /// What storage was held to for the curve, in bytes a second.
    #[serde(default)]
    pub storage: Option<Bytes>,
    /// What an epoch reads.
    pub data: Option<DataFacts>,
}

/// What an epoch reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct DataFacts {
    /// Where it is.
    pub path: PathBuf,
    /// What is in its files.
    pub bytes: Bytes,
    /// How many there are.
    pub files: u64,
}

/// What held a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Limit {
    /// What is limited.
    pub axis: String,
    /// By what; none where nothing could.
    pub by: Option<String>,
    /// Why nothing better did.
    pub refused: Vec<String>,
}

/// What epochs are computed from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct ModelFacts {
    /// Iterations of an epoch.
    pub iterations: f64,
    /// What an epoch reads, and how fast.
    pub data: Data,
    /// How the machine keeps what was read; none where that was not measured.
    pub cache: Option<Cache>,
    /// How far reading and computing go on side by side; none where that was not measured.
    #[serde(default)]
    pub overlap: Option<MeasuredOverlap>,
}

/// An epoch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Epoch {
    /// CPUs.
    pub cpus: f64,
    /// The share of the data that has room in memory, in percent.
    pub memory_percent: u32,
    /// Seconds it takes.
    pub seconds: Estimate,
    /// Bytes a second that storage must give so that it waits for computing alone.
    pub storage_needed: Option<Estimate>,
    /// What it waits for.
    pub bound: Option<Bound>,
}

/// An epoch all of whose data came from storage that was held to a bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Throttled {
    /// CPUs.
    pub cpus: f64,
    /// Bytes a second.
    pub storage_bandwidth: f64,
    /// Seconds it takes, going by the part of it that was measured.
    pub seconds: f64,
    /// Seconds if reading and computing went on side by side.
    pub side_by_side: f64,
    /// Seconds as computed with what was measured of that.
    pub model: Estimate,
}

/// An epoch with storage of some bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct StorageEpoch {
    /// Bytes a second.
    pub storage_bandwidth: f64,
    /// With its CPUs and memory; what it needs of storage is the same for all bandwidths.
    #[serde(flatten)]
    pub epoch: Epoch,
}

/// What to request, and how others write it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Requested {
    /// In numbers.
    #[serde(flatten)]
    pub request: Request,
    /// Bytes a second that storage has to give; none where that is not known, or memory itself is too slow.
    #[serde(default)]
    pub storage: Option<f64>,
    /// For Kubernetes.
    pub kubernetes: String,
    /// For Slurm.
    pub slurm: String,
    /// For docker.
    pub docker: String,
}

/// Where a profile comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Provenance {
    /// Version of the program.
    pub perf4sight: String,
    /// When it was written.
    pub date: String,
    /// Whether everything was measured that was wanted; else why not.
    pub complete: bool,
}

fn is_positive(number: f64) -> bool {
    number > 0.0 && number.is_finite()
}

impl ModelFacts {
    /// Whether its numbers are ones that something can have.
    fn can_be(&self) -> bool {
        let Data { bytes, memory_bandwidth, storage_bandwidth, storage_between } = self.data;
        let between = storage_between.is_none_or(|[low, high]| is_positive(low) && low <= high);
        let overlap = self.overlap.is_none_or(|MeasuredOverlap { in_turn, between: [low, high] }| {
            0.0 <= low && low <= in_turn && in_turn <= high && high <= 1.0
        });
        let cache = self.cache.is_none_or(|cache| (0.0..=1.0).contains(&cache.lru));
        let positive = [self.iterations, bytes, memory_bandwidth, storage_bandwidth].into_iter().all(is_positive);
        between && overlap && cache && positive
    }

    /// With a curve.
    pub fn model(self, curve: Curve) -> Model {
        Model { curve, iterations: self.iterations, data: self.data, cache: self.cache, overlap: self.overlap }
    }
}

impl Profile {
    /// Reads a profile that was written.
    ///
    /// # Errors
    /// A file that is missing, or is no profile of this version.
    pub fn read(file: &Path) -> Result<Self> {
        let text = input_file::text(file, "read the profile of the job")?;
        let profile: Profile = serde_json::from_str(&text)
            .map_err(|cause| Error::input(format!("this is no profile of a job: {cause}")).file(file))?;
        match profile.format {
            1..=FORMAT => profile.checked(file),
            other => Err(Error::input(format!("this profile has the format {other}, of another version"))
                .file(file)
                .expected(format!("format {FORMAT}"))),
        }
    }

    /// As it is, where its numbers can be; what does not follow from its points becomes a warning.
    ///
    /// # Errors
    /// Numbers that nobody measures, such as CPUs or bandwidths below 0 or rates outside of their intervals; no point of the curve, no machine:
    /// somebody changed it.
    fn checked(self, file: &Path) -> Result<Self> {
        let wrong = |what: String| {
            Err(Error::input(what).file(file).help("measure it anew, or take the file as it was written"))
        };
        let JobFacts { most_cpus, cpu_step, .. } = self.job;
        if !is_positive(most_cpus) || cpu_step.is_some_and(|step| !is_positive(step) || most_cpus > NUMBERS * step) {
            return wrong(format!("nobody tries up to {most_cpus} CPUs {} apart", cpu_step.unwrap_or(most_cpus)));
        }
        if let Some(point) = self.points.iter().find(|point| !is_positive(point.configuration.cpus)) {
            return wrong(format!("a point cannot have {}", cpus_words(point.configuration.cpus)));
        }
        let asked = self.knees.iter().map(|knee| knee.cpus).chain(self.request.iter().map(|asked| asked.request.cpus));
        if let Some(cpus) = asked.into_iter().find(|cpus| !is_positive(*cpus)) {
            return wrong(format!("a job cannot be given {}", cpus_words(cpus)));
        }
        let rates = self.points.iter().flat_map(|point| &point.runs).filter_map(|run| run.measured);
        let is_wrong = |rate: &Rate| {
            let [low, high] = rate.interval;
            !(is_positive(rate.per_second) && low >= 0.0 && low <= rate.per_second && rate.per_second <= high)
        };
        if let Some(rate) = rates.map(|measured| measured.rate).find(is_wrong) {
            return wrong(format!("{} iterations a second cannot lie in {:?}", rate.per_second, rate.interval));
        }
        if let Some(facts) = self.model.filter(|facts| !facts.can_be()) {
            return wrong(format!("epochs cannot be computed from {facts:?}"));
        }
        if self.curve().is_none() || self.hosts.is_empty() {
            let what = if self.hosts.is_empty() { "machine that it was measured on" } else { "point of the curve" };
            return wrong(format!("a profile cannot be without any {what}"));
        }
        let doubt = self.contradiction();
        Ok(Profile { warnings: self.warnings.iter().cloned().chain(doubt).collect(), ..self })
    }

    /// See [`own_memory`].
    pub fn own_memory_of_points(&self) -> Option<Bytes> {
        own_memory(self.curve_points())
    }

    /// The points of the curve: a folder may hold those of more CPUs than were asked for this time.
    pub fn curve_points(&self) -> impl Iterator<Item = &Point> {
        let of_curve = |configuration: Configuration| {
            (configuration.memory, configuration.storage) == (self.job.memory, self.job.storage)
                && configuration.cpus <= self.job.most_cpus
        };
        self.points.iter().filter(move |point| of_curve(point.configuration))
    }

    /// The curve; none where nothing was measured.
    pub fn curve(&self) -> Option<Curve> {
        Curve::of(&self.curve_points().filter_map(Point::on_curve).collect::<Vec<_>>())
    }

    /// What epochs are computed with.
    pub fn model(&self) -> Option<Model> {
        Some(self.model?.model(self.curve()?))
    }

    /// The fewest CPUs with the smaller share of the best rate.
    pub fn knee(&self) -> Option<Knee> {
        self.knees.first().copied()
    }

    /// The memory for a share of the data.
    pub fn memory(&self, percent: u32) -> Option<Bytes> {
        let data = self.model?.data.bytes * f64::from(percent) / 100.0;
        Some(Bytes(self.own_memory.unwrap_or(Bytes(0)).0 + data as u64))
    }
}

/// The most memory of its own that the job held in any run of the curve; of points that were kept before that was counted, with the page
/// cache.
pub(super) fn own_memory<'a>(points: impl Iterator<Item = &'a Point>) -> Option<Bytes> {
    points.filter_map(Point::counts).filter_map(|(run, _)| run.own_memory.or(run.peak_memory)).max()
}

/// An estimate in one number: what is likely, or the upper end, with which nobody requests too little.
pub(super) fn number(estimate: &Estimate) -> f64 {
    estimate.likely.unwrap_or(estimate.most)
}
