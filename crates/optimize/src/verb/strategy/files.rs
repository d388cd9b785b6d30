//! The files of a strategy, under their published names; they replace those of an earlier one together.

use super::json::FORMAT;
use perf4sight_base::error::Result;
use perf4sight_base::overwrite;
use perf4sight_base::result_files::{ResultFiles, ResultNames};
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

/// The names of all files.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    [JSON, REPORT, STRATEGY].into_iter().chain(OF_PASSES)
}

/// An empty list of files. `kept` is a file that is read and not written, such as groups of an earlier strategy: it stays.
///
/// # Errors
/// A folder in which a file would be replaced that is an input, or that is not from an earlier strategy.
pub(super) fn new<'a>(out: &Path, inputs: impl Iterator<Item = &'a Path>, kept: Option<&Path>) -> Result<ResultFiles> {
    let is_kept = |name: &&str| kept.is_some_and(|kept| overwrite::is_same(&out.join(name), kept));
    let results = ResultNames {
        mark: JSON,
        unfinished: ".optimize.",
        format: FORMAT,
        lists: ["proposals", "warnings"],
        replaces_input: "optimize reads this file and would replace it with a result",
        names: names().filter(|name| !is_kept(name)).map(str::to_owned).collect(),
    };
    ResultFiles::new(out, results, inputs)
}
