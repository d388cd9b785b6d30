//! The files of a breakdown, which replace those of an earlier breakdown together.

use super::json::FORMAT;
use super::published;
use perf4sight_base::error::Result;
use perf4sight_base::result_files::{ResultFiles, Results};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fs;
use std::io::BufReader;
use std::path::Path;

/// The file that identifies a folder as one of a breakdown.
const MARK: &str = perf4sight_traces::BREAKDOWN;
/// The report. Other verbs write a file of the same name.
const REPORT: &str = "report.html";
/// The other files, in addition to those of the published toolkit.
const OTHERS: [&str; 2] = ["breakdown.csv", "stacks.folded"];

pub(super) fn new<'a>(out: &Path, inputs: impl Iterator<Item = &'a Path>) -> Result<ResultFiles> {
    let results = Results {
        mark: MARK,
        unfinished: ".breakdown.",
        is_ours: is_breakdown,
        replaces_input: "an input would be replaced by a file of the breakdown",
        names: [MARK, REPORT].into_iter().chain(OTHERS).map(str::to_owned).chain(published::names()).collect(),
    };
    ResultFiles::new(out, results, inputs)
}

/// The top level of `breakdown.json`.
#[derive(Deserialize)]
struct Head {
    format: u32,
    #[serde(rename = "ranks")]
    _ranks: Vec<IgnoredAny>,
    #[serde(rename = "warnings")]
    _warnings: Vec<IgnoredAny>,
}

fn is_breakdown(file: &Path) -> bool {
    let head = fs::File::open(file).map(BufReader::new).map(serde_json::from_reader::<_, Head>);
    matches!(head, Ok(Ok(Head { format: 1..=FORMAT, .. })))
}
