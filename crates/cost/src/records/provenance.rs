//! Where the rows of a profile come from: the JSON beside them, and whether more rows may follow.

use perf4sight_base::atomic_write;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_machine::{Conditions, Setting, differences};
use perf4sight_step::workload::{Quantity, Stage};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The name of the file, beside the folders `latency` and `memory`.
pub const PROVENANCE_FILE: &str = "provenance.json";

/// Under what circumstances the rows of one profile were measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// What all rows have in common: device, processor, memory, threads, software versions, by name.
    pub setting: Setting,
    /// The runs that added rows, oldest first.
    pub runs: Vec<Run>,
}

/// One run that added rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// When it began, in RFC 3339.
    pub date: String,
    /// Seconds its configurations took.
    pub seconds: f64,
    /// Seconds of them that the device spent in steps; the rest is start-up and bookkeeping. Zero where it was not counted.
    #[serde(default)]
    pub measuring: f64,
    /// Seconds beyond them that its configurations waited: for other measurements on the machine, for a board that was lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waiting: f64,
    /// Rows it added.
    pub rows: usize,
    /// How good the rows were estimated to be as they came, where the plan goes by that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learned: Vec<Learned>,
    /// How far the repetitions of its rows lay apart, where there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visits: Option<Repeatability>,
    /// Its seed.
    pub seed: u64,
    /// Clocks and temperatures at its first measurement's start and its last one's end, where the device tells them.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
    /// The configuration in force.
    pub config: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// How far repeated measurements of the same step lay from each other: how well the machine could be measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Repeatability {
    /// Rows measured twice or more, those of earlier runs included.
    pub rows: usize,
    /// Rows measured once, because time was over.
    pub single: usize,
    /// Rows measured more than twice, because they disagreed or were not what the other rows let expect.
    pub more: usize,
    /// Rows whose time is marked as doubtful.
    pub marked: usize,
    /// Median of the rows' spreads: half of what the next time took longer than the quickest, relative to it.
    pub median: f64,
    /// The spread that nine rows of ten do not exceed.
    pub most: f64,
}

/// What the rows of a profile were estimated to be worth at one point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// Configurations measured until then.
    pub measured: usize,
    /// Seconds they took.
    pub seconds: f64,
    /// Training or inference.
    pub stage: Stage,
    /// Latency or memory.
    pub quantity: Quantity,
    /// Mean absolute percentage error for what was left out of the fit.
    pub error: f64,
}

impl Provenance {
    /// The provenance of the profile in `log_dir`, if it has one.
    ///
    /// # Errors
    /// A file that cannot be read or is not what [`Provenance::save`] writes.
    pub fn load(log_dir: &Path) -> Result<Option<Self>> {
        let file = log_dir.join(PROVENANCE_FILE);
        let Some(text) = input_file::text_if_there(&file, "read the provenance")? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|cause| {
            Error::input(format!("the provenance cannot be understood: {cause}"))
                .file(&file)
                .line(cause.line())
                .help("restore the file, or profile into a new log_dir")
        })
    }

    /// Writes it beside the rows; a crash leaves the old file or the new one, never half of it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, log_dir: &Path) -> Result<()> {
        let file = log_dir.join(PROVENANCE_FILE);
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::from);
        let text = text.map_err(|cause| Error::io(&file, "write the provenance", &cause))?;
        atomic_write::save(&file, text + "\n")
    }

    /// Refuses to continue rows that were measured under another setting.
    ///
    /// # Errors
    /// When `now` differs: what differs, and how to start anew.
    pub fn check_continues(&self, now: &Setting, log_dir: &Path) -> Result<()> {
        let differences = differences(&self.setting, now);
        if differences.is_empty() {
            return Ok(());
        }
        Err(Error::input(format!("the rows here were measured under another setting: {}", differences.join("; ")))
            .file(log_dir.join(PROVENANCE_FILE))
            .help(format!("start anew with another device_name or log_dir, or move {} away", log_dir.display())))
    }
}
