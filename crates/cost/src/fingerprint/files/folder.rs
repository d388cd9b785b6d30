//! The fingerprints of one folder and stage: latency, memory or both.

use super::file::file_name;
use crate::fingerprint::rows::{FailedAttempt, MeasuredRow};
use crate::fingerprint::{Fingerprint, FingerprintSubject};
use crate::records::RowRecord;
use perf4sight_base::error::{Error, Result};
use perf4sight_network::Network;
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Quantity, Stage, Step};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The smallest batch worth measuring: batch normalisation cannot train on a single sample without spatial axes.
const SMALLEST: u64 = 2;

/// The fingerprints that `[fingerprint]` stored for one device, dataset and stage; at least one of the two.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceFingerprints {
    folder: PathBuf,
    /// Predicts the time of a step.
    pub latency: Option<Fingerprint>,
    /// Predicts the memory of a step, and whether it fits.
    pub memory: Option<Fingerprint>,
}

impl DeviceFingerprints {
    /// Loads those of a stage: from a folder, from the only one below it with fingerprints, or from the folder of a
    /// fingerprint's file.
    ///
    /// # Errors
    /// The folder has none, or several folders below it do; a file is no fingerprint of the stage, or cannot be used;
    /// the files are of two devices or datasets.
    pub fn load(path: &Path, stage: Stage) -> Result<Self> {
        fs::metadata(path).map_err(|cause| missing(path, &cause))?;
        let folder = locate_folder(path, stage)?;
        let load = |quantity| Fingerprint::load(&folder, stage, quantity);
        let (latency, memory) = (load(Quantity::Latency)?, load(Quantity::Memory)?);
        let found = DeviceFingerprints { folder, latency, memory };
        if found.iter().next().is_none() {
            return Err(no_fingerprint(path, stage));
        }
        let FingerprintSubject { device, dataset, .. } = found.subject();
        found.check(Some(device), Some(dataset))?;
        Ok(found)
    }

    /// The priors of a device with this name, before any measurement on it, without a folder; networks read the
    /// images of `dataset`.
    pub fn priors(device: &str, dataset: &str, step: Step, platform: &Platform) -> Self {
        let of = |quantity| {
            let subject = FingerprintSubject { device: device.to_owned(), dataset: dataset.to_owned(), step, quantity };
            Some(Fingerprint::prior(subject, platform))
        };
        DeviceFingerprints { folder: PathBuf::new(), latency: of(Quantity::Latency), memory: of(Quantity::Memory) }
    }

    /// Those that can predict a step, and one that cannot, with the reason.
    ///
    /// # Errors
    /// None of them can.
    pub fn answering(self, step: Step) -> Result<(Self, Option<(Fingerprint, Error)>)> {
        let refused = |one: &Fingerprint| one.check_step(step).err();
        let DeviceFingerprints { latency, memory, .. } = &self;
        match (latency.as_ref().and_then(refused), memory.as_ref().and_then(refused)) {
            (None, None) => Ok((self, None)),
            (Some(refusal), None) if memory.is_some() => {
                let silent = self.latency.map(|latency| (latency, refusal));
                Ok((DeviceFingerprints { latency: None, ..self }, silent))
            }
            (None, Some(refusal)) if latency.is_some() => {
                let silent = self.memory.map(|memory| (memory, refusal));
                Ok((DeviceFingerprints { memory: None, ..self }, silent))
            }
            (Some(refusal), _) | (None, Some(refusal)) => Err(refusal),
        }
    }

    /// Their folder; empty where nothing was measured.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether they rest on no measurement.
    pub fn are_priors(&self) -> bool {
        self.iter().all(Fingerprint::is_prior)
    }

    /// Their subject; each has its own quantity.
    pub fn subject(&self) -> &FingerprintSubject {
        self.iter().next().expect("there is one, or loading had failed").subject()
    }

    /// Latency before memory.
    pub fn iter(&self) -> impl Iterator<Item = &Fingerprint> {
        self.latency.iter().chain(&self.memory)
    }

    /// Refuses fingerprints of another device or dataset than the requested one.
    ///
    /// # Errors
    /// They are of another one; the message names it.
    pub fn check(&self, device: Option<&str>, dataset: Option<&str>) -> Result<()> {
        self.iter().map(Fingerprint::subject).try_for_each(|subject| {
            self.check_word(subject, "device", &subject.device, device)?;
            self.check_word(subject, "dataset", &subject.dataset, dataset)
        })
    }

