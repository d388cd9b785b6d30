//! The section divided among machines: its configurations as items, each machine with a profile folder of its own, and
//! the rows of all of them in one.

use super::choice::{PlanChoice, REPETITIONS};
use super::planned::PlannedMeasurement;
use super::profile_log::{self, ProfileLog};
use super::{MeasurementRun, Profile, estimate};
use crate::device::Device;
use crate::device::kind::DeviceKind;
use crate::plan::{Configuration, ConfigurationStatus, GridPlan, MeasurementLedger, Repetitions};
use crate::records::layers::{self, LayerAppender};
use crate::records::{self, ProfileProvenance, RowAppender, Variant, absent, merge_attempts, row_file};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::output_folder::{self, lock_folder};
use perf4sight_base::{atomic_write, input_file};
use perf4sight_machine::{MachineProperties, check_kind, claim, differences};
use perf4sight_step::workload::{Quantity, Stage, Variable};
use perf4sight_verb::{Context, CountedNoun, Divisible, Outline, PlannedFiles, Summary, WorkItem, WorkPart};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the first machine of a run writes for the others, where no rows say it yet.
const SETTING_FILE: &str = "setting.json";

/// How long another process may merge into the same profile.
const PATIENCE: Duration = Duration::from_secs(60);

impl Divisible for Profile {
    fn results(&self) -> &Path {
        &self.places.log_dir
    }

    fn noun(&self) -> CountedNoun {
        CountedNoun { one: "configuration", several: "configurations" }
    }

    fn outline_elsewhere(&self, files: &PlannedFiles, _: &Context) -> Result<Outline<'_>> {
        self.check_divisible()?;
        let tests = self.tests(files)?;
        let mut outline = Outline { reads: self.inputs(&tests, files), ..Outline::default() };
        let files = &self.with_calibration_networks(files, &mut outline);
        if self.create_config {
            self.outline_config(&tests, &mut outline);
        }
        let planned = self.planned(&tests, files);
        outline.runs = self.left_to_measure(&planned)?.len();
        outline.steps.push(format!("measures {} configurations on other machines, by Slurm", outline.runs));
        self.outline_rows(&planned, &mut outline);
        Ok(outline)
    }

    fn prepare(&self) -> Result<()> {
        self.write_calibration_networks()
    }

    fn items(&self, files: &PlannedFiles, _: &mut Context) -> Result<Vec<WorkItem>> {
        self.check_divisible()?;
        let tests = self.tests(files)?;
        let files = &self.with_calibration_networks(files, &mut Outline::default());
        let planned = self.planned(&tests, files);
        let (seconds, factor) = (estimate::estimate_seconds(planned.iter(), &self.device), self.pace(&planned)?);
        let ahead = self.left_to_measure(&planned)?;
        let mut items: Vec<WorkItem> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (at, _) in &ahead {
            let configuration = &planned[*at].configuration;
            let name = configuration.to_string();
            let time = Duration::try_from_secs_f64(factor * seconds[*at]).unwrap_or(Duration::MAX);
            // All rounds of a configuration are one item: which of them and what of each is missing, the task sees in the rows.
            match places.get(&name) {
                Some(place) => items[*place].time = items[*place].time.saturating_add(time),
                None => {
                    places.insert(name.clone(), items.len());
                    items.push(WorkItem { name, group: group(configuration), time });
                }
            }
        }
        Ok(items)
    }

    fn run_part(&self, part: &WorkPart<'_>, context: &mut Context) -> Result<Summary> {
        let own = self.of_part(part)?;
        let present = PlannedFiles::default();
        let tests = own.tests(&present)?;
        let planned = self.choose_by_name(own.planned(&tests, &present), part.items)?;
        let devices = own.open_devices(&tests, &context.executable)?;
        let devices: Vec<&dyn Device> = devices.iter().map(|device| &**device).collect();
        self.check_kind(&devices[0].setting(), part.run)?;
        let (mut plan, log) = own.prepare(&planned, devices[0], context)?;
        let run = MeasurementRun { devices: &devices, planned: &planned, till_first_fail: own.till_first_fail };
        let counts = run.run(&mut *plan, log, context)?;
        Ok(counts.summary(Vec::new()))
    }

    fn merge(&self, folders: &[PathBuf], context: &mut Context) -> Result<()> {
        let log_dir = &self.places.log_dir;
        output_folder::make(log_dir)?;
        let _lock = lock_folder(log_dir, PATIENCE, "wait for it to finish, then run the same command again")?;
        let folders = merge_provenance(log_dir, folders, context)?;
        for folder in &folders {
            // Also of networks that were removed since.
            let files = records::files(folder)?;
            let before = rows_before(log_dir, folder, files.iter())?;
            for (variant, variable) in &files {
                match variable.quantity() {
                    Some(quantity) => merge_rows(log_dir, folder, variant, quantity, &before)?,
                    None => merge_layers(log_dir, folder, variant)?,
                }
            }
        }
        merge_attempts(log_dir, &folders)
    }

    fn conclude(&self, context: &mut Context) -> Result<Summary> {
        let present = PlannedFiles::default();
        let tests = self.tests(&present)?;
        let planned = self.planned(&tests, &present);
        let Some(provenance) = ProfileProvenance::load(&self.places.log_dir)? else {
            return Ok(Summary { headline: "no rows".to_owned(), ..Summary::default() });
        };
        let (log_dir, seed) = (&self.places.log_dir, self.device.seed);
        // Other programs that wait for the same array merge and conclude, too.
        let log = ProfileLog::open(log_dir, &planned, (&provenance.setting, seed), PATIENCE, context)?;
        let mut files = self.write_tests(&tests)?;
        files.push(("rows", log_dir.clone()));
        let run = MeasurementRun { devices: &[], planned: &planned, till_first_fail: self.till_first_fail };
        let counts = run.run(&mut self.repetitions(&planned), Some(log), context)?;
        Ok(counts.of_all_machines().of_networks(tests.into_iter().map(|network| network.network)).summary(files))
    }
}

