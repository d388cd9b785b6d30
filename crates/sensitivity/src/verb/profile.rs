//! The format of `profile.json`: all measurements of a job and the results computed from them.

use super::points::{MeasuredPoint, ResourceConfiguration, cpus_words, one_or_several};
use crate::{
    CurveOddity, DataCache, EpochBound, EpochEstimate, EpochModel, IterationRate, JobData, Knee, MeasuredOverlap,
    RateCurve, ResourceRequest,
};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_base::units::Bytes;
use perf4sight_machine::MachineProperties;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The version of the format; version 1 had one host.
pub(super) const FORMAT: u32 = 2;

/// At most this many different numbers of CPUs: more than hundredths of a CPU on the largest machines.
const NUMBERS: f64 = 1e6;

/// All measurements and results of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SensitivityProfile {
    pub format: u32,
    pub job: JobFacts,
    /// The machine's settings that affect measurements and that a run does not change, of each node by rank; format 1
    /// had one host.
    #[serde(alias = "host", deserialize_with = "one_or_several")]
    pub hosts: Vec<MachineProperties>,
    pub limits: Vec<ProfileLimit>,
    /// All measured points, with all their runs.
    pub points: Vec<MeasuredPoint>,
    /// The fewest CPUs that reach given shares of the best rate.
    pub knees: Vec<Knee>,
    /// Points that contradict a concave, non-decreasing curve.
    pub oddities: Vec<CurveOddity>,
    /// The memory that the job holds without any of its data.
    pub own_memory: Option<Bytes>,
    /// The inputs from which epochs are computed; none where too little is known of the data.
    pub model: Option<ModelFacts>,
    /// Epochs for each measured number of CPUs and each memory size.
    pub matrix: Vec<PredictedEpoch>,
    /// Epochs with nothing in memory and storage held to a bandwidth; the overlap is fitted to the first.
    #[serde(default)]
    pub throttled: Vec<ThrottledEpoch>,
    /// Epochs over bandwidths of storage and memory, with the CPUs of the last knee.
    #[serde(default)]
    pub storage_matrix: Vec<StorageEpoch>,
    pub request: Option<RecommendedRequest>,
    pub warnings: Vec<String>,
    pub provenance: SensitivityProvenance,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct JobFacts {
    pub name: String,
    pub command: Vec<String>,
    pub gpus: u32,
    /// Batch size on each GPU.
    pub batch: Option<u64>,
    pub most_cpus: f64,
    /// The step between the numbers of CPUs to try; none in older files.
    #[serde(default)]
    pub cpu_step: Option<f64>,
    pub memory: Option<Bytes>,
    /// The bandwidth that storage was held to for the curve, in bytes a second.
    #[serde(default)]
    pub storage: Option<Bytes>,
    pub data: Option<DataFacts>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct DataFacts {
    pub path: PathBuf,
    pub bytes: Bytes,
    pub files: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ProfileLimit {
    pub axis: String,
    /// The limiter; none where nothing can limit it.
    pub by: Option<String>,
    /// Why better limiters were not available.
    pub refused: Vec<String>,
}

/// The inputs from which epochs are computed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct ModelFacts {
    pub iterations: f64,
    /// The data that an epoch reads, and the bandwidths.
    pub data: JobData,
    /// How the machine caches what was read; none where that was not measured.
    pub cache: Option<DataCache>,
    /// How far reading and computing overlap; none where that was not measured.
    #[serde(default)]
    pub overlap: Option<MeasuredOverlap>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct PredictedEpoch {
    pub cpus: f64,
    /// The share of the data that fits in memory, in percent.
    pub memory_percent: u32,
    pub seconds: EpochEstimate,
    /// Bytes a second that storage must deliver so that the epoch waits for computing only.
    pub storage_needed: Option<EpochEstimate>,
    pub bound: Option<EpochBound>,
}

/// A measured epoch whose data all came from storage that was held to a bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct ThrottledEpoch {
    pub cpus: f64,
    /// Bytes a second.
    pub storage_bandwidth: f64,
    /// Measured seconds, extrapolated from the part that was measured.
    pub seconds: f64,
    /// Seconds if reading and computing overlapped completely.
    pub side_by_side: f64,
    /// Seconds as computed with the measured overlap.
    pub model: EpochEstimate,
}

/// A predicted epoch with storage of some bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct StorageEpoch {
    /// Bytes a second.
    pub storage_bandwidth: f64,
    /// The epoch; the storage that it needs is the same for all bandwidths.
    #[serde(flatten)]
    pub epoch: PredictedEpoch,
}