    /// Both refitted with the rows of their quantity, and with the steps that did not fit
    /// ([`Fingerprint::calibrate`]); one without any is unchanged.
    ///
    /// # Errors
    /// As [`Fingerprint::calibrate`].
    pub fn calibrate(&self, rows: &[MeasuredRow], failed: &[FailedAttempt]) -> Result<Self> {
        let refitted = |fingerprint: &Fingerprint| {
            let is_own = |record: &RowRecord| record.quantity() == fingerprint.subject().quantity;
            let rows: Vec<MeasuredRow> = rows.iter().filter(|row| is_own(&row.record)).cloned().collect();
            let failed: Vec<FailedAttempt> = failed.iter().filter(|attempt| is_own(&attempt.record)).cloned().collect();
            match rows.is_empty() && failed.is_empty() {
                true => Ok(fingerprint.clone()),
                false => fingerprint.calibrate(&rows, &failed),
            }
        };
        let latency = self.latency.as_ref().map(refitted).transpose()?;
        let memory = self.memory.as_ref().map(refitted).transpose()?;
        Ok(DeviceFingerprints { folder: self.folder.clone(), latency, memory })
    }

    /// Batch sizes of a new network worth measuring: the smallest shows the fixed cost of a step, the largest
    /// profiled one that safely fits shows the cost of a sample.
    pub fn worth_measuring(&self, network: &Network) -> Vec<u64> {
        let profiled = self.iter().map(Fingerprint::largest_batch).max().unwrap_or(SMALLEST);
        let safe = self.memory.as_ref().and_then(|memory| memory.about(network).max_batch()).map(|max| max.safe);
        match profiled.min(safe.unwrap_or(profiled)) {
            0 | 1 => vec![1],
            SMALLEST => vec![SMALLEST],
            largest => vec![SMALLEST, largest],
        }
    }

    fn check_word(&self, subject: &FingerprintSubject, what: &str, found: &str, asked: Option<&str>) -> Result<()> {
        match asked {
            Some(asked) if asked != found => {
                let file = self.folder.join(file_name(subject.step.stage, subject.quantity));
                Err(Error::input(format!("this fingerprint is of the {what} {found}"))
                    .file(file)
                    .expected(format!("a fingerprint of the {what} {asked}"))
                    .help(format!("name the folder that holds the fingerprints of {asked}, or ask for {found}")))
            }
            _ => Ok(()),
        }
    }
}

fn locate_folder(path: &Path, stage: Stage) -> Result<PathBuf> {
    let names = Quantity::ALL.map(|quantity| file_name(stage, quantity));
    if path.is_file() {
        let is_one = path.file_name().is_some_and(|name| names.iter().any(|known| name == known.as_str()));
        let folder = path.parent().filter(|_| is_one).map(Path::to_owned);
        return folder.ok_or_else(|| {
            Error::input(format!("this file is not a fingerprint of {stage}"))
                .file(path)
                .expected(names.join(" or "))
                .help("name the folder that [fingerprint] wrote (model_storedir), and what was fitted (stage)")
        });
    }
    if names.iter().any(|name| path.join(name).exists()) {
        return Ok(path.to_owned());
    }
    match stored_folders(path, &names).as_slice() {
        [] => Ok(path.to_owned()),
        [only] => Ok(only.clone()),
        several => {
            let several: Vec<String> = several.iter().map(|folder| folder.display().to_string()).collect();
            Err(Error::input(format!("{} folders below this one hold fingerprints of {stage}", several.len()))
                .file(path)
                .expected("one of them")
                .help(format!("name one of {}", several.join(", "))))
        }
    }
}

fn stored_folders(folder: &Path, names: &[String]) -> Vec<PathBuf> {
    let folder = glob::Pattern::escape(&folder.to_string_lossy());
    let files = names.iter().filter_map(|name| glob::glob(&format!("{folder}/*/**/{name}")).ok()).flatten();
    let mut folders: Vec<PathBuf> = files.filter_map(|file| Some(file.ok()?.parent()?.to_owned())).collect();
    folders.sort_unstable();
    folders.dedup();
    folders
}

fn missing(path: &Path, cause: &io::Error) -> Error {
    let folder = "the folder that [fingerprint] wrote (model_storedir)";
    match cause.kind() {
        io::ErrorKind::NotFound => Error::io(path, "look for a fingerprint here, for it does not exist", cause),
        _ => Error::io(path, "look for a fingerprint here", cause),
    }
    .expected(folder)
    .help("perf4sight fingerprints lists those below a folder")
}

fn no_fingerprint(folder: &Path, stage: Stage) -> Error {
    Error::input(format!("there is no fingerprint of {stage} here"))
        .file(folder)
        .expected(Quantity::ALL.map(|quantity| file_name(stage, quantity)).join(" or "))
        .help("name the folder that [fingerprint] wrote (model_storedir), or the stage that was fitted")
}
