//! `[detection]` and `perf4sight detection`: the time and memory of training a detector, part by part, and the best
//! setting.

#![warn(missing_docs)]

mod data_layout;
mod dataset;
mod divided;
mod measurement_run;
mod networks;
mod page;
mod parse;
mod predicted;
mod settings;
mod store;
mod tables;
#[cfg(test)]
mod tests;
mod timing;
mod trainer;

pub use perf4sight_step::detection::{BoxSource, DetectionTask};

use measurement_run::SweepRun;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::output_folder::OutputFolder;
use perf4sight_base::overwrite;
use perf4sight_base::units::{Bytes, Percent, count_text};
use perf4sight_cost::device::slow_arithmetic;
use perf4sight_machine::SampledConditions;
use perf4sight_machine::remote::SshRoute;
use perf4sight_report::{Cell, TableColumn};
use perf4sight_step::detection::{MeasuredDetection, MemoryPeaks};
use perf4sight_verb::{
    Context, CountedNoun, Divisible, KeyedPath, Outline, PlannedFiles, Section, Spec, Summary, TableFinding, Verb,
    VerbSpec,
};
use serde_json::json;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use store::{Circumstances, RowStore, StoredRow};
use timing::StepTiming;
use trainer::DetectorTrainer;

/// The section `[detection]`.
pub static SPEC: Spec = Spec {
    table: settings::TABLE,
    subject: CountedNoun { one: "setting", several: "settings" },
    parse: |values| Ok(Box::new(Detection::parse(values)?)),
};

/// `perf4sight detection`.
pub static VERB: VerbSpec = VerbSpec { table: settings::TABLE, after_help: settings::AFTER_HELP, parse: parse::verb };

/// Options of the verb.
#[derive(Debug, Clone, PartialEq)]
pub struct Detection {
    /// Folder for measurements and the report.
    pub out: PathBuf,
    /// Whether settings that were measured there are measured again.
    pub overwrite: bool,
    /// Epochs of the training whose time is reported.
    pub epochs: u64,
    /// The Python that has PyTorch and torchvision.
    pub python: String,
    /// The device: `cpu`, or `cuda:` and a number; none: a GPU where there is one.
    pub place: Option<String>,
    /// Threads of the compute library; none: as many as the machine runs at the same time.
    pub threads: Option<usize>,
    /// Memory past which a step does not fit.
    pub mem_limit: Option<Bytes>,
    /// Seed of weights and of the order of images.
    pub seed: u64,
    /// Time after which a setting counts as hung.
    pub timeout: Duration,
    /// Folder for traces of some more steps.
    pub trace: Option<PathBuf>,
    /// The machine, where it is another one.
    pub route: Option<SshRoute>,
    /// The fingerprint from which settings are predicted instead of measured.
    pub predict: Option<PathBuf>,
    /// Values common to all settings; batch, workers and prefetching are those of `settings`. An empty path means that
    /// no data are given.
    task: DetectionTask,
    settings: Vec<SweepSetting>,
}

/// The values that a sweep varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepSetting {
    /// Images of a step.
    pub batch: u64,
    /// Processes that load data.
    pub num_workers: u64,
    /// Batches that each of them loads ahead.
    pub prefetch_factor: u64,
}

struct TriedSetting {
    setting: SweepSetting,
    became: SettingResult,
}

struct DetectionMachine {
    circumstances: Circumstances,
    /// Processors that the training does not compute with, where known.
    processors_left: Option<u64>,
}

enum SettingResult {
    Ran(Box<RanSetting>),
    OutOfMemory(Option<MemoryPeaks>),
    /// One that needs no more did not fit.
    Spared,
    Failed(String),
}

struct RanSetting {
    measured: MeasuredDetection,
    timing: StepTiming,
    seen: SampledConditions,
    /// Why its times are not those of a training that learns.
    doubt: Option<String>,
    disturbance: Option<String>,
}

impl RanSetting {
    /// The faster one is the greater, and a doubtful one less than any other.
    fn compare((_, one): &(SweepSetting, &RanSetting), (_, other): &(SweepSetting, &RanSetting)) -> Ordering {
        let doubts = other.doubt.is_some().cmp(&one.doubt.is_some());
        doubts.then(one.timing.rate.total_cmp(&other.timing.rate))
    }
}

