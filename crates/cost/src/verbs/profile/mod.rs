//! `[profile]`: writes the test configuration, measures it on a device, and saves every row immediately.

mod asked;
mod calibration;
mod check_noise;
mod choice;
mod counts;
mod device_pool;
mod divided;
mod estimate;
mod failures;
mod measurement_run;
mod outline;
mod parse;
mod planned;
mod profile_log;
mod repetitions;
mod settings;
mod shortfall;
pub mod test_config;
#[cfg(test)]
mod tests;

pub use check_noise::VERB;
use choice::PlanChoice;
pub use counts::{ProfileCounts, TimeSpent};
pub use failures::RunFailures;
pub use measurement_run::MeasurementRun;
pub use planned::PlannedMeasurement;
use planned::RunOrder;
pub use profile_log::ProfileLog;

use super::NETWORKS;
use super::images;
use super::named::NetworkRemarks;
use crate::device::{self, Device};
use crate::plan::Plan;
use perf4sight_base::error::Result;
use perf4sight_base::output_folder::share_folder;
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Step, Variable};
use perf4sight_verb::{Context, Divisible, Outline, PlannedFiles, Section, Spec, Summary, Verb};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;
use test_config::NetworkTests;

/// The message if rows are measured only to be shown.
const NOT_KEPT: &str = "save = False: rows are shown but not kept";

/// The section `[profile]`.
pub static SPEC: Spec =
    Spec { table: settings::TABLE, subject: NETWORKS, parse: |values| Ok(Box::new(Profile::parse(values)?)) };

/// The settings of the section.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    create_config: bool,
    run_profiling: bool,
    networks: Vec<String>,
    /// Whether the calibration networks are measured, too.
    teach: bool,
    dataset: String,
    variables: Vec<Variable>,
    batches: Vec<u64>,
    steps: Vec<Step>,
    places: ProfilePaths,
    device: device::DeviceOptions,
    save: bool,
    till_first_fail: bool,
    order: RunOrder,
    choice: PlanChoice,
    budget: Option<Duration>,
    device_name: String,
}

/// The folders and files of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ProfilePaths {
    networks: PathBuf,
    networks_on_device: PathBuf,
    log_dir: PathBuf,
    test_config: PathBuf,
}

impl Section for Profile {
    fn outline(&self, files: &PlannedFiles, context: &Context) -> Result<Outline<'_>> {
        self.build_outline(files, &context.executable)
    }

    fn divisible(&self) -> Option<&dyn Divisible> {
        self.run_profiling.then_some(self)
    }
}

impl Verb for Profile {
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let present = PlannedFiles::default();
        let tests = self.tests(&present)?;
        self.write_calibration_networks()?;
        if !self.run_profiling {
            let files = self.write_tests(&tests)?;
            return Ok(Summary { headline: "wrote the test configuration".to_owned(), files, ..Summary::default() });
        }
        let (counts, mut files) = self.measure(&tests, &present, context)?;
        if self.save {
            files.push(("rows", self.places.log_dir.clone()));
        }
        Ok(counts.summary(files))
    }
}

impl Profile {
    /// Writes the test configuration, if requested, and returns its files.
    fn write_tests(&self, tests: &[NetworkTests]) -> Result<Vec<(&'static str, PathBuf)>> {
        if !self.create_config {
            return Ok(Vec::new());
        }
        let written = test_config::write(&self.places.test_config, tests)?;
        Ok(written.into_iter().map(|file| ("test configuration", file)).collect())
    }

    fn measure(
        &self,
        tests: &[NetworkTests],
        present: &PlannedFiles,
        context: &mut Context,
    ) -> Result<(ProfileCounts, Vec<(&'static str, PathBuf)>)> {
        let devices = self.open_devices(tests, &context.executable)?;
        let devices: Vec<&dyn Device> = devices.iter().map(|device| &**device).collect();
        // All devices are of one kind.
        let planned = self.offered_configurations(self.planned(tests, present), devices[0]);
        let _held = share_folders_of_networks(&planned)?;
        let (mut plan, log) = self.prepare(&planned, devices[0], context)?;
        // Only now is it certain that no other run uses this folder.
        let files = self.write_tests(tests)?;
        let run = MeasurementRun { devices: &devices, planned: &planned, till_first_fail: self.till_first_fail };
        let counts = run.run(&mut *plan, log, context)?;
        counts.shortfall().into_iter().for_each(|words| context.fall_short(words));
        Ok((counts.of_networks(tests.iter().map(|network| network.network.clone())), files))
    }

    /// Refuses what is certain to fail, and opens the log where rows are kept.
    fn prepare(
        &self,
        planned: &[PlannedMeasurement],
        device: &dyn Device,
        context: &mut Context,
    ) -> Result<(Box<dyn Plan>, Option<ProfileLog>)> {
        let own = planned.iter().filter(|planned| !calibration::is_calibration(planned));
        images::check(own.map(|planned| (planned.dataset.as_str(), planned.file.as_path())))?;
        device::check_all(device, &planned.iter().map(PlannedMeasurement::job).collect::<Vec<_>>())?;
        device::slow_arithmetic(&device.setting()).into_iter().for_each(|slow| context.warn(slow));
        self.warn_of_what_cannot_be_fitted(device, context);
        NetworkRemarks::about(planned.iter().map(|planned| planned.file.as_path())).report(context);
        let plan = self.plan(planned, device)?;
        let log = match self.save {
            true => {
                let (log_dir, seed) = (&self.places.log_dir, self.device.seed);
                Some(ProfileLog::open(log_dir, planned, (&device.setting(), seed), Duration::ZERO, context)?)
            }
            false => {
                context.warn(NOT_KEPT);
                None
            }
        };
        Ok((plan, log))
    }

    /// Warns before hours of measurements if `[fingerprint]` will refuse rows of this precision; the rows may still be
    /// wanted.
    fn warn_of_what_cannot_be_fitted(&self, device: &dyn Device, context: &mut Context) {
        let setting = device.setting();
        let target = setting.get("target").and_then(|target| Platform::for_name(target).ok());
        let checked = target
            .and_then(|platform| self.steps.iter().find_map(|step| platform.check_precision(step.precision).err()));
        checked.into_iter().for_each(|problem| {
            context.warn(format!("no fingerprint can be fitted to such rows: {problem}"));
        });
    }

    /// Opens at least one device; several are of one kind.
    fn open_devices(&self, tests: &[NetworkTests], executable: &Path) -> Result<Vec<Box<dyn Device>>> {
        let networks: Vec<&str> = tests.iter().map(|tests| tests.network.as_str()).collect();
        device::open_all(&self.device, executable, &networks)
    }
}

/// Keeps others from replacing the networks while they are measured: later rows would be of other networks than earlier ones.
fn share_folders_of_networks(planned: &[PlannedMeasurement]) -> Result<Vec<File>> {
    let folders: BTreeSet<&Path> = planned.iter().filter_map(|planned| planned.file.parent()).collect();
    let share = |folder| share_folder(folder, Duration::ZERO, "wait for it to finish, then run the same command again");
    folders.into_iter().filter(|folder| folder.is_dir()).map(share).collect()
}
