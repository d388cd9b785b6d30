//! The published call `analyze --option optimize`: its arguments become those of `optimize`.

use super::{MEMORY, OptimizeTraces, SEARCHES};
use crate::passes::{PASSES, PassSettings};
use crate::search::{SearchMethod, SearchOptions, SearchSettings};
use crate::verb::cost_model::operations::{self, TRAIN_AMP, TRAIN_GPU};
use crate::verb::half_precision;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_replay::communication::CollectiveAlgorithm;
use perf4sight_replay::request::ReplayRequest;
use perf4sight_verb::Verb;
use perf4sight_verb::config::{Setting, SettingValues, flag, number, path, word};
use std::path::PathBuf;

/// The published arguments of this option alone.
pub const SETTINGS: &[Setting] = &[
    word("optimizer", optimizers).or_default("MCMC").help("Of optimize: how operator fusion is searched."),
    flag("simulate").help("Of optimize: fused operations but the last take 0.8 of their time."),
    number("memory_budget", 1e-9).alias("memory_budget").value("GB").help("Of optimize: memory that a step may take."),
    path("xla_candidate_path")
        .alias("xla_candidate_path")
        .value("FILE")
        .help("Of optimize: names of the operations that may be fused, one a line."),
];

fn optimizers() -> Vec<&'static str> {
    vec!["DP", "MCMC", "MCTS"]
}

/// Moves of the search, for which the published call has no argument: as many as `optimize` makes by default.
const MOVES: u64 = 20_000;
/// The folder of the results, in the workspace.
const WORKSPACE: &str = ".opt_ws";

/// Converts the arguments: of a search, or of a fit of operations (`train_gpu`, `train_amp`).
///
/// # Errors
/// A sub option that is none of the published ones, or lacks what it works on.
pub fn parse(values: &SettingValues<'_>) -> Result<Box<dyn Verb>> {
    match values.get::<Option<String>>("sub_option")?.unwrap_or_default().trim() {
        train @ (TRAIN_GPU | TRAIN_AMP) => Ok(Box::new(operations::published(values, train)?)),
        passes => Ok(Box::new(strategy(values, passes)?)),
    }
}

fn strategy(values: &SettingValues<'_>, sub_option: &str) -> Result<OptimizeTraces> {
    let mut traces: Vec<PathBuf> = values.get("path")?;
    let passes = passes(sub_option)?;
    let for_clusters = passes.iter().any(|pass| pass == FROM_CLUSTERS);
    let clusters = for_clusters.then(|| traces.pop()).flatten();
    let Some(first) = traces.first() else {
        return Err(values.error("path", "there is no folder of traces").expected("--path TRACES,cluster_mapping.txt"));
    };
    let out = values.get::<Option<PathBuf>>("workspace")?.unwrap_or_else(|| first.clone()).join(WORKSPACE);
    let first = SearchOptions {
        optimizer: values.parse_word("optimizer", |word| SearchMethod::parse(&word.to_ascii_lowercase()))?,
        seed: 0,
        moves: MOVES,
    };
    let wanted = PassSettings {
        searches: SearchSettings { first, count: 1, folder: out.join(SEARCHES) },
        simulate: values.get("simulate")?,
        candidates: values.get("xla_candidate_path")?,
        clusters,
        autocast: half_precision::autocast(values)?,
        memory_budget: values.get::<Option<f64>>("memory_budget")?.map(|gigabytes| Bytes((gigabytes * 1e9) as u64)),
        network: None,
    };
    let algorithm = values.parse_word("nccl_algo", |word| match word {
        "TREE" => Ok(CollectiveAlgorithm::Tree),
        _ => Ok(CollectiveAlgorithm::Ring),
    })?;
    let request = ReplayRequest { algorithm, ..ReplayRequest::default() };
    Ok(OptimizeTraces { traces, passes, wanted, request, out })
}

/// Published words, and the names of passes.
const WORDS: [(&str, &str); 6] = [
    ("tensor_fusion", "tensor_fusion"),
    ("tsfs", "tensor_fusion"),
    ("xla", "op_fusion"),
    ("amp", "amp"),
    (MEMORY, MEMORY),
    (FROM_CLUSTERS, FROM_CLUSTERS),
];
/// Tensor groups for a given fusion of operations, whose file is the last of `--path`.
const FROM_CLUSTERS: &str = "from_opfs2tsfs";
/// Without the pass of memory, which otherwise always runs.
const WITHOUT_MEMORY: &str = "^memory";

/// The passes of a `--sub_option` such as `tensor_fusion,xla` or `xla,^memory`.
///
/// # Errors
/// A word that is none of the published ones.
pub fn passes(sub_option: &str) -> Result<Vec<String>> {
    let words = || sub_option.split(',').map(str::trim).filter(|word| !word.is_empty());
    let known =
        || WORDS.iter().map(|(word, _)| *word).chain([WITHOUT_MEMORY, TRAIN_GPU, TRAIN_AMP]).collect::<Vec<_>>();
    let pass = |word: &str| match WORDS.iter().find(|(published, _)| *published == word) {
        Some((_, pass)) => Ok((*pass).to_owned()),
        None => Err(Error::usage(format!("--sub_option {word} is not known")).one_of(word, known())),
    };
    let mut passes: Vec<String> = words().filter(|word| *word != WITHOUT_MEMORY).map(pass).collect::<Result<_>>()?;
    if passes.is_empty() {
        // Nothing but what is left out: all others, without the one that needs a file.
        let without = words().next().map(|_| MEMORY);
        let names = PASSES.iter().map(|pass| pass.name());
        return Ok(names.filter(|name| *name != FROM_CLUSTERS && Some(*name) != without).map(str::to_owned).collect());
    }
    if !words().any(|word| word == WITHOUT_MEMORY || word == FROM_CLUSTERS) {
        passes.push(MEMORY.to_owned());
    }
    Ok(passes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_sub_options_name_passes() {
        assert_eq!(passes("xla").unwrap(), ["op_fusion", "memory"]);
        assert_eq!(passes("tensor_fusion,xla,^memory").unwrap(), ["tensor_fusion", "op_fusion"]);
        assert_eq!(passes("^memory").unwrap(), ["tensor_fusion", "amp", "op_fusion"]);
        assert_eq!(passes("").unwrap(), ["tensor_fusion", "amp", "memory", "op_fusion"]);
        assert_eq!(passes("from_opfs2tsfs").unwrap(), ["from_opfs2tsfs"]);
        assert!(passes("xlaa").unwrap_err().to_string().contains("did you mean \"xla\"?"));
    }
}