impl SettingResult {
    fn from_measured(measured: MeasuredDetection, setting: SweepSetting, seen: SampledConditions) -> Self {
        match StepTiming::from_measured(&measured, setting.batch) {
            Some(timing) => SettingResult::Ran(Box::new(RanSetting {
                doubt: timing::losses_doubt(&measured.losses),
                disturbance: timing::disturbance(&measured),
                measured,
                timing,
                seen,
            })),
            None => SettingResult::Failed("the worker's answer has no steps".to_owned()),
        }
    }
}

impl SweepSetting {
    /// All combinations, each once: without worker processes, prefetching does not matter.
    pub fn all(batches: &[u64], workers: &[u64], prefetch: &[u64]) -> Vec<SweepSetting> {
        let mut settings = Vec::new();
        for &batch in batches {
            for &num_workers in workers {
                for &prefetch_factor in if num_workers == 0 { &prefetch[..prefetch.len().min(1)] } else { prefetch } {
                    let setting = SweepSetting { batch, num_workers, prefetch_factor };
                    if !settings.contains(&setting) {
                        settings.push(setting);
                    }
                }
            }
        }
        settings
    }

    /// "batch4_workers2_prefetch2".
    fn file_name(self) -> String {
        format!("batch{}_workers{}_prefetch{}", self.batch, self.num_workers, self.prefetch_factor)
    }

    /// The name of its trace.
    fn trace_name(self) -> String {
        format!("{}.json", self.file_name())
    }

    /// Whether it needs no more memory than another one.
    fn needs_no_more_than(self, other: SweepSetting) -> bool {
        self.batch <= other.batch
            && self.num_workers <= other.num_workers
            && self.prefetch_factor <= other.prefetch_factor
    }
}

impl Verb for Detection {
    /// Measures every setting in a process of its own and reports the best; or predicts them.
    ///
    /// # Errors
    /// Data that are not found; a Python that cannot be started; no setting that ran.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        self.check()?;
        let asked = self.with_whole_path();
        if let Some(fingerprint) = &self.predict {
            return predicted::run(&asked, fingerprint, context);
        }
        // A run without results leaves no empty folder behind.
        let _out = OutputFolder::new(&self.out);
        asked.measure(context)
    }
}

impl Section for Detection {
    fn outline(&self, _: &PlannedFiles, _: &Context) -> Result<Outline<'_>> {
        Ok(self.build_outline()?.check_value("python", || self.check_trainer()))
    }

    fn divisible(&self) -> Option<&dyn Divisible> {
        self.predict.is_none().then_some(self)
    }
}

impl Detection {
    /// The outline of its work, wherever that is done.
    fn build_outline(&self) -> Result<Outline<'_>> {
        self.check_data()?;
        let data = self.task.data.clone();
        let count = count_text(self.settings.len() as u64, "setting");
        let does = if self.predict.is_some() { "predicts" } else { "trains with" };
        let fingerprint = self.predict.iter().map(|path| KeyedPath { key: "predict", path: path.clone() });
        let read = self.route.is_none().then_some(KeyedPath { key: "data", path: data });
        let outline = Outline {
            steps: vec![format!("{does} {count} of {}", self.task.network)],
            runs: if self.predict.is_some() { 0 } else { self.settings.len() },
            reads: read.into_iter().chain(fingerprint).collect(),
            ..Outline::default()
        };
        let traces = || self.settings.iter().map(|setting| setting.trace_name());
        let outline = self.trace.iter().fold(outline, |outline, folder| outline.results("trace", folder, traces()));
        Ok(outline
            .results("out", &self.out, [SETTINGS, REPORT, store::FILE])
            .check_value("network", || self.check_network())
            .check_value("device", || self.check_device())
            .check_value("size", || self.check_size())
            .check_value("trace", || self.check_trace())
            .check("data", [&self.task.data], |_| self.check_data_set())
            .check("batch_size", [&self.task.data], |_| self.check_batches())
            .check_value("out", || self.check_results()))
    }
}

impl TriedSetting {
    fn ran(&self) -> Option<&RanSetting> {
        match &self.became {
            SettingResult::Ran(ran) => Some(ran),
            SettingResult::OutOfMemory(_) | SettingResult::Spared | SettingResult::Failed(_) => None,
        }
    }

