//! `conditions.jsonl` beside the rows: every run of a worker with what the machine told around it, those that were left out too.

use super::record::Outcome;
use super::variant::Variant;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Milliseconds;
use perf4sight_machine::Conditions;
use perf4sight_step::workload::Workload;
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// The name of the file, beside the folders `latency` and `memory`.
pub const CONDITIONS_FILE: &str = "conditions.jsonl";

/// One run of a worker, as one line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attempt {
    /// The network at its level.
    #[serde(flatten)]
    pub variant: Variant,
    /// Stage and batch size.
    #[serde(flatten)]
    pub workload: Workload,
    /// The word that its row has or would have had.
    pub outcome: Outcome,
    /// Why its time is not to be trusted; none where nothing speaks against it.
    pub doubt: Option<String>,
    /// Whether its values went into the rows.
    pub kept: bool,
    /// Its median time.
    pub milliseconds: Option<Milliseconds>,
    /// What the machine told.
    #[serde(flatten)]
    pub conditions: Conditions,
}

impl Attempt {
    /// Appends it to the file in `log_dir`, where it says more than its row does.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append(&self, log_dir: &Path) -> Result<()> {
        if self.conditions.is_empty() && self.doubt.is_none() {
            return Ok(());
        }
        let file = log_dir.join(CONDITIONS_FILE);
        let line = serde_json::to_string(self).map_err(std::io::Error::from);
        let append = |line: String| {
            let mut file = OpenOptions::new().create(true).append(true).open(&file)?;
            file.write_all((line + "\n").as_bytes())
        };
        line.and_then(append).map_err(|cause| {
            Error::io(&file, "append a line", &cause).help("make room or permit writing, then run again")
        })
    }
}
