//! The folder of a profile while it is written: reads earlier rows and the provenance, and appends one row at a time.

use super::counts::TimeSpent;
use super::planned::PlannedMeasurement;
use crate::plan::MeasurementLedger;
use crate::records::layers::{self, LayerAppender, LayerLog, LayerRecord, StepPart};
use crate::records::{
    self, ErrorEstimate, NetworkSize, ProfileProvenance, ProfileRun, Repeatability, RowAppender, RowRecord, Variant,
    WorkerRun, row_file,
};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::output_folder::lock_folder;
use perf4sight_machine::MachineProperties;
use perf4sight_onnx as onnx;
use perf4sight_step::workload::{Quantity, Stage, Variable, Workload};
use perf4sight_verb::Context;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A profile that is open for appending; no other process can append to it at the same time.
#[derive(Debug)]
pub struct ProfileLog {
    pub(super) log_dir: PathBuf,
    appenders: BTreeMap<(Variant, Quantity), RowAppender>,
    layer_appenders: BTreeMap<Variant, LayerAppender>,
    timed_layers: Vec<(Variant, Workload)>,
    /// The rows that existed when it was opened, of the planned variants and quantities.
    pub(super) earlier: Vec<RowRecord>,
    provenance: ProfileProvenance,
    /// The networks of the planned files, by stem.
    networks: BTreeMap<String, NetworkSize>,
    _lock: File,
}

/// The entry of one configuration: rows of the whole step; rows of its operations, the plain step last; the runs that
/// gave them.
#[derive(Default)]
pub(super) struct ProfileEntry {
    pub records: Vec<RowRecord>,
    pub layers: Vec<LayerRecord>,
    pub attempts: Vec<WorkerRun>,
}

/// The existing rows of `planned`, read only.
pub(super) fn look(log_dir: &Path, planned: &[PlannedMeasurement]) -> Result<MeasurementLedger> {
    records::check_conditions(log_dir)?;
    let (mut rows, mut timed_layers) = (Vec::new(), Vec::new());
    for (variant, variable) in files(planned) {
        let file = row_file(log_dir, variable, &variant);
        match variable.quantity() {
            _ if !file.exists() => {}
            Some(quantity) => rows.extend(records::read(&file, quantity, Stage::Training)?.settled_rows()),
            None => timed_layers.push(layers::read(&file)?),
        }
    }
    let mut ledger = MeasurementLedger::from_records(&rows);
    timed_layers.iter().flat_map(timed_steps).for_each(|(variant, workload)| ledger.enter_layers(variant, workload));
    Ok(ledger)
}

/// Seconds that the configurations of all runs took.
pub(super) fn seconds(provenance: &ProfileProvenance) -> f64 {
    provenance.runs.iter().map(|run| run.seconds).sum()
}

fn timed_steps(log: &LayerLog) -> impl Iterator<Item = (&Variant, Workload)> {
    let steps = log.records.iter().filter(|layer| layer.pass == StepPart::Step);
    steps.map(|layer| (&layer.record.variant, layer.record.workload))
}

impl ProfileLog {
    /// Opens the folder and checks now that rows can be written later.
    ///
    /// # Errors
    /// A folder that is not writable or that another process is writing, rows that cannot be read, rows that were
    /// measured under another setting or of other networks of the same names.
    pub fn open(
        log_dir: &Path,
        planned: &[PlannedMeasurement],
        (setting, seed): (&MachineProperties, u64),
        patience: Duration,
        context: &mut Context,
    ) -> Result<Self> {
        let variables: BTreeSet<Variable> = files(planned).into_iter().map(|(_, variable)| variable).collect();
        variables.iter().try_for_each(|variable| records::ensure_writable(&log_dir.join(variable.name())))?;
        let lock = lock_folder(log_dir, patience, "wait for it to finish, or set another log_dir")?;
        records::check_conditions(log_dir)?;
        let mut provenance = provenance(log_dir, setting)?;
        let networks = network_sizes(planned);
        let date = humantime::format_rfc3339_seconds(context.now()).to_string();
        let config = context.config.clone();
        provenance.runs.push(ProfileRun { date, seed, config, ..ProfileRun::default() });
        let mut log = ProfileLog {
            log_dir: log_dir.to_owned(),
            appenders: BTreeMap::new(),
            layer_appenders: BTreeMap::new(),
            timed_layers: Vec::new(),
            earlier: Vec::new(),
            provenance,
            networks,
            _lock: lock,
        };
        for (variant, variable) in files(planned) {
            match variable.quantity() {
                Some(quantity) => log.open_rows(variant, quantity, context)?,
                None => log.open_layers(variant, context)?,
            }
        }
        log.check_networks()?;
        Ok(log)
    }

    /// Refuses to continue rows of other networks than those in the planned files.
    fn check_networks(&self) -> Result<()> {
        let stems: BTreeSet<&str> = self.earlier.iter().filter_map(RowRecord::stem).collect();
        let known = stems.into_iter().filter_map(|stem| Some((stem, *self.networks.get(stem)?)));
        known.into_iter().try_for_each(|(stem, size)| self.provenance.check_network(stem, size, &self.log_dir))
    }

    fn open_rows(&mut self, variant: Variant, quantity: Quantity, context: &mut Context) -> Result<()> {
        let (appender, log) = RowAppender::open(&self.log_dir, &variant, quantity, Stage::Training)?;
        self.appenders.insert((variant, quantity), appender);
        if let Some(log) = log {
            log.warnings().into_iter().for_each(|warning| context.warn(warning));
            self.earlier.extend(log.settled_rows());
        }
        Ok(())
    }

