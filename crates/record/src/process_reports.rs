//! What processes tell: while they run, and in the files beside their traces.

use crate::Recording;
use perf4sight_base::error::Result;
use perf4sight_base::stats::mean;
use perf4sight_traces::RECORDING;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// What traces end in.
const TRACE: &str = ".json.gz";

/// What one process with Python tells while it runs; every word may be missing yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct ProcessReport {
    /// The version of PyTorch, `missing`, or nothing where the script never asked for it.
    pub torch: Option<String>,
    /// What marks iterations; nothing where none was seen.
    pub iterations_are: Option<String>,
    /// What is done now.
    pub phase: Option<Phase>,
    /// How many iterations there are yet before the first that counts.
    pub to_go: u64,
    /// How many iterations were timed or recorded.
    pub done: u64,
    /// How many are to be.
    pub of: u64,
    /// How many of them were recorded, for all that is known.
    pub recorded: u64,
    /// How many iterations come before the first that is recorded.
    pub before_recorded: u64,
    /// How many iterations were left alone, for the script's own profiler ran in them.
    pub own_profiler: u64,
    /// The trace that was written.
    pub trace: Option<String>,
    /// What failed.
    pub problem: Option<String>,
    /// Whether that was reading or writing, as where a disk is full.
    pub unwritten: bool,
    /// The Python.
    pub executable: String,
    /// Its version.
    pub python: String,
}

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    WarmUp,
    Iterations,
    Writing,
    Finished,
}

/// The mean of times in nanoseconds.
pub(super) fn average(periods: &[Vec<u64>]) -> Option<f64> {
    let times: Vec<f64> = periods.iter().flatten().map(|&time| time as f64).collect();
    (!times.is_empty()).then(|| mean(&times))
}

/// What the processes told until now, those that began earlier first as far as their numbers say so.
pub(super) fn read(folder: &Path) -> Vec<ProcessReport> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.retain(|file| is_of_process(file));
    files.sort();
    // A process may be about to replace what it told; the next look finds it.
    files.iter().filter_map(|file| serde_json::from_slice(&fs::read(file).ok()?).ok()).collect()
}

/// Whether a file is named by the number of a process: what is recorded lies beside these until it is written, and may be a gigabyte.
fn is_of_process(file: &Path) -> bool {
    let stem = file.file_name().and_then(|name| name.to_str()?.strip_suffix(".json"));
    stem.is_some_and(|stem| stem.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Traces and what lies beside them in a folder, by name.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let ours = |file: &PathBuf| {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("rank") && (name.ends_with(TRACE) || name.ends_with(RECORDING))
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(ours).collect();
    files.sort();
    files
}

/// Whether a file tells of a trace, and is none.
pub(super) fn tells(file: &Path) -> bool {
    file.to_string_lossy().ends_with(RECORDING)
}

/// The recordings in a folder, by rank.
///
/// # Errors
/// A file that is no recording of a known format.
pub(super) fn recordings(folder: &Path) -> Result<Vec<Recording>> {
    let mut all: Vec<Recording> =
        files(folder).iter().filter(|file| tells(file)).map(|file| Recording::read(file)).collect::<Result<_>>()?;
    all.sort_by(|a, b| (a.rank, &a.trace).cmp(&(b.rank, &b.trace)));
    Ok(all)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // in a test it is the assertion
mod tests {
    use super::*;

    /// Pieces of a trace are no processes, though every word of these may be missing; looking at them twice a second once took half a
    /// processor.
    #[test]
    fn pieces_of_traces_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("12.json", r#"{"done": 3}"#), ("12.0.trace.json", r#"{"traceEvents": []}"#)] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let done: Vec<u64> = read(folder.path()).iter().map(|told| told.done).collect();
        assert_eq!(done, [3]);
    }
}