impl Profile {
    /// Refuses what one machine has to decide as a whole.
    fn check_divisible(&self) -> Result<()> {
        if self.choice == PlanChoice::Adaptive {
            return Err(Error::config(
                "plan = adaptive decides after every row what to measure next, so it cannot be divided among tasks",
            )
            .help("set plan = grid, or leave --slurm out"));
        }
        if !self.device.routes.is_empty() {
            return Err(Error::config("host and --slurm at once")
                .expected("one of them")
                .help("leave host and hosts out: Slurm chooses the machine"));
        }
        match self.save {
            true => Ok(()),
            false => {
                Err(Error::config("save = False keeps no rows, and tasks of Slurm show none").help("set save = True"))
            }
        }
    }

    /// The indices of the configurations that have to be measured, each with the variables that it lacks.
    fn left_to_measure(&self, planned: &[PlannedMeasurement]) -> Result<Vec<(usize, Vec<Variable>)>> {
        let ledger = profile_log::look(&self.places.log_dir, planned)?;
        let lacks = |(at, one): (usize, &PlannedMeasurement)| match ledger.status(&one.configuration) {
            ConfigurationStatus::Measure(variables) => Some((at, variables)),
            ConfigurationStatus::Done | ConfigurationStatus::UnderWay | ConfigurationStatus::Skip { .. } => None,
        };
        Ok(planned.iter().enumerate().filter_map(lacks).collect())
    }

    /// Those of the planned configurations with these names that lack rows, each with the variables that it lacks.
    fn choose_by_name(&self, planned: Vec<PlannedMeasurement>, names: &[String]) -> Result<Vec<PlannedMeasurement>> {
        let known: BTreeSet<String> = planned.iter().map(|one| one.configuration.to_string()).collect();
        if let Some(unknown) = names.iter().find(|name| !known.contains(*name)) {
            return Err(Error::input(format!("there is no configuration {unknown} here"))
                .help("networks were removed since this was submitted, or the node sees other files than the machine that submitted: both need the same folder"));
        }
        let ahead = self.left_to_measure(&planned)?.into_iter().map(|(at, variables)| {
            let mut one = planned[at].clone();
            one.configuration.variables = variables;
            one
        });
        Ok(ahead.filter(|one| names.contains(&one.configuration.to_string())).collect())
    }

    /// How many times as long as estimated earlier measurements took; 1 where there are none. A device that computes or
    /// looks up its answers takes no time.
    fn pace(&self, planned: &[PlannedMeasurement]) -> Result<f64> {
        if matches!(self.device.kind, DeviceKind::Simulated | DeviceKind::Recorded) {
            return Ok(0.0);
        }
        let Some(provenance) = ProfileProvenance::load(&self.places.log_dir)? else { return Ok(1.0) };
        let ledger: MeasurementLedger = profile_log::look(&self.places.log_dir, planned)?;
        let done: Vec<PlannedMeasurement> =
            planned.iter().filter(|one| ledger.runs(&one.configuration) > 0).cloned().collect();
        let estimated: f64 = estimate::estimate_seconds(done.iter(), &self.device).iter().sum();
        Ok(if estimated > 0.0 { profile_log::seconds(&provenance) / estimated } else { 1.0 })
    }

    /// The section with the folder of a part and its share of the budget.
    fn of_part(&self, part: &WorkPart<'_>) -> Result<Self> {
        let mut own = self.clone();
        part.folder.clone_into(&mut own.places.log_dir);
        let spent =
            ProfileProvenance::load(&self.places.log_dir)?.map_or(0.0, |provenance| profile_log::seconds(&provenance));
        own.budget = part.budget(self.budget, spent);
        Ok(own)
    }

    /// Refuses a machine of another kind than that of the other rows, before it measures.
    fn check_kind(&self, now: &MachineProperties, run: &Path) -> Result<()> {
        let log_dir = &self.places.log_dir;
        let known = match records::any_rows(log_dir) {
            true => ProfileProvenance::load(log_dir)?.map(|provenance| provenance.setting),
            false => None,
        };
        check_kind(&known.map_or_else(|| claim(&run.join(SETTING_FILE), now), Ok)?, now)
    }