    fn memory(&self) -> Option<MemoryPeaks> {
        match &self.became {
            SettingResult::Ran(ran) => Some(ran.measured.memory),
            SettingResult::OutOfMemory(memory) => *memory,
            SettingResult::Spared | SettingResult::Failed(_) => None,
        }
    }

    /// Whether another setting cannot fit where this one did not.
    fn rules_out(&self, other: SweepSetting) -> bool {
        matches!(self.became, SettingResult::OutOfMemory(_)) && self.setting.needs_no_more_than(other)
    }

    fn is_disturbed(&self) -> bool {
        self.ran().is_some_and(|ran| ran.disturbance.is_some())
    }

    /// Warns of everything that the table does not show.
    fn warn(&self, context: &mut Context) {
        let words = tables::setting_text(self.setting);
        match &self.became {
            SettingResult::Failed(reason) => context.warn(format_args!("{words}: {reason}")),
            SettingResult::OutOfMemory(_) | SettingResult::Spared => {}
            SettingResult::Ran(ran) => {
                if let Some(doubt) = &ran.doubt {
                    let meaning = "its times are not those of a training that learns (learning_rate)";
                    context.warn(format_args!("{words}: {doubt}; {meaning}"));
                }
                if let Some(disturbance) = &ran.disturbance {
                    context.warn(format_args!("{words}: disturbed: {disturbance}"));
                }
                let damaged = &ran.measured.damaged;
                if let Some((name, why)) = damaged.first_key_value() {
                    let count = count_text(damaged.len() as u64, "damaged sample");
                    context.warn(format_args!("{words}: {count} left out; the first: {name}: {why}"));
                }
            }
        }
    }
}

/// The table of all settings, and the page about them.
const SETTINGS: &str = "settings.csv";
const REPORT: &str = "report.html";

impl Detection {
    /// Refuses errors that are known before Python starts.
    fn check(&self) -> Result<()> {
        self.check_data()?;
        self.check_network()?;
        self.check_device()?;
        self.check_size()?;
        self.check_trace()?;
        self.check_data_set()?;
        self.check_batches()
    }

    fn check_network(&self) -> Result<()> {
        networks::check_name(&self.task.network)
    }

    fn check_size(&self) -> Result<()> {
        networks::check_size(&self.task.network, self.task.size)
    }

    /// Refuses a word that names no device; whether there is such a device, the worker knows.
    fn check_device(&self) -> Result<()> {
        let is_gpu = |place: &str| place.strip_prefix("cuda:").is_some_and(|number| number.parse::<u32>().is_ok());
        match self.place.as_deref().filter(|place| *place != trainer::PROCESSOR && !is_gpu(place)) {
            None => Ok(()),
            Some(place) => {
                Err(Error::usage(format!("\"{place}\" is no device to train on"))
                    .expected("cpu, or cuda: and a number"))
            }
        }
    }

    /// Refuses a folder that is no data set, and a data set without images; on another machine, the worker does.
    fn check_data_set(&self) -> Result<()> {
        if self.route.is_none() { data_layout::check(&self.task.data) } else { Ok(()) }
    }

    /// Refuses batches that the data set has too few images for.
    fn check_batches(&self) -> Result<()> {
        // Predictions draw sizes of batches from any number of images.
        if self.route.is_some() || self.predict.is_some() {
            return Ok(());
        }
        let largest = self.settings.iter().map(|setting| setting.batch).max().unwrap_or(0);
        data_layout::check_batch(&self.task.data, largest)
    }

    /// Refuses a Python or a device that cannot train; predictions need neither.
    fn check_trainer(&self) -> Result<()> {
        if self.predict.is_some() { Ok(()) } else { DetectorTrainer::open(self).map(drop) }
    }

    /// Refuses a folder with files of others in the places of results.
    fn check_results(&self) -> Result<()> {
        // Predictions write nothing.
        if self.predict.is_some() { Ok(()) } else { self.check_replaced(&store::read(&self.out)?) }
    }

