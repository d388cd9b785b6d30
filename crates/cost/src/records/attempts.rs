//! `conditions.jsonl`, next to the rows: every run of a worker with the machine's conditions around it, including
//! discarded runs.

use super::record::Outcome;
use super::variant::Variant;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_base::units::Milliseconds;
use perf4sight_machine::Conditions;
use perf4sight_step::workload::Workload;
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The name of the file, next to the folders `latency` and `memory`.
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
    /// The outcome that its row has or would have had.
    pub outcome: Outcome,
    /// The reason not to trust its time; none if there is no such reason.
    pub doubt: Option<String>,
    /// Whether its values went into the rows.
    pub kept: bool,
    /// Its median time.
    pub milliseconds: Option<Milliseconds>,
    /// The conditions that the machine reported.
    #[serde(flatten)]
    pub conditions: Conditions,
}

impl Attempt {
    /// Appends it to the file in `log_dir`, unless it adds nothing to its row.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append(&self, log_dir: &Path) -> Result<()> {
        if self.conditions.is_empty() && self.doubt.is_none() {
            return Ok(());
        }
        let line = serde_json::to_string(self).map_err(std::io::Error::from);
        append(log_dir, line.map(|line| line + "\n"))
    }
}

fn append(log_dir: &Path, lines: std::io::Result<String>) -> Result<()> {
    let file = log_dir.join(CONDITIONS_FILE);
    let append = |lines: String| OpenOptions::new().create(true).append(true).open(&file)?.write_all(lines.as_bytes());
    lines
        .and_then(append)
        .map_err(|cause| Error::io(&file, "append a line", &cause).help("make room or permit writing, then run again"))
}

/// Adds the runs of other folders to those in `log_dir`, each once.
///
/// # Errors
/// A file that cannot be read or written.
pub fn merge_attempts(log_dir: &Path, folders: &[PathBuf]) -> Result<()> {
    let text = |folder: &Path| {
        let text = input_file::text_if_there(&folder.join(CONDITIONS_FILE), "read the conditions")?;
        // A line that a crash cut off has no end.
        Ok::<_, Error>(
            text.unwrap_or_default()
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'))
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
    };
    let there = text(log_dir)?;
    let offered: Vec<Vec<String>> = folders.iter().map(|folder| text(folder)).collect::<Result<_>>()?;
    let new = absent(&there, offered.concat());
    if new.is_empty() { Ok(()) } else { append(log_dir, Ok(new.concat())) }
}

/// The items of `offered` that are not in `there`, counting equal ones.
pub fn absent<T: PartialEq>(there: &[T], offered: Vec<T>) -> Vec<T> {
    let mut unmatched: Vec<&T> = there.iter().collect();
    let mut is_new = |item: &T| match unmatched.iter().position(|known| *known == item) {
        Some(at) => {
            unmatched.swap_remove(at);
            false
        }
        None => true,
    };
    offered.into_iter().filter(|item| is_new(item)).collect()
}
