//! What `[predict]` and `[advise]` are both asked: the device, the step, the memory limit, and the files to write.

use super::asked;
use super::asking;
use super::extents::NetworkExtents;
use super::named::{self, NamedNetwork, is_file};
use super::source::{FingerprintSource, TargetDevice};
use super::step;
use crate::fingerprint::{DeviceFingerprints, Fingerprint, check_understood, file_name};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::overwrite;
use perf4sight_base::units::Bytes;
use perf4sight_step::workload::{Changes, Quantity, Stage, Step};
use perf4sight_verb::config::SettingValues;
use perf4sight_verb::{Context, KeyedPath, Outline, PlannedFiles};
use rayon::prelude::*;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WantedStep {
    pub source: FingerprintSource,
    /// Threads that compute on a kind of device, if not several.
    pub threads: Option<u64>,
    /// Whether a loop keeps the outputs of a network until its step ends.
    pub holds_outputs: bool,
    pub stage: Stage,
    pub changes: Changes,
    /// The memory limit, if it is not the memory of the profiled device.
    pub limit: Option<Bytes>,
    /// The device that the fingerprints must be of, if one is required.
    pub device: Option<String>,
    /// The dataset that the fingerprints must be of, if one is required; for devices that were not measured it gives
    /// the images that networks read.
    pub dataset: Option<String>,
    pub extents: NetworkExtents,
    output: Vec<PathBuf>,
    overwrite: bool,
}

impl WantedStep {
    /// Parses the settings that both sections share; output files have one of these endings.
    pub fn parse(
        values: &SettingValues<'_>,
        targets: Option<Vec<String>>,
        batches: &[u64],
        endings: &[&str],
    ) -> Result<Self> {
        let stage = values.parse_word("stage", Stage::parse)?;
        let changes = step::changes(values, &[stage])?;
        // The settings of the fingerprints' step are only known when they are loaded.
        step::check_batches(values, changes.of(Step::published(stage)), batches)?;
        let source = FingerprintSource::parse(values, targets)?;
        let written = asking::OF_TARGETS.into_iter().find(|key| values.is_set(key));
        if let (FingerprintSource::Fingerprint(_), Some(key)) = (&source, written) {
            let error = values.error(key, "a fingerprint answers for steps as they were measured");
            return Err(error.help(format!("leave out {key}, or name a kind of device with target")));
        }
        Ok(WantedStep {
            source,
            threads: values.get("threads")?,
            holds_outputs: values.get("holds_outputs")?,
            stage,
            changes,
            limit: values.get("mem_limit")?,
            device: values.get("device_name")?,
            dataset: values.get("dataset")?,
            extents: NetworkExtents::parse(values)?,
            output: asking::output(values, endings)?,
            overwrite: values.get("overwrite")?,
        })
    }

    /// The devices, at least one, and the step that each of them predicts.
    pub fn devices(&self, context: &mut Context) -> Result<Vec<TargetDevice>> {
        let devices = self.source.devices(self, context)?;
        for TargetDevice { fingerprints, .. } in &devices {
            let capacity = fingerprints.memory.as_ref().and_then(Fingerprint::capacity);
            if let Some((limit, capacity)) = self.limit.zip(capacity).filter(|(limit, capacity)| limit > capacity) {
                let device = &fingerprints.subject().device;
                context.warn(format!(
                    "mem_limit is {limit}, and {device} was profiled with {capacity}: whether it has more is not known"
                ));
            }
        }
        Ok(devices)
    }

    /// The error where what fits is asked of fingerprints without one of memory.
    pub fn without_memory(&self, fingerprints: &DeviceFingerprints) -> Error {
        Error::input("there is no fingerprint of memory here, so it is unknown what fits")
            .file(fingerprints.folder())
            .expected(file_name(self.stage, Quantity::Memory))
    }

    /// Whether a page is written.
    pub fn has_page(&self) -> bool {
        self.output.iter().any(|file| ending(file) == "html")
    }

    /// Refuses to replace files of others; `text` is alike what will be written to files of an ending.
    pub fn check_output(&self, text: impl Fn(&str) -> String) -> Result<()> {
        self.output.iter().try_for_each(|file| overwrite::check_contents(file, text(ending(file)), self.overwrite))
    }

    /// Refuses networks where the devices can predict none of them.
    fn check_networks(&self, words: &[String], devices: &[TargetDevice]) -> Result<()> {
        let words = asked::expand(words)?;
        let dataset = &devices[0].fingerprints.subject().dataset;
        let check = |word: &String| {
            let NamedNetwork { network, .. } = NamedNetwork::load_with_extents(word, dataset, &self.extents)?;
            check_understood(&network)?;
            devices.iter().try_for_each(|device| network.check_step(device.step))
        };
        match words.par_iter().any(|word| check(word).is_ok()) {
            true => Ok(()),
            false => words.iter().try_for_each(check),
        }
    }

    /// Writes the output files, with the text for their endings, and returns them with what they are.
    pub fn write(&self, what: &'static str, text: impl Fn(&str) -> String) -> Result<Vec<(&'static str, PathBuf)>> {
        self.output.iter().try_for_each(|file| overwrite::save(file, text(ending(file)), self.overwrite))?;
        Ok(self.output.iter().map(|file| (what, file.clone())).collect())
    }

    /// The outline of a section that does this with the networks of a key; files that an earlier section will have
    /// written are not names of networks.
    pub fn outline<'a>(
        &'a self,
        does: &str,
        key: &'static str,
        networks: &'a [String],
        planned: &PlannedFiles,
    ) -> Outline<'a> {
        // A pattern may match files that an earlier section writes.
        let words = networks.iter().filter(|word| !asked::is_pattern(word) && !planned.exists(Path::new(word)));
        let names: Vec<&str> = words.map(String::as_str).filter(|word| !is_file(word)).collect();
        let bare: Vec<&str> =
            networks.iter().map(String::as_str).filter(|word| asked::is_bare(word, planned)).collect();
        let is_read = |word: &&String| is_file(word) && !asked::is_pattern(word) || planned.exists(Path::new(word));
        let there =
            networks.iter().filter(|word| asked::is_pattern(word)).filter_map(|word| asked::matching(word).ok());
        let files = networks.iter().filter(is_read).cloned().chain(there.flatten());
        let files = files.map(|word| KeyedPath::new(key, word));
        let source = || self.source.reads().into_iter().map(|read| read.path);
        let outline = Outline {
            steps: vec![format!("{does} {}", self.source.description())],
            reads: files.chain(self.source.reads()).collect(),
            writes: self.output.iter().map(|file| KeyedPath { key: "output", path: file.clone() }).collect(),
            ..Outline::default()
        };
        let places = networks.iter().map(|word| asked::folder_of(word));
        let outline =
            outline.check_value(key, move || bare.first().map_or(Ok(()), |folder| Err(asked::no_networks(folder))));
        let outline = outline.check_value(key, move || names.iter().try_for_each(|name| named::check(name)));
        outline.check(self.source.key(), source(), |context| self.devices(context).map(drop)).check(
            key,
            places.chain(source()),
            |context| self.check_networks(networks, &self.devices(context)?),
        )
    }
}

fn ending(file: &Path) -> &str {
    file.extension().and_then(|ending| ending.to_str()).unwrap_or_default()
}
