//! `conditions.jsonl`, next to the rows: every run of a worker with the machine's conditions around it, including
//! discarded runs.

use super::record::MeasurementOutcome;
use super::variant::Variant;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_base::units::Milliseconds;
use perf4sight_machine::Conditions;
use perf4sight_step::workload::Workload;
use serde::Serialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The name of the file, next to the folders `latency` and `memory`.
pub const CONDITIONS_FILE: &str = "conditions.jsonl";

/// One run of a worker, as one line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkerRun {
    /// The network at its level.
    #[serde(flatten)]
    pub variant: Variant,
    /// Stage and batch size.
    #[serde(flatten)]
    pub workload: Workload,
    /// The outcome that its row has or would have had.
    pub outcome: MeasurementOutcome,
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

/// Refuses a file of that name that holds anything else, to which lines would otherwise be appended.
///
/// # Errors
/// Such a file, with the line; one that cannot be read.
pub fn check_conditions(log_dir: &Path) -> Result<()> {
    let file = log_dir.join(CONDITIONS_FILE);
    // A folder that cannot be there is refused by who makes it.
    if !file.exists() {
        return Ok(());
    }
    let text = input_file::text(&file, "read the conditions of earlier runs")?;
    let is_attempt = |line: &str| {
        let fields: Option<BTreeMap<String, IgnoredAny>> = serde_json::from_str(line).ok();
        fields.is_some_and(|fields| ["network", "outcome"].iter().all(|field| fields.contains_key(*field)))
    };
    // A crash may have cut off the last line.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let odd =
        if whole.is_empty() && !text.is_empty() { Some(0) } else { whole.lines().position(|line| !is_attempt(line)) };
    odd.map_or(Ok(()), |line| {
        Err(Error::input("this line is not of a run of a worker, so nothing can be appended to this file")
            .file(file)
            .line(line + 1)
            .expected("lines of JSON with \"network\" and \"outcome\", as a profile writes them")
            .help("move the file away, or set another log_dir"))
    })
}

impl WorkerRun {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_runs_are_added_to() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join(CONDITIONS_FILE);
        assert!(check_conditions(folder.path()).is_ok());
        let run = r#"{"network": "resnet18", "level": 0, "outcome": "measured"}"#;
        // The last one was cut off by a crash.
        for good in [String::new(), format!("{run}\n"), format!("{run}\n{run}\n{{\"netw")] {
            std::fs::write(&file, &good).unwrap();
            assert!(check_conditions(folder.path()).is_ok(), "{good}");
        }
        for (line, other) in [(1, "notes\n".to_owned()), (1, "notes".to_owned()), (2, format!("{run}\n[1, 2]\n"))] {
            std::fs::write(&file, &other).unwrap();
            let refused = check_conditions(folder.path()).unwrap_err().to_string();
            assert!(
                refused.contains(&format!("{CONDITIONS_FILE}:{line}:")) && refused.contains("move the file"),
                "{refused}"
            );
        }
    }
}
