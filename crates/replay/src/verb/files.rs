//! The files of a replay, which replace those of an earlier one together.

use super::json::FORMAT;
use perf4sight_base::error::Result;
use perf4sight_base::result_files::{ResultFiles, Results};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fs;
use std::io::BufReader;
use std::path::Path;

/// The file that identifies a folder as one of a replay.
pub(super) const JSON: &str = "replay.json";
pub(super) const CSV: &str = "replay.csv";
pub(super) const OPERATIONS: &str = "operations.csv";
pub(super) const TIMELINE: &str = "timeline.json.gz";
/// Other verbs write a file of the same name.
pub(super) const REPORT: &str = "report.html";

/// An empty list of files.
///
/// # Errors
/// A folder in which a file would be replaced that is an input, or that is not from an earlier replay.
pub(super) fn new<'a>(out: &Path, inputs: impl Iterator<Item = &'a Path>) -> Result<ResultFiles> {
    let results = Results {
        mark: JSON,
        unfinished: ".replay.",
        is_ours: is_replay,
        replaces_input: "a trace has the name of a file that the replay writes",
        names: [JSON, CSV, OPERATIONS, TIMELINE, REPORT].map(str::to_owned).to_vec(),
    };
    ResultFiles::new(out, results, inputs)
}

/// The top level of `replay.json`.
#[derive(Deserialize)]
struct Head {
    format: u32,
    #[serde(rename = "who_waits_for_whom")]
    _waiting: Vec<IgnoredAny>,
    #[serde(rename = "warnings")]
    _warnings: Vec<IgnoredAny>,
}

fn is_replay(file: &Path) -> bool {
    let head = fs::File::open(file).map(BufReader::new).map(serde_json::from_reader::<_, Head>);
    matches!(head, Ok(Ok(Head { format: 1..=FORMAT, .. })))
}
