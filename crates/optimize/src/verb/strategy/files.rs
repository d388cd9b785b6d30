//! The files of a strategy, under their published names; they replace those of an earlier one together.

use super::json::FORMAT;
use perf4sight_base::error::Result;
use perf4sight_base::result_files::{ResultFiles, Results};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fs;
use std::io::BufReader;
use std::path::Path;

/// The file that identifies a folder as one of a strategy.
pub(super) const JSON: &str = "optimize.json";
/// Other verbs write a file of the same name.
pub(super) const REPORT: &str = "report.html";
/// The published list of what the strategy changes.
pub(super) const STRATEGY: &str = "best_strategy.txt";
/// What passes may write.
const OF_PASSES: [&str; 4] = [
    "spec/tensor_fusion_grp_mapping.json",
    "spec/tensor_partition_spec.txt",
    "cluster_mapping.txt",
    "search_trajectory.txt",
];

/// An empty list of files.
///
/// # Errors
/// A folder in which a file would be replaced that is an input, or that is not from an earlier strategy.
pub(super) fn new<'a>(out: &Path, inputs: impl Iterator<Item = &'a Path>) -> Result<ResultFiles> {
    let results = Results {
        mark: JSON,
        unfinished: ".optimize.",
        is_ours: is_strategy,
        replaces_input: "a trace has the name of a file that optimize writes",
        names: [JSON, REPORT, STRATEGY].into_iter().chain(OF_PASSES).map(str::to_owned).collect(),
    };
    ResultFiles::new(out, results, inputs)
}

/// The top level of `optimize.json`.
#[derive(Deserialize)]
struct Head {
    format: u32,
    #[serde(rename = "proposals")]
    _proposals: Vec<IgnoredAny>,
    #[serde(rename = "warnings")]
    _warnings: Vec<IgnoredAny>,
}

fn is_strategy(file: &Path) -> bool {
    let head = fs::File::open(file).map(BufReader::new).map(serde_json::from_reader::<_, Head>);
    matches!(head, Ok(Ok(Head { format: 1..=FORMAT, .. })))
}
