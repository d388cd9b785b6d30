//! The outline of the section: what it would do, without doing it.

use super::calibration::is_calibration;
use super::test_config::{self, NetworkTests};
use super::{NOT_KEPT, PlanChoice, PlannedMeasurement, Profile, estimate, profile_log};
use crate::device::check_all;
use crate::device::kind::DeviceKind;
use crate::plan::{ConfigurationStatus, MeasurementLedger, RowShare};
use crate::records::{MeasurementIdentity, PROVENANCE_FILE, row_file};
use perf4sight_base::error::Result;
use perf4sight_machine::description::MachineDescription;
use perf4sight_step::workload::Variable;
use perf4sight_verb::{KeyedPath, Outline, PlannedFiles};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

impl Profile {
    pub(super) fn build_outline(&self, files: &PlannedFiles, executable: &Path) -> Result<Outline<'_>> {
        let tests = self.tests(files)?;
        let mut outline = Outline { reads: self.inputs(&tests, files), ..Outline::default() };
        let files = &self.with_calibration_networks(files, &mut outline);
        if self.create_config {
            self.outline_config(&tests, &mut outline);
            outline = outline.check_value("test_config", || self.check_config());
        }
        if self.run_profiling {
            outline.warnings.extend(self.idle_limit());
            // Published: a number without a unit is in MiB, which people take for GiB.
            let limit =
                self.device.mem_limit.map(|limit| format!("lets a step use {} of memory at most", limit.in_full()));
            outline.steps.extend(limit);
            self.outline_runs(&tests, files, executable, &mut outline)?;
        }
        Ok(outline)
    }

    /// The files that it reads: networks that are there or that an earlier section writes, what to measure, what the device is.
    pub(super) fn inputs(&self, tests: &[NetworkTests], files: &PlannedFiles) -> Vec<KeyedPath> {
        let networks = self.planned(tests, files).into_iter().map(|planned| planned.file);
        let networks: BTreeSet<PathBuf> = networks.filter(|file| files.exists(file)).collect();
        let networks = networks.into_iter().map(|file| KeyedPath::new("local_model_loc", file));
        let configs = if self.create_config { Vec::new() } else { self.config_files() };
        let configs = configs.into_iter().map(|file| KeyedPath::new("test_config", file));
        let source = self.device.source.iter().map(|source| KeyedPath::new("device_source", source));
        networks.chain(configs).chain(source).collect()
    }

    fn config_files(&self) -> Vec<PathBuf> {
        test_config::files(&self.places.test_config, &self.names())
    }

    /// A warning about a memory limit above the memory of this machine, if it is the one that is measured. The kernel's own limit is refused
    /// there.
    fn idle_limit(&self) -> Option<String> {
        let is_here = self.device.kind == DeviceKind::Cpu && self.device.routes.is_empty();
        is_here
            .then(|| MachineDescription::here().ineffective_limit_warning("mem_limit", self.device.mem_limit))
            .flatten()
    }

    pub(super) fn outline_config(&self, tests: &[NetworkTests], outline: &mut Outline) {
        let file = &self.places.test_config;
        let variants: usize = tests.iter().map(|tests| tests.files.len()).sum();
        let networks = self.names().join(", ");
        outline.steps.push(format!("writes the tests of {variants} variants of {networks} to {}", file.display()));
        outline.writes.extend(self.config_files().into_iter().map(|path| KeyedPath { key: "test_config", path }));
    }

    fn check_config(&self) -> Result<()> {
        self.config_files().iter().try_for_each(|file| test_config::check_replaced(file))
    }

    fn outline_runs(
        &self,
        tests: &[NetworkTests],
        files: &PlannedFiles,
        executable: &Path,
        outline: &mut Outline,
    ) -> Result<()> {
        let devices = self.open_devices(tests, executable)?;
        let device = &devices[0];
        let planned = self.offered_configurations(self.planned(tests, files), &**device);
        // Files that an earlier section will write cannot be read yet.
        let there = planned.iter().filter(|planned| planned.file.exists() || !files.exists(&planned.file));
        check_all(&**device, &there.map(PlannedMeasurement::job).collect::<Vec<_>>())?;
        let log_dir = &self.places.log_dir;
        let (ledger, earlier) = match self.save {
            true => {
                let earlier = profile_log::seconds(&profile_log::provenance(log_dir, &device.setting())?);
                (profile_log::look(log_dir, &planned)?, earlier)
            }
            false => (MeasurementLedger::default(), 0.0),
        };
        let ahead: Vec<&PlannedMeasurement> = planned
            .iter()
            .filter(|p| matches!(ledger.status(&p.configuration), ConfigurationStatus::Measure(_)))
            .collect();
        match self.choice {
            PlanChoice::Grid => {
                outline.runs = ahead.len();
                outline.time = estimate::time(&ahead, &self.device);
                outline.steps.push(format!("measures {} configurations on {}", ahead.len(), device.name()));
                outline.steps.extend(left_out(planned.len() - ahead.len(), log_dir));
            }
            PlanChoice::Adaptive => {
                let chosen = planned.iter().filter(|planned| !is_calibration(planned));
                let most = RowShare::from_configurations(chosen.clone().map(|planned| &planned.configuration))
                    .configurations();
                let calibration = planned.len() - chosen.count();
                outline.runs = (most + calibration).saturating_sub(planned.len() - ahead.len());
                outline.time = estimate::time_of_part(&ahead, outline.runs, &self.device);
                outline.steps.push(at_most(outline.runs, ahead.len(), device.name()));
            }
        }
        if let Some(budget) = self.budget {
            let left = budget.saturating_sub(Duration::from_secs_f64(earlier));
            outline.time = outline.time.into_iter().chain([left]).min();
            outline.steps.push(match left.is_zero() {
                true => "measures nothing: earlier runs spent the budget, so set a larger one to go on".to_owned(),
                false => format!("stops after {} at the latest, waiting for other measurements aside", shown(left)),
            });
        }
        if self.save {
            self.outline_rows(&planned, outline);
        } else {
            outline.steps.push(NOT_KEPT.to_owned());
        }
        Ok(())
    }

    pub(super) fn outline_rows(&self, planned: &[PlannedMeasurement], outline: &mut Outline) {
        let log_dir = &self.places.log_dir;
        outline.steps.push(format!(
            "appends rows to {}/{{{}}}/{{variant}}-gt.csv",
            log_dir.display(),
            self.variables_text()
        ));
        let row =
            |row: MeasurementIdentity| (row_file(log_dir, row.variable, &row.variant), row.workload.step.row_words());
        outline.rows.extend(planned.iter().flat_map(PlannedMeasurement::identities).map(row));
        let rows = profile_log::files(planned).into_iter();
        let place = |(variant, variable)| KeyedPath { key: "log_dir", path: row_file(log_dir, variable, &variant) };
        outline.writes.push(KeyedPath { key: "log_dir", path: log_dir.join(PROVENANCE_FILE) });
        outline.writes.extend(rows.map(place));
        outline.fills.push(KeyedPath { key: "log_dir", path: log_dir.clone() });
    }

    fn variables_text(&self) -> String {
        let asked = Variable::ALL.into_iter().filter(|variable| self.variables.contains(variable));
        asked.map(Variable::name).collect::<Vec<_>>().join(",")
    }
}

/// The final number depends on the measurements.
fn at_most(runs: usize, of: usize, device: &str) -> String {
    format!(
        "measures at most {runs} of {of} configurations on {device}: those that teach most, and fewer when more would no longer make \
         predictions better"
    )
}

/// In whole seconds, the precision of a budget.
fn shown(time: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(time.as_secs()))
}

fn left_out(configurations: usize, log_dir: &Path) -> Option<String> {
    let log_dir = log_dir.display();
    (configurations > 0).then(|| {
        format!("leaves out {configurations} that {log_dir} already holds or that a smaller batch without enough memory rules out")
    })
}