    /// A plan that measures nothing here, but knows how often rows were to be measured.
    fn repetitions(&self, planned: &[PlannedMeasurement]) -> Repetitions {
        let (all, _) = self.order(planned);
        let repetitions = if self.device.kind == DeviceKind::Recorded { 1 } else { REPETITIONS };
        Repetitions::new(Box::new(GridPlan::new(all.clone())), &all, repetitions, None)
    }
}

/// Batches of one variant and step belong together: one that runs out of memory makes larger ones unnecessary.
fn group(configuration: &Configuration) -> String {
    format!("{} {}", configuration.variant, configuration.workload.step)
}

/// Adds the runs of other profiles to the provenance, and returns the folders whose rows may be added.
fn merge_provenance(log_dir: &Path, folders: &[PathBuf], context: &mut Context) -> Result<Vec<PathBuf>> {
    let found: Vec<(PathBuf, ProfileProvenance)> = folders
        .iter()
        .filter(|folder| records::any_rows(folder))
        .filter_map(|folder| {
            ProfileProvenance::load(folder).transpose().map(|loaded| loaded.map(|one| (folder.clone(), one)))
        })
        .collect::<Result<_>>()?;
    let Some((_, first)) = found.first() else { return Ok(Vec::new()) };
    let mut provenance = profile_log::provenance(log_dir, &first.setting)?;
    let (mut merged, mut runs) = (Vec::new(), Vec::new());
    for (folder, one) in found {
        let different = differences(&provenance.setting, &one.setting);
        match different.is_empty() {
            true => {
                merged.push(folder);
                runs.extend(one.runs);
            }
            false => context.warn(format!(
                "the rows in {} are of another kind of machine and were not added: {}",
                folder.display(),
                different.join("; ")
            )),
        }
    }
    let new = absent(&provenance.runs, runs);
    provenance.runs.extend(new);
    // Before the rows: rows without provenance could not be continued.
    provenance.save(log_dir)?;
    Ok(merged)
}

/// Next to the folder of a part, whose disk may be full: how many rows each file had before those of the part were added.
const BEFORE: &str = "rows_before.json";

/// How many rows each file had before those of a folder were added. What was added since may be theirs, where a merge was killed;
/// what was there before is not, even if it is equal: the memory of two rounds often is.
fn rows_before<'a>(
    log_dir: &Path,
    folder: &Path,
    files: impl Iterator<Item = &'a (Variant, Variable)>,
) -> Result<BTreeMap<String, usize>> {
    let file = folder.with_extension(BEFORE);
    if let Some(text) = input_file::text_if_there(&file, "read how many rows there were")? {
        return serde_json::from_str(&text).map_err(|cause| Error::input(cause.to_string()).file(&file));
    }
    let mut before = BTreeMap::new();
    for (variant, variable) in files {
        let rows = row_file(log_dir, *variable, variant);
        if let Some(quantity) = variable.quantity().filter(|_| rows.exists()) {
            before.insert(key(*variable, variant), records::read(&rows, quantity, Stage::Training)?.records.len());
        }
    }
    atomic_write::save(&file, json!(before).to_string() + "\n")?;
    Ok(before)
}

fn key(variable: Variable, variant: &Variant) -> String {
    format!("{} {variant}", variable.name())
}

fn merge_rows(
    log_dir: &Path,
    folder: &Path,
    variant: &Variant,
    quantity: Quantity,
    before: &BTreeMap<String, usize>,
) -> Result<()> {
    let file = row_file(folder, quantity.into(), variant);
    if !file.exists() {
        return Ok(());
    }
    let offered = records::read(&file, quantity, Stage::Training)?.records;
    let (appender, log) =
        open(log_dir, quantity.into(), || RowAppender::open(log_dir, variant, quantity, Stage::Training))?;
    let there = log.map_or(Vec::new(), |log| log.records);
    let first = before.get(&key(quantity.into(), variant)).copied().unwrap_or(0);
    appender.append_all(&absent(there.get(first..).unwrap_or_default(), offered))
}

fn merge_layers(log_dir: &Path, folder: &Path, variant: &Variant) -> Result<()> {
    let file = layers::file(folder, variant);
    if !file.exists() {
        return Ok(());
    }
    let offered = layers::read(&file)?.records;
    let (appender, log) = open(log_dir, Variable::Layers, || LayerAppender::open(log_dir, variant))?;
    let new = absent(&log.map_or(Vec::new(), |log| log.records), offered);
    if new.is_empty() { Ok(()) } else { appender.append(&new) }
}

/// Opens a file of rows in a folder that may not exist yet.
fn open<T>(log_dir: &Path, variable: Variable, open: impl FnOnce() -> Result<T>) -> Result<T> {
    records::ensure_writable(&log_dir.join(variable.name()))?;
    open()
}