/// The recommended request, and its form for other tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RecommendedRequest {
    #[serde(flatten)]
    pub request: ResourceRequest,
    /// Bytes a second that storage must deliver; none where that is unknown, or memory itself is too slow.
    #[serde(default)]
    pub storage: Option<f64>,
    pub kubernetes: String,
    pub slurm: String,
    pub docker: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SensitivityProvenance {
    pub perf4sight: String,
    pub date: String,
    /// Whether everything that was requested was measured.
    pub complete: bool,
}

/// The remedy for a file that is no profile.
const REMEDY: &str = "name the profile.json in a folder of results (out); a job is measured with its command behind two dashes: perf4sight sensitivity -- python3 train.py";

fn is_positive(number: f64) -> bool {
    number > 0.0 && number.is_finite()
}

impl ModelFacts {
    fn can_be(&self) -> bool {
        let JobData { bytes, memory_bandwidth, storage_bandwidth, storage_between } = self.data;
        let between = storage_between.is_none_or(|[low, high]| is_positive(low) && low <= high);
        let overlap = self.overlap.is_none_or(|MeasuredOverlap { in_turn, between: [low, high] }| {
            0.0 <= low && low <= in_turn && in_turn <= high && high <= 1.0
        });
        let cache = self.cache.is_none_or(|cache| (0.0..=1.0).contains(&cache.lru));
        let positive = [self.iterations, bytes, memory_bandwidth, storage_bandwidth].into_iter().all(is_positive);
        between && overlap && cache && positive
    }

    pub fn model(self, curve: RateCurve) -> EpochModel {
        EpochModel { curve, iterations: self.iterations, data: self.data, cache: self.cache, overlap: self.overlap }
    }
}

impl SensitivityProfile {
    /// Reads a profile from a file.
    ///
    /// # Errors
    /// A file that is missing, or is no profile of this version.
    pub fn read(file: &Path) -> Result<Self> {
        let text = input_file::text(file, "read the profile of the job").map_err(|error| error.help(REMEDY))?;
        let profile: SensitivityProfile = serde_json::from_str(&text).map_err(|cause| {
            Error::input(format!("this is not a profile of a job: {cause}")).file(file).help(REMEDY)
        })?;
        match profile.format {
            1..=FORMAT => profile.checked(file),
            other => Err(Error::input(format!("this profile has the format {other}, of another version"))
                .file(file)
                .expected(format!("format {FORMAT}"))),
        }
    }

    /// Checks its numbers; a result that does not follow from its points becomes a warning.
    ///
    /// # Errors
    /// Numbers that cannot have been measured, such as CPUs or bandwidths below 0 or rates outside of their intervals;
    /// no point of the curve, or no machine. The file was edited.
    fn checked(self, file: &Path) -> Result<Self> {
        let wrong = |what: String| {
            Err(Error::input(what).file(file).help("measure it again, or use the file as it was written"))
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
        let is_wrong = |rate: &IterationRate| {
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
        Ok(SensitivityProfile { warnings: self.warnings.iter().cloned().chain(doubt).collect(), ..self })
    }

    pub fn own_memory_of_points(&self) -> Option<Bytes> {
        own_memory(self.curve_points())
    }

    /// The points of the curve. A folder may also hold points with more CPUs than were requested this time.
    pub fn curve_points(&self) -> impl Iterator<Item = &MeasuredPoint> {
        let of_curve = |configuration: ResourceConfiguration| {
            (configuration.memory, configuration.storage) == (self.job.memory, self.job.storage)
                && configuration.cpus <= self.job.most_cpus
        };
        self.points.iter().filter(move |point| of_curve(point.configuration))
    }

    /// The curve; none where nothing was measured.
    pub fn curve(&self) -> Option<RateCurve> {
        RateCurve::new(&self.curve_points().filter_map(MeasuredPoint::on_curve).collect::<Vec<_>>())
    }

    pub fn model(&self) -> Option<EpochModel> {
        Some(self.model?.model(self.curve()?))
    }

    /// The knee with the smaller share of the best rate.
    pub fn knee(&self) -> Option<Knee> {
        self.knees.first().copied()
    }

    /// The memory that holds the job and a share of its data.
    pub fn memory(&self, percent: u32) -> Option<Bytes> {
        let data = self.model?.data.bytes * f64::from(percent) / 100.0;
        Some(Bytes(self.own_memory.unwrap_or(Bytes(0)).0 + data as u64))
    }
}

/// The largest own memory of the job in any run of the curve. Older points did not record it; of those, the peak memory
/// with the page cache counts.
pub(super) fn own_memory<'a>(points: impl Iterator<Item = &'a MeasuredPoint>) -> Option<Bytes> {
    points.filter_map(MeasuredPoint::counts).filter_map(|(run, _)| run.own_memory.or(run.peak_memory)).max()
}

/// An estimate as one number: the most likely value, or the upper bound, so that a request is never too small.
pub(super) fn number(estimate: &EpochEstimate) -> f64 {
    estimate.likely.unwrap_or(estimate.most)
}
