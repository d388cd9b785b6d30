//! The source of predictions: the fingerprints of a measured device, or priors of kinds of devices that were not
//! measured.

use super::wanted_step::WantedStep;
use crate::fingerprint::{DeviceFingerprints, Fingerprint};
use perf4sight_base::error::{Error, Result};
use perf4sight_network::zoo::Dataset;
use perf4sight_platform::Platform;
use perf4sight_step::workload::Step;
use perf4sight_verb::config::SettingValues;
use perf4sight_verb::{Context, KeyedPath};
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FingerprintSource {
    Fingerprint(PathBuf),
    /// Priors of kinds of devices that were not measured: a known name or [`EVERY`], or the file that describes a
    /// device.
    Targets(Vec<String>),
}

/// The fingerprints of one device, and the step that they predict.
pub(super) struct TargetDevice {
    pub fingerprints: DeviceFingerprints,
    pub step: Step,
    /// A fingerprint that cannot predict this step, but may predict others.
    pub silent: Option<Fingerprint>,
}

/// The name for all known kinds of devices.
pub const EVERY: &str = "all";

impl FingerprintSource {
    /// Parses the keys `fingerprint` and `target` of a section: either fingerprints or targets, never both.
    pub(super) fn parse(values: &SettingValues<'_>, targets: Option<Vec<String>>) -> Result<Self> {
        // An empty list is treated like a missing key.
        let Some(targets) = targets.filter(|targets| !targets.is_empty()) else {
            return Ok(FingerprintSource::Fingerprint(values.get("fingerprint")?));
        };
        if values.writes("fingerprint") {
            return Err(values
                .error("target", "fingerprint is there, too")
                .expected("either fingerprints of a device that was measured, or target")
                .help("leave out fingerprint, or target"));
        }
        let source = FingerprintSource::Targets(targets);
        source.check().map_err(|error| values.located("target", error))?;
        Ok(source)
    }

    /// The fingerprints of every requested device, and the step that they predict; at least one.
    pub(super) fn devices(&self, wanted: &WantedStep, context: &mut Context) -> Result<Vec<TargetDevice>> {
        match self {
            FingerprintSource::Fingerprint(folder) => {
                let fingerprints = DeviceFingerprints::load(folder, wanted.stage)?;
                fingerprints.check(wanted.device.as_deref(), wanted.dataset.as_deref())?;
                let step = wanted.changes.of(fingerprints.subject().step);
                Ok(vec![with_warning(fingerprints, step, context)?])
            }
            FingerprintSource::Targets(words) => wanted.of_kinds(&distinct_kinds(words), context),
        }
    }

    /// Refuses unknown kinds of devices.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            FingerprintSource::Fingerprint(_) => Ok(()),
            FingerprintSource::Targets(words) => {
                let mut names = distinct_kinds(words).into_iter().filter(|word| !Platform::is_file(word));
                names.try_for_each(|word| Platform::for_name(word).map(drop))
            }
        }
    }

    /// Whether it specifies exactly one device.
    pub(super) fn is_one(&self) -> bool {
        match self {
            FingerprintSource::Fingerprint(_) => true,
            FingerprintSource::Targets(words) => distinct_kinds(words).len() == 1,
        }
    }

    /// The key that specifies it.
    pub(super) fn key(&self) -> &'static str {
        match self {
            FingerprintSource::Fingerprint(_) => "fingerprint",
            FingerprintSource::Targets(_) => "target",
        }
    }

    /// The paths that must exist: the folder of the fingerprints, or the files that describe devices.
    pub(super) fn reads(&self) -> Vec<KeyedPath> {
        match self {
            FingerprintSource::Fingerprint(folder) => vec![KeyedPath { key: self.key(), path: folder.clone() }],
            FingerprintSource::Targets(words) => {
                let files = words.iter().filter(|word| Platform::is_file(word));
                files.map(|word| KeyedPath { key: self.key(), path: word.into() }).collect()
            }
        }
    }

    pub(super) fn description(&self) -> String {
        match self {
            FingerprintSource::Fingerprint(folder) => format!("from {}", folder.display()),
            FingerprintSource::Targets(words) => format!("for {}, without any measurement", words.join(", ")),
        }
    }
}

impl WantedStep {
    /// A kind of device, as the step runs on it.
    fn run_on(&self, platform: Platform) -> Platform {
        let platform = self.threads.into_iter().fold(platform, Platform::on_threads);
        if self.holds_outputs { platform.holding_results() } else { platform }
    }

    /// With several kinds of devices, those that do not support the step's precision are left out with a warning; any
    /// other problem is an error.
    fn of_kinds(&self, words: &[&str], context: &mut Context) -> Result<Vec<TargetDevice>> {
        let step = self.changes.of(Step::usual(self.stage));
        let dataset = self.dataset.as_deref().unwrap_or(Dataset::Imagenet.name());
        let mut devices = Vec::new();
        for word in words {
            let platform = self.run_on(Platform::named_or_read(word)?);
            match platform.check_precision(step.precision) {
                Err(refusal) if words.len() > 1 => context.warn(refusal.to_string()),
                Err(refusal) => return Err(refusal),
                Ok(()) => devices.push(with_warning(
                    DeviceFingerprints::priors(word, dataset, step, &platform),
                    step,
                    context,
                )?),
            }
        }
        match devices.is_empty() {
            true => Err(Error::input("none of these devices supports such steps")),
            false => Ok(devices),
        }
    }
}

/// The fingerprints that can predict a step, with a warning about one that cannot.
fn with_warning(fingerprints: DeviceFingerprints, step: Step, context: &mut Context) -> Result<TargetDevice> {
    let (fingerprints, silent) = fingerprints.answering(step)?;
    let silent = silent.map(|(fingerprint, refusal)| {
        context.warn(refusal.to_string());
        fingerprint
    });
    if fingerprints.memory.as_ref().is_some_and(|memory| memory.may_have_other_kernels(step)) {
        context.warn(other_kernels(step));
    }
    Ok(TargetDevice { fingerprints, step, silent })
}

/// What is said of memory that depends on a processor's instructions (docs/accuracy/simulated-memory.md, "Other precisions").
fn other_kernels(step: Step) -> String {
    format!(
        "precision = {}: memory is simulated for processors whose vectors have bfloat16 instructions (avx512_bf16 in /proc/cpuinfo); others take more: \
         of those tried, with AMX (amx_tile) mostly up to 12 %, transposed convolutions 30 %, steps below 5 MiB up to 2.7 times as much; without either \
         mostly nothing, products up to 36 %, transposed convolutions four times as much\n  help: the intervals allow for 12 %; profile a step of this \
         precision on the device to know",
        step.precision.name()
    )
}

/// Every kind of device once, in the given order.
fn distinct_kinds(words: &[String]) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for word in words {
        let meant: Vec<&str> = if word == EVERY { Platform::names().collect() } else { vec![word] };
        all.extend(meant.into_iter().filter(|word| !all.contains(word)).collect::<Vec<_>>());
    }
    all
}
