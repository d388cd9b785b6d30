//! The files of a breakdown, which replace those of an earlier breakdown together.

use super::json::FORMAT;
use super::published;
use perf4sight_base::error::Result;
use perf4sight_base::result_files::{ResultFiles, ResultNames};
use std::path::Path;

/// The file that identifies a folder as one of a breakdown.
const MARK: &str = perf4sight_traces::BREAKDOWN;
/// The report. Other verbs write a file of the same name.
const REPORT: &str = "report.html";
/// The other files, in addition to those of the published toolkit.
const OTHERS: [&str; 2] = ["breakdown.csv", "stacks.folded"];

/// The names of all files.
pub(super) fn names() -> impl Iterator<Item = String> {
    [MARK, REPORT].into_iter().chain(OTHERS).map(str::to_owned).chain(published::names())
}

pub(super) fn new<'a>(out: &Path, inputs: impl Iterator<Item = &'a Path>) -> Result<ResultFiles> {
    let results = ResultNames {
        mark: MARK,
        unfinished: ".breakdown.",
        format: FORMAT,
        lists: ["ranks", "warnings"],
        replaces_input: "an input would be replaced by a file of the breakdown",
        names: names().collect(),
    };
    ResultFiles::new(out, results, inputs)
}
