//! What is known of a job when its points were measured: `profile.json`.

use super::store::{Place, Point, one_or_several};
use crate::{
    Bound, Cache, Curve, Data, Estimate, Grid, Knee, LONGER, MeasuredOverlap, Model, Oddity, Overlap, Rate, Request,
    knees,
};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_base::units::{Bytes, Milliseconds, Percent};
use perf4sight_machine::Setting;
use perf4sight_report::significant;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The version of the file; the first one had one host.
pub(super) const FORMAT: u32 = 2;
/// The memory that the matrices are told for, in percent of the data.
const PERCENTS: [u32; 11] = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
/// The bandwidths of storage that epochs are told for, as shares of what a job needs that finds nothing in memory.
const BANDWIDTHS: [f64; 6] = [0.25, 0.5, 0.75, 1.0, 1.5, 2.0];
/// What is requested beyond the memory that a job of its own was seen to hold.
const SPARE: f64 = 1.1;
/// Epochs that differ by no more than this share are the same, computed by another machine.
const ROUNDING: f64 = 1e-6;

/// So many numbers of CPUs are never tried: hundredths of those of the largest machines.
const NUMBERS: f64 = 1e6;

/// Everything that came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// How close the numbers of them lie that might be tried; none in files that were written before that was told.
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
    /// Where it lies.
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
    /// Bytes a second that storage has to give beside that; none where nothing tells, or memory itself is too slow.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
        if let Some(point) = self.points.iter().find(|point| !is_positive(point.place.cpus)) {
            return wrong(format!("a point cannot have {}", cpus_words(point.place.cpus)));
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

    /// What does not follow from the points and the model that it is said to follow from.
    fn contradiction(&self) -> Option<String> {
        let model = self.model();
        let matrix = model.as_ref().map_or(Vec::new(), matrix);
        let storage = self.storage_epochs().unwrap_or_default();
        let follows = [
            ("knees", self.has_its_knees()),
            ("oddities", self.curve().is_none_or(|curve| curve.oddities() == self.oddities)),
            ("own_memory", self.own_memory == self.own_memory_of_points()),
            ("matrix", are_alike(&self.matrix, &matrix, Epoch::is_like)),
            ("storage_matrix", are_alike(&self.storage_matrix, &storage, StorageEpoch::is_like)),
            ("request", self.is_requested()),
        ];
        let other: Vec<&str> = follows.iter().filter(|(_, follows)| !follows).map(|(name, _)| *name).collect();
        (!other.is_empty()).then(|| {
            format!(
                "what this profile says does not follow from its points ({}): it was changed, or written by another version",
                other.join(", ")
            )
        })
    }

    /// Whether its knees are those of its points; where it does not tell which numbers of CPUs might be tried, whether they can be.
    fn has_its_knees(&self) -> bool {
        match (self.curve(), self.job.cpu_step) {
            (Some(curve), Some(step)) => self.knees == self.knees_on(&Grid::new(self.job.most_cpus, step), &curve),
            (_, None) | (None, _) => self.knees.iter().all(|knee| self.is_knee(knee)),
        }
    }

    /// Whether a knee is where the points have it: with its share of the best rate, and with no fewer CPUs that have it too.
    fn is_knee(&self, knee: &Knee) -> bool {
        let Some(curve) = self.curve() else { return false };
        let wanted = knee.share * curve.best().rate.per_second;
        let within = curve.points().first().zip(curve.points().last());
        let within = within.is_some_and(|(least, most)| (least.cpus..=most.cpus).contains(&knee.cpus));
        let mut fewer = curve.points().iter().filter(|point| point.cpus < knee.cpus);
        within
            && curve.at(knee.cpus).least >= wanted * (1.0 - ROUNDING)
            && fewer.all(|point| point.rate.per_second < wanted * (1.0 + ROUNDING))
            && (!knee.verified || curve.measured(knee.cpus).is_some())
    }

    /// Whether what is requested is what follows, and its lines say it.
    fn is_requested(&self) -> bool {
        let follows = self.knee().map(|knee| self.requested(knee.cpus));
        let (Some(said), Some(follows)) = (&self.request, &follows) else { return self.request.is_none() };
        let bytes = |requested: &Requested| requested.request.memory.map(|memory| memory.0 as f64);
        // Comments say what a reader should know of a line, and not what it asks for; profiles that were written before have none.
        let words = |line: &String| line.lines().filter(|line| !line.starts_with("# ")).collect::<Vec<_>>().join("\n");
        let lines = |requested: &Requested| {
            let Requested { kubernetes, slurm, docker, .. } = requested;
            [kubernetes, slurm, docker].map(words)
        };
        (said.request.cpus, said.request.gpus) == (follows.request.cpus, follows.request.gpus)
            && is_close(bytes(said), bytes(follows))
            && is_close(said.storage, follows.storage)
            && lines(said) == lines(follows)
    }

    /// The most memory of its own that the job held in any run of the curve; of points that were kept before that was told, with the page
    /// cache.
    pub fn own_memory_of_points(&self) -> Option<Bytes> {
        let runs = self.curve_points().filter_map(Point::counts);
        runs.filter_map(|(run, _)| run.own_memory.or(run.peak_memory)).max()
    }

    /// The points of the curve: a folder may hold those of more CPUs than were asked for this time.
    pub fn curve_points(&self) -> impl Iterator<Item = &Point> {
        let of_curve = |place: Place| {
            (place.memory, place.storage) == (self.job.memory, self.job.storage) && place.cpus <= self.job.most_cpus
        };
        self.points.iter().filter(move |point| of_curve(point.place))
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

    /// Fills in what follows from points and model.
    pub fn conclude(&mut self, grid: &Grid) {
        let Some(curve) = self.curve() else { return };
        self.knees = self.knees_on(grid, &curve);
        self.oddities = curve.oddities();
        self.matrix = self.model().map_or(Vec::new(), |model| matrix(&model));
        self.storage_matrix = self.storage_epochs().unwrap_or_default();
        self.request = self.knee().map(|knee| self.requested(knee.cpus));
    }

    /// The knees of a curve, none of which is verified where others took time of the job, or nobody knows how sure rates are.
    fn knees_on(&self, grid: &Grid, curve: &Curve) -> Vec<Knee> {
        let mut knees = knees(grid, curve);
        for point in self.curve_points().filter(|point| point.is_doubtful() || point.is_divided()) {
            knees.iter_mut().for_each(|knee| knee.doubt(grid, point.place.cpus));
        }
        knees
    }

    fn storage_epochs(&self) -> Option<Vec<StorageEpoch>> {
        let (model, cpus) = (self.model()?, self.knees.last()?.cpus);
        let needed = number(&model.needed(cpus, 0.0)?);
        let epochs = BANDWIDTHS.iter().flat_map(|share| {
            let model = model.with_storage(share * needed);
            let at =
                |percent: u32| StorageEpoch { storage_bandwidth: share * needed, epoch: epoch(&model, cpus, percent) };
            PERCENTS.map(at)
        });
        Some(epochs.collect())
    }

    fn requested(&self, cpus: f64) -> Requested {
        let own = self.own_memory.map(|own| own.0 as f64 * SPARE);
        let share = self.model().and_then(|model| {
            let seconds = LONGER * model.compute(cpus).likely?;
            let shares = PERCENTS.map(|percent| f64::from(percent) / 100.0);
            Some((model.enough_memory(cpus, seconds, &shares)?, model))
        });
        let data = share.as_ref().map(|(share, model)| share * model.data.bytes);
        let storage = share.and_then(|(share, model)| Some(number(&model.needed(cpus, share)?)));
        let memory = match (own, data, self.job.data.is_some()) {
            (Some(own), Some(data), _) => Some(own + data),
            (Some(own), None, false) => Some(own),
            (None, _, _) | (Some(_), None, true) => None,
        };
        let request = Request { cpus, memory: memory.map(|bytes| Bytes(bytes as u64)), gpus: self.job.gpus };
        let mark = self.knee().and_then(mark).unwrap_or_default();
        let [kubernetes, slurm, docker] = [request.kubernetes(), request.slurm(self.hosts.len()), request.docker()]
            .map(|line| format!("{mark}{line}"));
        Requested { request, storage, kubernetes, slurm, docker }
    }

    /// The answer in sentences.
    pub fn answer(&self) -> String {
        let Some(curve) = self.curve() else { return "nothing was measured".to_owned() };
        let best = curve.best();
        let knees: Vec<String> = self.knees.iter().map(knee_words).collect();
        let interval = self.curve_points().find(|point| point.place.cpus == best.cpus).and_then(Point::interval);
        let between = interval.map(|interval| interval.map(significant));
        let between = between.map_or(String::new(), |[low, high]| format!(" ({low} to {high})"));
        let mut sentences = vec![format!(
            "{}; the best rate is {} iterations/s{between} with {}",
            knees.join(", "),
            significant(best.rate.per_second),
            cpus_words(best.cpus)
        )];
        sentences.extend(self.waits());
        sentences.extend(self.bounds());
        sentences.extend(self.storage());
        sentences.join("\n")
    }

    /// How long the job waits for data where it is fastest.
    fn waits(&self) -> Option<String> {
        let fastest = self.curve()?.best().cpus;
        let point = self.curve_points().find(|point| point.place.cpus == fastest)?;
        let waiting = point.counts()?.1.waiting?;
        Some(format!("with {} it waits for data {} of the time", cpus_words(fastest), Percent(100.0 * waiting)))
    }

    /// Which storage the job needs, and what was measured of that.
    fn storage(&self) -> Option<String> {
        let (model, knee) = (self.model()?, self.knees.last()?);
        let megabytes = |bytes: f64| format!("{} MB/s", significant(bytes / 1e6));
        let estimate = model.needed(knee.cpus, 0.0)?;
        let [low, high] = [estimate.least, estimate.most].map(|bytes| significant(bytes / 1e6));
        let needed = format!("{} ({low} to {high})", megabytes(number(&estimate)));
        let mut words =
            vec![format!("with {} and no memory for its data it needs {needed} of storage", cpus_words(knee.cpus))];
        words.extend(self.throttled.iter().map(|held| {
            let [took, computed] = [held.seconds, held.side_by_side].map(|seconds| Milliseconds(1000.0 * seconds));
            format!("held to {} an epoch took {took}, computed {computed}", megabytes(held.storage_bandwidth))
        }));
        words.extend(model.overlap.and_then(together));
        Some(words.join("; "))
    }

    /// What an epoch waits for, in words: nothing tells the GPUs of a job from what it does not do in parallel.
    pub fn bound_words(&self, bound: Bound) -> &'static str {
        match (bound, self.job.gpus) {
            (Bound::Storage, _) => "storage",
            (Bound::Cpu, _) => "CPUs",
            (Bound::Accelerator, 0) => "what does not run in parallel",
            (Bound::Accelerator, _) => "its GPUs, or what does not run in parallel",
        }
    }

    /// Why it is not known what storage does to the job.
    fn unmodelled(&self) -> &'static str {
        match (&self.job.data, self.job.batch) {
            (None, _) => "what storage does to it is unknown without its data (--data)",
            (Some(_), None) => "what storage does to it is unknown without the samples of an iteration (-b)",
            (Some(_), Some(_)) => {
                "what storage does to it is unknown, for the bandwidth of its storage is (--storage-bandwidth)"
            }
        }
    }

    /// What holds the job back, and where that changes.
    fn bounds(&self) -> Option<String> {
        let knee = self.knees.last()?;
        let storage = self.model().map_or_else(
            || self.unmodelled().to_owned(),
            |model| {
                let most = |waits: Option<bool>| {
                    let share = |percent: &u32| f64::from(*percent) / 100.0;
                    PERCENTS
                        .into_iter()
                        .filter(|percent| model.waits_for_storage(knee.cpus, share(percent)) == waits)
                        .max()
                };
                storage_words(most(Some(true)), most(None))
            },
        );
        Some(format!("{}; {storage}", self.waits_for_cpus(knee)?))
    }

    /// With how many CPUs it waits for more of them.
    fn waits_for_cpus(&self, knee: &Knee) -> Option<String> {
        let curve = self.curve()?;
        let (least, most) = (curve.points().first()?.cpus, curve.points().last()?.cpus);
        let beyond = self.bound_words(Bound::Accelerator);
        let [low, high] = knee.between;
        Some(match (least < knee.cpus, low < high) {
            _ if !curve.levels_off(knee.share) => {
                format!("with {}, the most that were tried, it may still wait for CPUs", cpus_words(most))
            }
            (false, false) => {
                format!("even with {} it does not wait for CPUs, but for {beyond}", cpus_words(knee.cpus))
            }
            (false, true) => {
                format!(
                    "from {} on it does not wait for CPUs, but for {beyond}; with fewer that is open",
                    cpus_words(high)
                )
            }
            (true, false) => {
                format!("with fewer than {} it waits for CPUs, from there on for {beyond}", cpus_words(high))
            }
            (true, true) => {
                format!("with fewer than {low} it waits for CPUs, from {} on for {beyond}", cpus_words(high))
            }
        })
    }
}

