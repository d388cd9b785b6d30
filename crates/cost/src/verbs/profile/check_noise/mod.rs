//! `perf4sight profile --check-noise`: how far measurements of the same thing lie apart on a device, found out in a minute.

mod floor;
mod rounds;
mod tables;
#[cfg(test)]
mod tests;

use super::Profile;
use super::keys::TABLE;
use crate::device::kind::DeviceKind;
use crate::device::{self, Device};
use crate::records::Variant;
use crate::verbs::named::Named;
use crate::verbs::temporary::Temporary;
use floor::Noise;
use perf4sight_base::error::{Error, Result};
use perf4sight_network::zoo::Dataset;
use perf4sight_step::workload::{Stage, Workload};
use perf4sight_verb::config::{Document, Values};
use perf4sight_verb::{Context, Spec, Summary, Verb};
use rounds::Rounds;
use std::path::Path;
use std::time::Duration;

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckNoise {
    /// Where to measure.
    pub device: device::Options,
    /// A known network, or `NAME@LEVEL` for one pruned to that percentage.
    pub network: String,
    /// Batch sizes, each measured in every round.
    pub batches: Vec<u64>,
    /// What a step does.
    pub stage: Stage,
    /// After this time no further round begins, but for the first few.
    pub time: Duration,
}

impl Verb for CheckNoise {
    /// Measures in rounds and tells what the rounds say of the device.
    ///
    /// # Errors
    /// A device without noise of its own, a network that cannot be used, a batch size that does not run.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        if self.device.kind == DeviceKind::Recorded {
            return Err(Error::config("a recorded device always answers the same")
                .expected("a device that measures, or simulated")
                .help("the report of a profile with repeats shows the noise of the device it was measured on"));
        }
        let network = Named::load(&self.network, Dataset::Imagenet.name())?.told(context);
        let variant = Variant::new(network.name(), 0);
        let device = device::open(&self.device, &context.executable, &[network.name()])?;
        let written = Temporary::write(&network, &variant)?;
        let workloads = self.batches.iter().map(|&batch| Workload::published(self.stage, batch));
        let jobs: Vec<device::Job> =
            workloads.map(|workload| rounds::job(&variant, written.file(), workload)).collect();
        let taken = Rounds { device: &*device, jobs: &jobs, time: self.time }.take(context)?;
        let noise = Noise::of(&taken).ok_or_else(too_few)?;
        Ok(self.summary(&*device, &noise))
    }
}

impl CheckNoise {
    fn summary(&self, device: &dyn Device, noise: &Noise) -> Summary {
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
    Error::device("too few rounds were measured to say how far they lie apart").help("let it run on")
}

/// The device that `[profile]` of a configuration names, which may hold any of these sections.
///
/// # Errors
/// A file that cannot be read or has no such section; a section that is wrong.
pub fn device_of(config_file: &Path, specs: &[&Spec]) -> Result<device::Options> {
    let document = Document::load(config_file)?;
    let section = document
        .section(TABLE.section)
        .ok_or_else(|| Error::config("there is no section [profile], which would name the device").file(config_file))?;
    let tables: Vec<_> = specs.iter().map(|spec| &spec.table).collect();
    Ok(Profile::parse(&Values::check(&document, section, &TABLE, &tables)?)?.device)
}
