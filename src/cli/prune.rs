//! The arguments of `perf4sight prune`.

use super::extents::ExtentsArguments;
use super::words;
use clap::Args;
use glob::Pattern;
use perf4sight_base::error::Result;
use perf4sight_cost::pruning::Mode;
use perf4sight_cost::verbs::prune;
use perf4sight_network::zoo::Dataset;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Prune {
    /// An ONNX file or the name of a known network
    #[arg(value_name = "NET.onnx|NAME", value_parser = words::networks(), hide_possible_values = true)]
    network: String,

    /// Percent of all parameters to remove
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    level: f64,

    /// Which filters go first: at random, at random with late or early layers preferred, or those with the smallest mean magnitude, which
    /// needs a file with weights
    #[arg(long, default_value = "random", value_parser = Mode::ALL.map(Mode::name))]
    mode: String,

    /// Seed of what is drawn
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Layers that keep all channels that they read and give, by patterns of their names such as 'encoder.*.attn.*'; may be given several times
    #[arg(long, value_name = "PATTERN", value_parser = Pattern::new)]
    keep: Vec<Pattern>,

    /// Where to write the smaller network
    #[arg(long, value_name = "FILE.onnx")]
    out: Option<PathBuf>,

    /// Replace that file though perf4sight did not write it
    #[arg(long, requires = "out")]
    overwrite: bool,

    /// Whose images and classes a known network is built for
    #[arg(long, default_value = "imagenet", value_parser = Dataset::ALL.map(Dataset::name))]
    dataset: String,

    #[command(flatten)]
    extents: ExtentsArguments,
}

impl Prune {
    pub fn into_verb(self) -> Result<prune::Prune> {
        let Prune { network, level, mode, seed, keep, out, overwrite, dataset, extents } = self;
        let (mode, dataset, extents) = (Mode::parse(&mode)?, Dataset::parse(&dataset)?, extents.extents()?);
        Ok(prune::Prune { network, level, mode, seed, keep, out, overwrite, dataset, extents })
    }
}

/// A share that leaves something.
fn percent(word: &str) -> std::result::Result<f64, String> {
    let percent = word.parse::<f64>().ok().filter(|percent| (0.0..100.0).contains(percent));
    percent.ok_or_else(|| "that is no percentage from 0 to below 100; write such as 50".to_owned())
}