    fn open_layers(&mut self, variant: Variant, context: &mut Context) -> Result<()> {
        let (appender, log) = LayerAppender::open(&self.log_dir, &variant)?;
        if let Some(log) = log {
            log.warning(&layers::file(&self.log_dir, &variant)).into_iter().for_each(|warning| context.warn(warning));
            self.timed_layers.extend(timed_steps(&log).map(|(variant, workload)| (variant.clone(), workload)));
        }
        self.layer_appenders.insert(variant, appender);
        Ok(())
    }

    /// Seconds that the configurations of all runs took, including this one.
    pub(super) fn seconds(&self) -> f64 {
        seconds(&self.provenance)
    }

    /// Saves the estimated errors of fits on the rows; a run that added no rows leaves no trace.
    pub(super) fn learn(&mut self, learned: &[ErrorEstimate]) -> Result<()> {
        match self.provenance.runs.last_mut().filter(|run| run.rows > 0 && run.learned != learned) {
            Some(run) => {
                run.learned = learned.to_vec();
                self.provenance.save(&self.log_dir)
            }
            None => Ok(()),
        }
    }

    /// The configurations whose layers existed when it was opened.
    pub(super) fn timed_layers(&self) -> impl Iterator<Item = (&Variant, Workload)> {
        self.timed_layers.iter().map(|(variant, workload)| (variant, *workload))
    }

    /// Appends the entry of a configuration, with the time it took.
    pub(super) fn add(&mut self, entry: &ProfileEntry, spent: TimeSpent) -> Result<()> {
        let ProfileEntry { records, layers, attempts } = entry;
        // The provenance is written first: after a crash, rows without one could not be continued.
        let first = records.first().or(layers.first().map(|layer| &layer.record));
        let measured =
            first.and_then(RowRecord::stem).and_then(|stem| Some((stem.to_owned(), *self.networks.get(stem)?)));
        if let Some(run) = self.provenance.runs.last_mut() {
            run.networks.extend(measured);
        }
        self.account(records.len() + layers.len(), attempts, spent)?;
        records.iter().try_for_each(|row| self.appender(row)?.append(row))?;
        match layers.first().and_then(|layer| self.layer_appenders.get(&layer.record.variant)) {
            Some(appender) => appender.append(layers),
            None => Ok(()),
        }
    }

    /// Saves a repetition, and replaces the row with the revised one.
    pub(super) fn repeat(
        &mut self,
        rows: Option<(&RowRecord, &RowRecord)>,
        attempts: &[WorkerRun],
        spent: TimeSpent,
    ) -> Result<()> {
        self.account(0, attempts, spent)?;
        rows.map_or(Ok(()), |(old, new)| self.appender(old)?.replace(old, new))
    }

    pub(super) fn mark(&self, old: &RowRecord, new: &RowRecord) -> Result<()> {
        self.appender(old)?.replace(old, new)
    }

    /// Ends a run and saves the agreement of its repetitions; a run that added nothing leaves no trace.
    pub(super) fn finish(&mut self, visits: Option<Repeatability>) -> Result<()> {
        match self.provenance.runs.last_mut().filter(|run| (run.rows > 0 || run.seconds > 0.0) && run.visits != visits)
        {
            Some(run) => {
                run.visits = visits;
                self.provenance.save(&self.log_dir)
            }
            None => Ok(()),
        }
    }

    fn account(&mut self, rows: usize, attempts: &[WorkerRun], spent: TimeSpent) -> Result<()> {
        if let Some(run) = self.provenance.runs.last_mut() {
            run.rows += rows;
            run.seconds += spent.seconds;
            run.measuring += spent.measuring;
            run.waiting += spent.waiting;
            attempts.iter().for_each(|attempt| run.conditions.extend(&attempt.conditions));
        }
        self.provenance.save(&self.log_dir)?;
        attempts.iter().try_for_each(|attempt| attempt.append(&self.log_dir))
    }

    fn appender(&self, row: &RowRecord) -> Result<&RowAppender> {
        let appender = self.appenders.get(&(row.variant.clone(), row.quantity()));
        appender.ok_or_else(|| Error::input(format!("{} was not planned", row.identity())).file(&self.log_dir))
    }
}

/// The networks in the planned files; one that cannot be read is refused where it is measured.
fn network_sizes(planned: &[PlannedMeasurement]) -> BTreeMap<String, NetworkSize> {
    let files: BTreeSet<&Path> = planned.iter().map(|planned| &*planned.file).collect();
    let size = |file: &Path| {
        let network = onnx::read(file).ok()?.network;
        Some((file.file_stem()?.to_str()?.to_owned(), NetworkSize::from(&network)))
    };
    files.into_par_iter().filter_map(size).collect()
}

pub(super) fn files(planned: &[PlannedMeasurement]) -> BTreeSet<(Variant, Variable)> {
    planned
        .iter()
        .flat_map(PlannedMeasurement::identities)
        .map(|identity| (identity.variant, identity.variable))
        .collect()
}

/// The existing provenance, or a new one if there are no rows. A file of its name that is none is refused, and not replaced.
pub(super) fn provenance(log_dir: &Path, now: &MachineProperties) -> Result<ProfileProvenance> {
    let fresh = ProfileProvenance { setting: now.clone(), runs: Vec::new() };
    let found = ProfileProvenance::load(log_dir)?;
    if !records::any_rows(log_dir) {
        return Ok(fresh);
    }
    let Some(found) = found else {
        return Err(Error::input("there are rows here, but their machine is not recorded")
            .file(log_dir)
            .expected(records::PROVENANCE_FILE)
            .help(format!("start again with another device_name or log_dir, or move {} away", log_dir.display())));
    };
    found.check_continues(now, log_dir)?;
    Ok(found)
}