    /// The same; with rows of earlier runs, all files are of these. A run of which all settings failed leaves their table alone.
    fn check_replaced(&self, rows: &[StoredRow]) -> Result<()> {
        if !rows.is_empty() {
            return overwrite::check_folder(&self.out, [SETTINGS, REPORT], true, self.overwrite);
        }
        let table = tables::settings(&[], self.epochs).to_csv();
        overwrite::check_contents(&self.out.join(SETTINGS), table, self.overwrite)?;
        overwrite::check_folder(&self.out, [REPORT], false, self.overwrite)
    }

    /// The folder of the data, alike however it is called; on another machine it is as it is called.
    fn whole_path(&self) -> PathBuf {
        let whole = self.task.data.canonicalize().ok().filter(|_| self.route.is_none());
        whole.unwrap_or_else(|| self.task.data.clone())
    }

    /// The same with the whole path of its data.
    fn with_whole_path(&self) -> Self {
        let task = DetectionTask { data: self.whole_path(), ..self.task.clone() };
        Detection { task, ..self.clone() }
    }

    fn check_data(&self) -> Result<()> {
        if self.task.data.as_os_str().is_empty() {
            return Err(Error::usage("there are no data to train with")
                .expected("a folder (data)")
                .help("perf4sight detection --make-dataset pets-small makes some"));
        }
        Ok(())
    }

    fn check_trace(&self) -> Result<()> {
        match &self.route {
            Some(route) if self.trace.is_some() => {
                Err(Error::usage(format!("a trace would be written on {}", route.host))
                    .help("leave trace out, or start perf4sight there"))
            }
            _ => Ok(()),
        }
    }

    fn circumstances(&self, trainer: &DetectorTrainer) -> Circumstances {
        Circumstances {
            place: trainer.place.clone(),
            threads: trainer.threads(self),
            mem_limit: self.mem_limit.map(|limit| limit.0),
            seed: self.seed,
            host: self.route.as_ref().map(|route| route.host.to_string()),
            software: trainer.software(),
            contents: self.contents(),
        }
    }

    /// Checksums of the files that may change between two runs while their names stay.
    fn contents(&self) -> BTreeMap<PathBuf, u32> {
        if self.route.is_some() {
            return BTreeMap::new();
        }
        let list = self.task.data.join(data_layout::LIST);
        let module =
            self.task.network.split_once(':').map(|(module, _)| PathBuf::from(module.replace('.', "/") + ".py"));
        let held = |path: PathBuf| fs::read(&path).ok().map(|bytes| (path, crc32fast::hash(&bytes)));
        [Some(list), module].into_iter().flatten().filter_map(held).collect()
    }

    fn measure(&self, context: &mut Context) -> Result<Summary> {
        let (tried, machine, headline) = self.try_all(context)?;
        self.summary(&tried, &machine, headline, context)
    }

    /// What became of the settings, on which machine, in words.
    fn try_all(&self, context: &mut Context) -> Result<(Vec<TriedSetting>, DetectionMachine, String)> {
        let mut store = RowStore::open(&self.out)?;
        self.check_replaced(&store.rows)?;
        let trainer = DetectorTrainer::open(self)?;
        slow_arithmetic(&trainer.software()).into_iter().for_each(|slow| context.warn(slow));
        let mut run = SweepRun::new(self, &trainer, &mut store, context);
        let tried = run.run(context)?;
        let headline = format!("{} measured, {} found in {}", run.measured, run.found, self.out.display());
        tried.iter().for_each(|one| one.warn(context));
        let machine = DetectionMachine {
            circumstances: self.circumstances(&trainer),
            processors_left: Some(trainer.processors_left(self)),
        };
        Ok((tried, machine, headline))
    }

