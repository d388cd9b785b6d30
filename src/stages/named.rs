//! A network as the command line names it: a file, a known network, or one pruned to a level.

use super::Context;
use crate::error::{Error, Result};
use crate::network::Network;
use crate::network::onnx::{self, Loaded};
use crate::network::zoo::{self, Dataset};
use crate::pruning::{Goal, Pruner, Ranking, generator};
use crate::units::Percent;
use std::path::Path;

/// A file where it looks like one, else a known network for images of `dataset`, pruned where a level follows its name.
///
/// # Errors
/// A file that cannot be used, an unknown name, a level outside 0 to 99.
pub(super) fn load(word: &str, dataset: Dataset, context: &mut Context) -> Result<Network> {
    let file = Path::new(word);
    if file.extension().is_some_and(|ending| ending == "onnx") || file.exists() {
        let Loaded { network, warnings } = onnx::read(file)?;
        warnings.iter().for_each(|warning| context.warn(format!("{word}: {warning}")));
        return Ok(network);
    }
    match word.split_once('@') {
        Some((name, level)) => pruned(&zoo::build(name, dataset)?, parse_level(level)?, context),
        None => zoo::build(word, dataset),
    }
}

fn parse_level(word: &str) -> Result<u8> {
    let level = word.parse().ok().filter(|level| *level <= 99);
    level.ok_or_else(|| {
        Error::usage(format!("\"{word}\" is no level"))
            .expected("the percentage to prune, 0 to 99")
            .help("write resnet18@50, for example")
    })
}

/// Pruned at random, always in the same way.
fn pruned(network: &Network, level: u8, context: &mut Context) -> Result<Network> {
    let pruner = Pruner::new(network);
    let ranking = Ranking::random(&pruner, &mut generator(0, network.name(), level, 0));
    let pruned = pruner.prune(&ranking, Goal::percent(network, f64::from(level)))?;
    let (name, reached) = (network.name(), Percent(pruned.percent));
    match pruned.limit {
        Some(limit) => context.warn(format!("{name}@{level}: only {reached} of the parameters could go: {limit}")),
        None => context.console.note(format!("{name}@{level}: {reached} of the parameters are gone, chosen at random")),
    }
    Ok(pruned.network)
}
