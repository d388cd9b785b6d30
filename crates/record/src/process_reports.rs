//! Reports of recorded processes: while they run, and in the files next to their traces.

use crate::Recording;
use perf4sight_base::error::Result;
use perf4sight_traces::{RECORDING, recording_of};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

const TRACE: &str = ".json.gz";

/// The files of a process that is alone.
pub(super) const FIRST: [&str; 2] = ["rank0.json.gz", "rank0.recording.json"];

/// The report of one Python process while it runs; any field may still be missing.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct ProcessReport {
    /// The version of PyTorch, `missing`, or none if the script never imported it.
    pub torch: Option<String>,
    /// The calls or marks that delimit iterations; none if no iteration was seen.
    pub iterations_are: Option<String>,
    pub phase: Option<RecorderPhase>,
    /// The number of iterations left before the first that counts.
    pub to_go: u64,
    /// The number of iterations that were timed or recorded.
    pub done: u64,
    /// The number of iterations to time or record.
    pub of: u64,
    pub recorded: u64,
    /// The number of iterations before the first recorded one.
    pub before_recorded: u64,
    /// The number of iterations that ended since counting began, reported at the end.
    pub ended: u64,
    /// How often counting began anew because something else marks iterations.
    pub restarts: u64,
    /// The number of iterations that were not recorded because the script's own profiler was running.
    pub own_profiler: u64,
    pub trace: Option<String>,
    /// Seconds in which the script stood still because what was recorded was written.
    pub writing_seconds: f64,
    pub problem: Option<String>,
    /// Whether the error is an I/O error, such as a full disk.
    pub unwritten: bool,
    /// The path of the Python interpreter.
    pub executable: String,
    pub python: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RecorderPhase {
    WarmUp,
    Iterations,
    Writing,
    Finished,
}

/// Reads the reports that the processes have written so far, ordered by process number, which is mostly the order of
/// start.
pub(super) fn read(folder: &Path) -> Vec<ProcessReport> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.retain(|file| is_of_process(file));
    files.sort();
    // A process may be replacing its report; the next call finds it.
    files.iter().filter_map(|file| serde_json::from_slice(&fs::read(file).ok()?).ok()).collect()
}

/// Whether a file is named by a process number. Unfinished traces are stored next to these reports and may be a
/// gigabyte.
fn is_of_process(file: &Path) -> bool {
    let stem = file.file_name().and_then(|name| name.to_str()?.strip_suffix(".json"));
    stem.is_some_and(|stem| stem.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Traces and the recordings next to them in a folder, by name.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|file| is_named_so(file)).collect();
    files.sort();
    files
}

/// Whether a file has the name of a trace or of a recording.
pub(super) fn is_named_so(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("rank") && (name.ends_with(TRACE) || name.ends_with(RECORDING))
}

/// Whether a recorder wrote a file, by its content: of a trace, by that of the recording next to it.
pub(super) fn is_own(file: &Path) -> bool {
    let recording = if is_recording(file) { Some(file.to_owned()) } else { recording_of(file) };
    recording.is_some_and(|recording| Recording::is_own(&recording))
}

pub(super) fn is_recording(file: &Path) -> bool {
    file.to_string_lossy().ends_with(RECORDING)
}

/// The recordings in a folder, by rank.
///
/// # Errors
/// A file that is not a recording in a supported format.
pub(super) fn recordings(folder: &Path) -> Result<Vec<Recording>> {
    let mut all: Vec<Recording> = files(folder)
        .iter()
        .filter(|file| is_recording(file))
        .map(|file| Recording::read(file))
        .collect::<Result<_>>()?;
    all.sort_by(|a, b| (a.rank, &a.trace).cmp(&(b.rank, &b.trace)));
    Ok(all)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // in a test it is the assertion
mod tests {
    use super::*;

    /// Parts of a trace are not reports, although a report without any field is valid. Reading them twice a second once
    /// took half a processor.
    #[test]
    fn pieces_of_traces_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("12.json", r#"{"done": 3}"#), ("12.0.trace.json", r#"{"traceEvents": []}"#)] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let done: Vec<u64> = read(folder.path()).iter().map(|report| report.done).collect();
        assert_eq!(done, [3]);
    }
}
