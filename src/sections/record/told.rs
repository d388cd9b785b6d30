//! What processes tell: while they run, and in the files beside their traces.

use crate::error::{Error, Result};
use crate::input_file;
use crate::stats::median;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// What files beside traces end in.
pub(super) const RECORDING: &str = ".recording.json";
/// What traces end in.
const TRACE: &str = ".json.gz";
/// The newest format of the files beside traces.
const FORMAT: u32 = 1;

/// What one process with Python tells while it runs; every word may be missing yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Told {
    /// The version of PyTorch, `missing`, or nothing where the script never asked for it.
    pub torch: Option<String>,
    /// What marks iterations; nothing where none was seen.
    pub iterations_are: Option<String>,
    /// What is done now.
    pub phase: Option<Phase>,
    /// How many iterations of the phase are done; those that lead to it count down to zero.
    pub done: i64,
    /// How many iterations the phase has.
    pub of: u64,
    /// The trace that was written.
    pub trace: Option<String>,
    /// What failed.
    pub problem: Option<String>,
    /// The Python.
    pub executable: String,
}

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    PlainBefore,
    Recorded,
    PlainAfter,
    Writing,
    Finished,
}

/// The file beside a trace, as far as it is shown.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Recording {
    pub format: u32,
    pub trace: String,
    pub rank: u32,
    pub iterations_are: String,
    /// Whether the trace has more than operators.
    pub kineto: bool,
    /// Nanoseconds of each iteration.
    pub plain_before: Vec<u64>,
    pub recorded: Vec<u64>,
    pub plain_after: Vec<u64>,
}

impl Recording {
    /// How much longer a recorded iteration took, in percent, by medians; none where those without recording, before or after, took no
    /// less, as on a machine that others use: then it cannot be told.
    pub fn cost(&self) -> Option<f64> {
        let recorded = middle(&self.recorded)?;
        let slower =
            [&self.plain_before, &self.plain_after].into_iter().filter_map(|plain| middle(plain)).reduce(f64::max)?;
        let plain = middle(&self.plain())?;
        (recorded > slower).then(|| 100.0 * (recorded / plain - 1.0))
    }

    /// Nanoseconds of the iterations without recording.
    pub fn plain(&self) -> Vec<u64> {
        self.plain_before.iter().chain(&self.plain_after).copied().collect()
    }
}

/// The median in milliseconds of times in nanoseconds.
pub(super) fn middle(times: &[u64]) -> Option<f64> {
    let times: Vec<f64> = times.iter().map(|&time| time as f64 / 1e6).collect();
    (!times.is_empty()).then(|| median(&times))
}

/// What the processes told until now, those that began earlier first as far as their numbers say so.
pub(super) fn read(folder: &Path) -> Vec<Told> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "json"));
    files.sort();
    // A process may be about to replace what it told; the next look finds it.
    files.iter().filter_map(|file| serde_json::from_slice(&fs::read(file).ok()?).ok()).collect()
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

/// The recordings in a folder, by rank.
///
/// # Errors
/// A file that is no recording of a known format.
pub(super) fn recordings(folder: &Path) -> Result<Vec<Recording>> {
    let beside = |file: &PathBuf| file.to_string_lossy().ends_with(RECORDING);
    let mut all: Vec<Recording> =
        files(folder).iter().filter(|file| beside(file)).map(|file| recording(file)).collect::<Result<_>>()?;
    all.sort_by(|a, b| (a.rank, &a.trace).cmp(&(b.rank, &b.trace)));
    Ok(all)
}

fn recording(file: &Path) -> Result<Recording> {
    let text = input_file::text(file, "read this recording")?;
    let wrong = |problem: String| Error::input(problem).file(file).help("record again");
    let recording: Recording =
        serde_json::from_str(&text).map_err(|cause| wrong(format!("tells of no recording: {cause}")))?;
    match recording.format {
        1..=FORMAT => Ok(recording),
        other => Err(wrong(format!("has format {other}")).expected(format!("format {FORMAT} or earlier"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_recording_costs_is_told_only_where_it_took_longer_than_before_and_after() {
        let recording = |before: u64, after: u64| Recording {
            format: FORMAT,
            trace: String::new(),
            rank: 0,
            iterations_are: String::new(),
            kineto: true,
            plain_before: vec![before; 3],
            recorded: vec![120; 3],
            plain_after: vec![after; 3],
        };
        // 120 beside 100 is a fifth more.
        assert!((recording(100, 100).cost().unwrap() - 20.0).abs() < 1e-9);
        assert_eq!([recording(100, 130).cost(), recording(130, 100).cost()], [None; 2]);
    }
}
