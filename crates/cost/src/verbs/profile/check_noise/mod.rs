//! `perf4sight profile --check-noise`: determines in a minute how much repeated measurements on a device vary.

mod floor;
mod rounds;
mod tables;
#[cfg(test)]
mod tests;

use super::parse;
use super::settings::{OF_DEVICES, TABLE as PROFILE};
use crate::device::kind::DeviceKind;
use crate::device::{self, Device, MeasurementJob};
use crate::records::Variant;
use crate::verbs::asking;
use crate::verbs::named::NamedNetwork;
use crate::verbs::step::stages;
use crate::verbs::temporary::TemporaryFile;
use floor::NoiseFloor;
use perf4sight_base::error::{Error, Result};
use perf4sight_network::zoo::Dataset;
use perf4sight_step::workload::{LARGEST_BATCH, Stage, Workload};
use perf4sight_verb::config::Conflicts::With;
use perf4sight_verb::config::{ConfigDocument, Setting, SettingTable, SettingValues, flag, integer, path, text, word};
use perf4sight_verb::{Context, Summary, Verb, VerbSpec};
use rounds::NoiseRounds;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `perf4sight profile`.
pub static VERB: VerbSpec = VerbSpec {
    table: SettingTable {
        section: "profile",
        about: "measures the noise of a device: how much repeated measurements differ, before profiling it",
        groups: &[&[CHECK_NOISE, CONFIG_FILE], OF_DEVICES, &[NETWORK, BATCHES, STAGE, SECONDS]],
    },
    after_help: "\
Examples:
  perf4sight profile --check-noise                                 the processor, a minute
  perf4sight profile --check-noise --threads 1 --bs 1,4,16 --network resnet18 --seconds 120
  perf4sight profile --check-noise --device tx2 --worker 'python3 workers/torch_worker.py'
  perf4sight profile --check-noise --config-file config.ini --json",
    parse: |values| Ok(Box::new(CheckNoise::parse(values)?)),
};

const CHECK_NOISE: Setting = flag("check_noise")
    .required()
    .help("Measure the noise floor, in about a minute (profiles themselves run from --config-file).");

const CONFIG_FILE: Setting = path("config_file")
    .value("FILE")
    .conflicts(With(&["device", "device_source", "worker", "gpu_id", "threads", "seed"]))
    .help("Take the device from the section [profile] of this file.");

const NETWORK: Setting = text("network")
    .or_default("squeezenet")
    .value("NAME")
    .completed_by(asking::networks)
    .help("Name of a known network, or NAME@LEVEL for one pruned by that percentage.");

const BATCHES: Setting =
    integer("bs", 1, LARGEST_BATCH as i64).many_values().or_default("[1,8]").value("SIZES").help("Batch sizes.");

const STAGE: Setting = word("stage", stages).or_default("training").help("Stage of the step.");

const SECONDS: Setting = integer("seconds", 0, i64::MAX)
    .or_default("60")
    .value("SECONDS")
    .help("Time to measure; one batch size is measured twice in any case.");

#[derive(Debug, Clone, PartialEq)]
struct CheckNoise {
    device: device::DeviceOptions,
    network: String,
    batches: Vec<u64>,
    stage: Stage,
    time: Duration,
}

impl Verb for CheckNoise {
    /// Measures in rounds and reports the noise of the device.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        if self.device.kind == DeviceKind::Recorded {
            return Err(Error::config("a recorded device always gives the same result")
                .expected("a device that measures, or simulated")
                .help("the report of a profile with repeats shows the noise of the device it was measured on"));
        }
        let network = NamedNetwork::load(&self.network, Dataset::Imagenet.name())?.report_remarks(context);
        let variant = Variant::new(network.name(), 0);
        let device = device::open(&self.device, &context.executable, &[network.name()])?;
        let written = TemporaryFile::write(&network, &variant)?;
        let workloads = self.batches.iter().map(|&batch| Workload::published(self.stage, batch));
        let job =
            |workload| MeasurementJob { latency: true, ..MeasurementJob::new(&variant, written.file(), workload) };
        let jobs: Vec<MeasurementJob> = workloads.map(job).collect();
        let taken = NoiseRounds { device: &*device, jobs: &jobs, time: self.time }.take(context)?;
        let noise = NoiseFloor::from_measurements(&taken).ok_or_else(too_few)?;
        Ok(self.summary(&*device, &noise))
    }
}

impl CheckNoise {
    fn summary(&self, device: &dyn Device, noise: &NoiseFloor) -> Summary {
        let name = format!("{} of {} on {}", self.stage, self.network, device.name());
        Summary {
            headline: tables::verdict(noise),
            tables: vec![tables::by_batch(noise, &name), tables::of_machine(noise)],
            json: tables::json(noise, device.name(), &self.network, self.stage),
            ..Summary::default()
        }
    }
}

fn too_few() -> Error {
    Error::device("too few rounds were measured to know how much they differ").help("let it run on")
}

impl CheckNoise {
    fn parse(values: &SettingValues<'_>) -> Result<Self> {
        let device = match values.get::<Option<PathBuf>>("config_file")? {
            Some(file) => device_of(&file)?,
            None => parse::device(values)?,
        };
        Ok(CheckNoise {
            device,
            network: values.get("network")?,
            batches: values.get("bs")?,
            stage: values.parse_word("stage", Stage::parse)?,
            time: Duration::from_secs(values.get("seconds")?),
        })
    }
}

/// The device in the section `[profile]` of a configuration.
fn device_of(config_file: &Path) -> Result<device::DeviceOptions> {
    let document = ConfigDocument::load(config_file)?;
    let section = document
        .section(PROFILE.section)
        .ok_or_else(|| Error::config("there is no section [profile], which would name the device").file(config_file))?;
    let values = SettingValues::check(&document, section, &PROFILE, &[])?;
    let device = parse::device(&values)?;
    device.check_runnable().map_err(|error| values.with_place("device", error))?;
    Ok(device)
}
