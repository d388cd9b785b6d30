//! Settings that were measured, kept as soon as each is finished: none is measured twice.

use super::{SettingResult, SweepSetting};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::output_folder::{self, lock_folder};
use perf4sight_base::{atomic_write, input_file};
use perf4sight_machine as machine;
use perf4sight_machine::SampledConditions;
use perf4sight_step::detection::{DetectionReply, DetectionTask, MemoryPeaks};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) const FILE: &str = "measurements.json";
const FORMAT: u32 = 1;
/// Room that is left on the disk before anything is measured, in bytes.
const ROOM: usize = 256 << 10;

/// The stored rows of a folder, which is locked against other writers.
pub(super) struct RowStore {
    folder: PathBuf,
    pub rows: Vec<StoredRow>,
    _held: File,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredRow {
    pub circumstances: Circumstances,
    pub task: DetectionTask,
    /// How often it was measured: disturbed ones are once more.
    pub visits: u32,
    pub outcome: StoredOutcome,
    /// The state of the machine during the measurement.
    #[serde(default, skip_serializing_if = "SampledConditions::is_empty")]
    pub seen: SampledConditions,
    /// Processors of the machine that the training does not compute with; unknown in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors_left: Option<u64>,
    pub date: String,
}

/// The properties that measurements of one setting must share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Circumstances {
    pub place: String,
    pub threads: usize,
    pub mem_limit: Option<u64>,
    pub seed: u64,
    /// The machine, where it was reached over ssh.
    #[serde(default)]
    pub host: Option<String>,
    pub software: machine::MachineProperties,
    /// Checksums of the list of images and of the module of a user's own network, by path; empty for files of another
    /// machine.
    #[serde(default)]
    pub contents: BTreeMap<PathBuf, u32>,
}

/// The result of a setting that is not tried again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredOutcome {
    Measured(Box<perf4sight_step::detection::MeasuredDetection>),
    /// They did not fit.
    OutOfMemory(Option<MemoryPeaks>),
}

#[derive(Serialize, Deserialize)]
struct StoredRows {
    format: u32,
    rows: Vec<StoredRow>,
}

impl RowStore {
    /// Opens a folder, which is created where it does not exist.
    ///
    /// # Errors
    /// A folder that another process writes to, that cannot be written, or whose file has another version.
    pub fn open(folder: &Path) -> Result<Self> {
        output_folder::make(folder)?;
        let held = lock_folder(folder, Duration::ZERO, "wait until it has ended, or choose another folder (out)")?;
        atomic_write::try_folder(folder, ROOM).map_err(|cause| {
            Error::io(folder, "keep measurements here", &cause)
                .help("make room or permit writing, or choose another folder (out)")
        })?;
        Ok(RowStore { rows: read(folder)?, folder: folder.to_owned(), _held: held })
    }

    /// The row of a setting, if it was measured with the same task.
    pub fn row(&self, circumstances: &Circumstances, task: &DetectionTask) -> Option<&StoredRow> {
        self.rows.iter().find(|row| row.is_of(circumstances, task))
    }

    /// Stores a row in place of the earlier row of its setting.
    pub fn keep(&mut self, row: StoredRow) -> Result<()> {
        self.rows.retain(|known| !known.is_of(&row.circumstances, &row.task));
        self.rows.push(row);
        let kept = StoredRows { format: FORMAT, rows: std::mem::take(&mut self.rows) };
        let text = serde_json::to_string(&kept);
        self.rows = kept.rows;
        let text = text.map_err(|cause| Error::device(format!("measurements cannot be written: {cause}")))?;
        atomic_write::save(&self.folder.join(FILE), text + "\n")
    }
}

/// The rows of a folder; none where nothing was measured yet.
///
/// # Errors
/// A file that cannot be read, or is of another version.
pub(super) fn read(folder: &Path) -> Result<Vec<StoredRow>> {
    let file = folder.join(FILE);
    let Some(text) = input_file::text_if_there(&file, "read what was measured")? else { return Ok(Vec::new()) };
    let unread = |what: String| {
        Error::input(what)
            .file(&file)
            .expected("what perf4sight detection wrote")
            .help("choose another folder (out), or remove this file")
    };
    let kept: StoredRows =
        serde_json::from_str(&text).map_err(|cause| unread(format!("these measurements cannot be read: {cause}")))?;
    if kept.format != FORMAT {
        return Err(unread(format!("measurements of format {} instead of {FORMAT}", kept.format)));
    }
    for row in &kept.rows {
        if let StoredOutcome::Measured(measured) = &row.outcome {
            measured.check().map_err(|impossible| unread(format!("these measurements are damaged: {impossible}")))?;
        }
    }
    Ok(kept.rows)
}

impl StoredRow {
    pub fn to_result(&self, setting: SweepSetting) -> SettingResult {
        match &self.outcome {
            StoredOutcome::Measured(measured) => {
                SettingResult::from_measured((**measured).clone(), setting, self.seen.clone())
            }
            StoredOutcome::OutOfMemory(memory) => SettingResult::OutOfMemory(*memory),
        }
    }

    /// Whether it is of this task, on whatever machine.
    pub fn is_of_task(&self, task: &DetectionTask) -> bool {
        // A trace next to it does not change the measurement.
        let untraced = |task: &DetectionTask| DetectionTask { trace: None, ..task.clone() };
        untraced(&self.task) == untraced(task)
    }

    fn is_of(&self, circumstances: &Circumstances, task: &DetectionTask) -> bool {
        self.circumstances == *circumstances && self.is_of_task(task)
    }
}

impl Circumstances {
    /// The facts that two machines must share for their measurements to be compared.
    pub fn setting(&self) -> machine::MachineProperties {
        let own = [
            ("place", self.place.clone()),
            ("threads", self.threads.to_string()),
            ("contents", format!("{:?}", self.contents)),
        ];
        self.software.clone().into_iter().chain(own.map(|(name, fact)| (name.to_owned(), fact))).collect()
    }
}

impl StoredOutcome {
    /// The part of a reply that is stored; none for a failure, which is tried again.
    pub fn from_reply(reply: DetectionReply) -> std::result::Result<Self, String> {
        match reply {
            DetectionReply::Measured(measured) => match measured.check() {
                Ok(()) => Ok(StoredOutcome::Measured(measured)),
                Err(impossible) => Err(impossible.to_string()),
            },
            DetectionReply::OutOfMemory { memory } => Ok(StoredOutcome::OutOfMemory(memory)),
            DetectionReply::Failed { reason } => Err(reason),
        }
    }

    /// How many of the free steps others disturbed.
    pub fn disturbed_steps(&self) -> u64 {
        match self {
            StoredOutcome::Measured(measured) => measured.plain.disturbed,
            StoredOutcome::OutOfMemory(_) => 0,
        }
    }
}