/// Up to which memory in percent of the data storage holds a job back for sure, and as far as is known.
fn storage_words(surely: Option<u32>, perhaps: Option<u32>) -> String {
    let room = |percent: u32| format!("while memory has room for at most {percent} % of the data");
    match (surely, perhaps.filter(|perhaps| surely.is_none_or(|surely| surely < *perhaps))) {
        (None, None) => "storage is fast enough whatever the memory".to_owned(),
        (Some(surely), None) => format!("storage holds it back {}", room(surely)),
        (None, Some(perhaps)) => format!("storage may hold it back {}", room(perhaps)),
        (Some(surely), Some(perhaps)) => format!("storage holds it back {}, and may up to {perhaps} %", room(surely)),
    }
}

/// How much longer an epoch takes where reading and computing take as long, where that may be worth a word.
fn together(overlap: MeasuredOverlap) -> Option<String> {
    let longer = |end: Overlap| end.epoch(1.0, 1.0) - 1.0;
    let [low, high] = overlap.ends().map(longer);
    let percent = |share: f64| Percent(100.0 * share);
    (1.0 + high > LONGER).then(|| {
        format!(
            "where reading and computing take as long, an epoch takes {} ({} to {}) longer than either",
            percent(longer(overlap.likely())),
            percent(low),
            percent(high)
        )
    })
}

