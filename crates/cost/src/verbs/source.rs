//! What answers: fingerprints of a device that was measured, or what is believed of kinds of devices before that.

use crate::fingerprint::{Fingerprint, Fingerprints};
use perf4sight_base::error::{Error, Result};
use perf4sight_network::zoo::Dataset;
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Changes, Stage, Step};
use perf4sight_verb::config::Values;
use perf4sight_verb::{Context, KeyedPath};
use std::path::PathBuf;

/// What answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The fingerprints in a folder.
    Fingerprint(PathBuf),
    /// What is believed of kinds of devices before anything is measured: known ones by name or [`EVERY`], others by the file that describes
    /// them.
    Targets(Vec<String>),
}

/// What answers of one device, and about which step.
pub(super) struct Device {
    pub fingerprints: Fingerprints,
    pub step: Step,
    /// One that knows nothing of the step, but may of others.
    pub silent: Option<Fingerprint>,
}

/// Stands for all known kinds of devices.
pub const EVERY: &str = "all";

/// What fingerprints must be of, and what of a step is to be another than in those that were profiled.
pub(super) struct Expected<'a> {
    pub stage: Stage,
    pub changes: Changes,
    /// The device, where that matters.
    pub device: Option<&'a str>,
    /// The dataset, where that matters; of what nobody measured the one whose images networks read.
    pub dataset: Option<&'a str>,
}

impl Source {
    /// What the keys `fingerprint`, `target` and `device_name` of a section say: fingerprints, or what is believed of the targets; never both.
    ///
    /// # Errors
    /// Both, or kinds of devices that nobody knows, with their place.
    pub(super) fn parse(values: &Values<'_>, targets: Option<Vec<String>>) -> Result<Self> {
        // An empty list names no device, as if the key were not there.
        let Some(targets) = targets.filter(|targets| !targets.is_empty()) else {
            return Ok(Source::Fingerprint(values.get("fingerprint")?));
        };
        match ["fingerprint", "device_name"].into_iter().find(|key| values.writes(key)) {
            Some(key) => Err(values
                .error("target", format!("{key} is there, too"))
                .expected("either fingerprints of a device that was measured, or target")
                .help(format!("leave out {key}, or target"))),
            None => {
                let source = Source::Targets(targets);
                source.check().map_err(|error| values.located("target", error))?;
                Ok(source)
            }
        }
    }

    /// What answers, of every device asked about, and about which step; at least one.
    ///
    /// # Errors
    /// No fingerprint of that stage, device and dataset; one that cannot be used, or knows nothing of the step; a kind of device that nobody
    /// knows, a file that describes none.
    pub(super) fn devices(&self, expected: &Expected, context: &mut Context) -> Result<Vec<Device>> {
        match self {
            Source::Fingerprint(folder) => {
                let fingerprints = Fingerprints::load(folder, expected.stage)?;
                fingerprints.check(expected.device, expected.dataset)?;
                let step = expected.changes.of(fingerprints.subject().step);
                Ok(vec![told(fingerprints, step, context)?])
            }
            Source::Targets(words) => expected.of_kinds(&each(words), context),
        }
    }

    /// Refuses kinds of devices that nobody knows.
    ///
    /// # Errors
    /// Such a name.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Source::Fingerprint(_) => Ok(()),
            Source::Targets(words) => {
                let mut names = each(words).into_iter().filter(|word| !Platform::is_file(word));
                names.try_for_each(|word| Platform::named(word).map(drop))
            }
        }
    }

    /// Whether it is of one device.
    pub(super) fn is_one(&self) -> bool {
        match self {
            Source::Fingerprint(_) => true,
            Source::Targets(words) => each(words).len() == 1,
        }
    }

    /// What must be there: the folder of the fingerprints, or the files that describe devices.
    pub(super) fn reads(&self) -> Vec<KeyedPath> {
        match self {
            Source::Fingerprint(folder) => vec![KeyedPath { key: "fingerprint", path: folder.clone() }],
            Source::Targets(words) => {
                let files = words.iter().filter(|word| Platform::is_file(word));
                files.map(|word| KeyedPath { key: "target", path: word.into() }).collect()
            }
        }
    }

    /// In the words of an outline.
    pub(super) fn told(&self) -> String {
        match self {
            Source::Fingerprint(folder) => format!("from {}", folder.display()),
            Source::Targets(words) => format!("for {}, of which nothing was measured", words.join(", ")),
        }
    }
}

impl Expected<'_> {
    /// Where several kinds are asked about, those that do not compute with the numbers of the step are named and left out; whatever else is
    /// wrong with one is an error.
    fn of_kinds(&self, words: &[&str], context: &mut Context) -> Result<Vec<Device>> {
        let step = self.changes.of(Step::usual(self.stage));
        let dataset = self.dataset.unwrap_or(Dataset::Imagenet.name());
        let mut devices = Vec::new();
        for word in words {
            let platform = Platform::named_or_read(word)?;
            match platform.check_precision(step.precision) {
                Err(refusal) if words.len() > 1 => context.warn(refusal.to_string()),
                Err(refusal) => return Err(refusal),
                Ok(()) => devices.push(told(Fingerprints::before(word, dataset, step, &platform), step, context)?),
            }
        }
        match devices.is_empty() {
            true => Err(Error::input("none of these devices can be asked about such steps")),
            false => Ok(devices),
        }
    }
}

/// What can be said of a step; what cannot is noted.
fn told(fingerprints: Fingerprints, step: Step, context: &mut Context) -> Result<Device> {
    let (fingerprints, silent) = fingerprints.answering(step)?;
    let silent = silent.map(|(fingerprint, refusal)| {
        context.warn(refusal.to_string());
        fingerprint
    });
    Ok(Device { fingerprints, step, silent })
}

/// Every kind of device once, in the order asked for.
fn each(words: &[String]) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for word in words {
        let meant: Vec<&str> = if word == EVERY { Platform::names().collect() } else { vec![word] };
        all.extend(meant.into_iter().filter(|word| !all.contains(word)).collect::<Vec<_>>());
    }
    all
}