    fn summary(
        &self,
        tried: &[TriedSetting],
        machine: &DetectionMachine,
        headline: String,
        context: &Context,
    ) -> Result<Summary> {
        let ran: Vec<(SweepSetting, &RanSetting)> =
            tried.iter().filter_map(|one| Some((one.setting, one.ran()?))).collect();
        let interrupted = context.cancelled() && tried.len() < self.settings.len();
        let settings = tables::settings(tried, self.epochs);
        if !tried.is_empty() {
            overwrite::save(&self.out.join(SETTINGS), settings.to_csv(), self.overwrite)?;
        }
        let Some(&(setting, best)) = ran.iter().max_by(|one, other| RanSetting::compare(one, other)) else {
            return self.nothing_ran(tried, interrupted);
        };
        let DetectionMachine { circumstances, processors_left } = machine;
        let (epochs, processors) = (self.epochs, *processors_left);
        let answer = tables::BestSetting { setting, best, ran: &ran, epochs, processors, circumstances };
        let tables = vec![settings, tables::parts(setting, best), tables::machine(&ran)];
        let report = self.out.join(REPORT);
        let page = page::build_page(self, tried, &answer, context.warnings());
        overwrite::save(&report, page.to_html(), self.overwrite)?;
        let kept = if interrupted { "; interrupted: the same command does the rest" } else { "" };
        let of_those = match interrupted {
            true => format!(
                "interrupted after {} of {}; of those ",
                tried.len(),
                count_text(self.settings.len() as u64, "setting")
            ),
            false => String::new(),
        };
        Ok(Summary {
            answer: of_those + &answer.sentence(),
            headline: headline + kept,
            findings: findings(&ran),
            files: vec![("report", report)],
            json: json!({
                "network": self.task.network,
                "place": circumstances.place,
                "size": self.task.size,
                "precision": self.task.precision,
                "optimizer": self.task.optimizer,
                "best": {
                    "batch": setting.batch,
                    "num_workers": setting.num_workers,
                    "prefetch_factor": setting.prefetch_factor,
                    "verified": answer.unverified().is_none(),
                    "others_as_fast": answer.rivals(),
                },
                "circumstances": circumstances,
                "settings": tables[0].to_json(),
                "parts": tables[1].to_json(),
                "machine": tables[2].to_json(),
                "losses": best.measured.losses,
                "warnings": context.warnings(),
            }),
            tables: tables.into_iter().filter(|table| !table.is_empty()).collect(),
            ..Summary::default()
        })
    }

    /// The memory of the leanest setting that ran out of memory, and the limit.
    fn least(&self, tried: &[TriedSetting]) -> String {
        let taken = tried.iter().filter_map(|one| match one.became {
            SettingResult::OutOfMemory(Some(memory)) => Some((memory.used, one.setting)),
            SettingResult::OutOfMemory(None)
            | SettingResult::Ran(_)
            | SettingResult::Spared
            | SettingResult::Failed(_) => None,
        });
        let least = taken.min_by_key(|(used, _)| *used).map_or(String::new(), |(used, setting)| {
            format!(": {} needed more than {} when it ended", tables::setting_text(setting), Bytes(used))
        });
        let limit = self.mem_limit.map_or(String::new(), |limit| format!(" (mem_limit is {limit})"));
        least + &limit
    }

    /// The result where no setting ran.
    fn nothing_ran(&self, tried: &[TriedSetting], interrupted: bool) -> Result<Summary> {
        if interrupted {
            return Ok(Summary { headline: "interrupted; no setting was finished".to_owned(), ..Summary::default() });
        }
        let fails = |one: &&TriedSetting| matches!(one.became, SettingResult::Failed(_));
        match tried.iter().find(fails).map(|one| &one.became) {
            Some(SettingResult::Failed(reason)) => {
                Err(Error::device(format!("no setting ran; the first that failed: {reason}")))
            }
            _ => Err(Error::device(format!(
                "no setting of {} fits into memory{}",
                self.settings.len(),
                self.least(tried)
            ))
            .help("smaller batches (batch_size), smaller images (size), or fp16 on a GPU (precision)")),
        }
    }
}

/// The cells of each setting for the closing table of a configuration.
fn findings(ran: &[(SweepSetting, &RanSetting)]) -> Vec<TableFinding> {
    let cells = |(setting, ran): &(SweepSetting, &RanSetting)| {
        let resident = Bytes(ran.measured.memory.resident);
        let cells: [(TableColumn, Cell); 3] = [
            (TableColumn::number("images_per_second", "images/s"), ran.timing.rate.into()),
            (
                TableColumn::number("waiting_percent", "waiting for data"),
                share(ran.timing.waiting(&ran.measured)).into(),
            ),
            (TableColumn::number("resident_bytes", "resident"), resident.into()),
        ];
        let about = tables::setting_text(*setting);
        cells.map(|(column, cell)| TableFinding { about: about.clone(), column, cell })
    };
    ran.iter().flat_map(cells).collect()
}

/// "84.0 %".
fn share(share: f64) -> Percent {
    Percent(100.0 * share)
}