/// Whether two numbers differ by no more than rounding does.
fn is_close(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= ROUNDING * a.abs().max(b.abs()),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// Whether estimates are the same, but for rounding.
fn is_estimate(said: Option<Estimate>, follows: Option<Estimate>) -> bool {
    let number = |of: fn(Estimate) -> Option<f64>| is_close(said.and_then(of), follows.and_then(of));
    number(|estimate| Some(estimate.least))
        && number(|estimate| estimate.likely)
        && number(|estimate| Some(estimate.most))
}

impl Epoch {
    /// Whether it is the same, but for rounding.
    fn is_like(&self, follows: &Epoch) -> bool {
        (self.cpus, self.memory_percent, self.bound) == (follows.cpus, follows.memory_percent, follows.bound)
            && is_estimate(Some(self.seconds), Some(follows.seconds))
            && is_estimate(self.storage_needed, follows.storage_needed)
    }
}

impl StorageEpoch {
    fn is_like(&self, follows: &StorageEpoch) -> bool {
        is_close(Some(self.storage_bandwidth), Some(follows.storage_bandwidth)) && self.epoch.is_like(&follows.epoch)
    }
}

/// Whether there are as many, and each is like the other one of its place.
fn are_alike<T>(said: &[T], follows: &[T], alike: impl Fn(&T, &T) -> bool) -> bool {
    said.len() == follows.len() && said.iter().zip(follows).all(|(said, follows)| alike(said, follows))
}

fn matrix(model: &Model) -> Vec<Epoch> {
    let cpus: Vec<f64> = model.curve.points().iter().map(|point| point.cpus).collect();
    cpus.iter().flat_map(|cpus| PERCENTS.map(|percent| epoch(model, *cpus, percent))).collect()
}

fn epoch(model: &Model, cpus: f64, memory_percent: u32) -> Epoch {
    let cached = f64::from(memory_percent) / 100.0;
    Epoch {
        cpus,
        memory_percent,
        seconds: model.epoch(cpus, cached),
        storage_needed: model.needed(cpus, cached),
        bound: model.bound(cpus, cached),
    }
}

/// An estimate in one number: what is likely, or the upper end, with which nobody requests too little.
pub(super) fn number(estimate: &Estimate) -> f64 {
    estimate.likely.unwrap_or(estimate.most)
}

/// A line above those that ask for the CPUs of a knee that is not verified: a comment in the language of each.
fn mark(knee: Knee) -> Option<String> {
    let [low, high] = knee.between;
    let open = if low == high { String::new() } else { format!(", it may take {low} to {high}") };
    (!knee.verified).then(|| {
        format!("# not verified: {} for {:.0} % of the best rate{open}\n", cpus_words(knee.cpus), 100.0 * knee.share)
    })
}

/// "90 % of the best rate take 2.5 CPUs"
fn knee_words(knee: &Knee) -> String {
    let doubt = match knee.between {
        [low, high] if !knee.verified && low == high => " (not verified)".to_owned(),
        [low, high] if !knee.verified => format!(" (not verified: {low} to {high})"),
        [low, high] if low == high => String::new(),
        [low, high] => format!(" ({low} to {high})"),
    };
    format!("{:.0} % of the best rate take {}{doubt}", 100.0 * knee.share, cpus_words(knee.cpus))
}

pub(super) fn cpus_words(cpus: f64) -> String {
    if cpus == 1.0 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The same rate with 1, 2 and 3 CPUs: where others took time of the job at 3, the knee may lie anywhere up to there.
    #[test]
    fn what_a_knee_that_is_not_verified_leaves_open_is_said() {
        let point = |cpus: f64| {
            let rate = json!({"per_second": 30.0, "interval": [30.0, 30.0]});
            let measured = json!({"rate": rate, "iterations": 100, "seconds": 10.0, "blocks": 12, "waiting": null});
            let run = json!({"outcome": {"what": "sound"}, "way": "file", "seconds": 10.0, "measured": measured});
            json!({"cpus": cpus, "memory": null, "runs": [run]})
        };
        let profile = json!({"format": 1, "host": {}, "limits": [], "knees": [], "oddities": [], "matrix": [], "warnings": [],
            "points": [point(1.0), point(2.0), point(3.0)], "job": {"name": "job", "command": ["job"], "gpus": 1, "most_cpus": 3.0},
            "provenance": {"perf4sight": "0", "date": "", "complete": true}});
        let profile: Profile = serde_json::from_value(profile).unwrap();
        let told =
            |verified, between| profile.waits_for_cpus(&Knee { share: 0.9, cpus: 1.0, verified, between }).unwrap();
        assert!(told(true, [1.0, 1.0]).starts_with("even with 1 CPU it does not wait for CPUs, but for "));
        let open = told(false, [1.0, 3.0]);
        assert!(open.starts_with("from 3 CPUs on it does not wait for CPUs, but for "), "{open}");
        assert!(open.ends_with("; with fewer that is open"), "{open}");
    }

    /// Copied without its profile, a request still says what is not known of it.
    #[test]
    fn lines_of_a_knee_that_is_not_verified_are_marked() {
        let knee = Knee { share: 0.9, cpus: 0.75, verified: false, between: [0.5, 2.0] };
        let told = mark(knee).unwrap();
        assert_eq!(told, "# not verified: 0.75 CPUs for 90 % of the best rate, it may take 0.5 to 2\n");
        assert_eq!(mark(Knee { verified: true, ..knee }), None);
    }

    #[test]
    fn what_storage_does_is_told_as_far_as_it_is_known() {
        assert_eq!(storage_words(None, None), "storage is fast enough whatever the memory");
        assert_eq!(
            storage_words(Some(40), Some(70)),
            "storage holds it back while memory has room for at most 40 % of the data, and may up to 70 %"
        );
        assert!(storage_words(Some(40), Some(30)).ends_with("at most 40 % of the data"));
        assert!(storage_words(None, Some(30)).starts_with("storage may hold it back"));
    }

    /// 2^0.1 is 1.0718; nothing is worth a word that lengthens an epoch by less than 5 %.
    #[test]
    fn an_overlap_is_told_with_its_interval() {
        let told = |in_turn: f64, between: [f64; 2]| together(MeasuredOverlap { in_turn, between });
        assert_eq!(
            told(0.1, [0.0, 1.0]).unwrap(),
            "where reading and computing take as long, an epoch takes 7.2 % (0.0 % to 100.0 %) longer than either"
        );
        assert_eq!(told(0.005, [0.0, 0.02]), None);
    }
}
