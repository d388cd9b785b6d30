//! The files of a replay, which replace those of an earlier one together.

use super::json::FORMAT;
use perf4sight_base::error::Result;
use perf4sight_base::result_files::{ResultFiles, ResultNames};
use std::path::Path;

/// The file that identifies a folder as one of a replay.
pub(super) const JSON: &str = "replay.json";
pub(super) const CSV: &str = "replay.csv";
pub(super) const OPERATIONS: &str = "operations.csv";
pub(super) const TIMELINE: &str = "timeline.json.gz";
/// Other verbs write a file of the same name.
pub(super) const REPORT: &str = "report.html";

/// All of them.
pub(super) const NAMES: [&str; 5] = [JSON, CSV, OPERATIONS, TIMELINE, REPORT];

/// An empty list of files.
///
/// # Errors
/// A folder in which a file would be replaced that is an input, or that is not from an earlier replay.
pub(super) fn new<'a>(out: &Path, inputs: impl Iterator<Item = &'a Path>) -> Result<ResultFiles> {
    let results = ResultNames {
        mark: JSON,
        unfinished: ".replay.",
        format: FORMAT,
        lists: ["who_waits_for_whom", "warnings"],
        replaces_input: "a trace has the name of a file that the replay writes",
        names: NAMES.map(str::to_owned).to_vec(),
    };
    ResultFiles::new(out, results, inputs)
}
