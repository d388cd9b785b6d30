//! Loads a network from the word that a user gives: a file, a known network, or a known network pruned to a level.

use super::exporting;
use super::extents::{FOREIGN, NetworkExtents};
use crate::pruning::{FilterRanking, Pruner, PruningGoal, generator};
use crate::records::check_network_name;
use glob::Pattern;
use perf4sight_base::error::{Error, Result, nearest};
use perf4sight_base::units::Percent;
use perf4sight_network::Network;
use perf4sight_network::zoo;
use perf4sight_network::zoo::{Dataset, ImageDataset, calibration};
use perf4sight_onnx as onnx;
use perf4sight_onnx::LoadedOnnx;
use perf4sight_verb::Context;
use std::collections::BTreeSet;
use std::path::Path;

pub(super) struct NamedNetwork {
    pub network: Network,
    pub remarks: NetworkRemarks,
}

#[derive(Default)]
pub(super) struct NetworkRemarks {
    /// Problems that a reader should know of.
    pub warnings: Vec<String>,
    /// Actions that were requested.
    pub notes: Vec<String>,
}

/// The maximum number of remarks that are printed; the others are only counted.
const SPOKEN: usize = 10;

impl NamedNetwork {
    /// Loads a file if the word looks like one, else a known network for the images of the named dataset, pruned if a
    /// level follows its name.
    ///
    /// # Errors
    /// A file that cannot be used, an unknown name, a level outside 0 to 99 or that the network cannot be pruned to; for a known network, an unknown dataset.
    pub fn load(word: &str, dataset: &str) -> Result<Self> {
        Self::load_with_extents(word, dataset, &NetworkExtents::default())
    }

    /// The same; `extents` gives the sizes of inputs and outputs.
    ///
    /// # Errors
    /// As [`load`](Self::load), a file without such dimensions, an input that the network does not accept, and another
    /// number of classes than that of a file.
    pub fn load_with_extents(word: &str, dataset: &str, extents: &NetworkExtents) -> Result<Self> {
        if is_file(word) {
            check_file(word)?;
            let LoadedOnnx { network, warnings } = extents.read(word)?;
            let warnings = warnings.iter().map(|warning| format!("{word}: {warning}")).collect();
            return Ok(NamedNetwork { network, remarks: NetworkRemarks { warnings, notes: Vec::new() } });
        }
        match word.split_once('@') {
            Some((name, level)) => prune_at_random(&build_known(name, dataset, extents)?, parse_level(name, level)?),
            None => {
                Ok(NamedNetwork { network: build_known(word, dataset, extents)?, remarks: NetworkRemarks::default() })
            }
        }
    }

    /// Prints the remarks and returns the network.
    pub fn report_remarks(self, context: &mut Context) -> Network {
        self.remarks.report(context);
        self.network
    }
}

impl NetworkRemarks {
    /// Remarks on networks in files; each file is read once. Files that cannot be read are left out,
    /// because the code that needs them reports the error.
    pub fn about<'a>(files: impl IntoIterator<Item = &'a Path>) -> Self {
        let files: BTreeSet<&Path> = files.into_iter().filter(|file| file.is_file()).collect();
        let loaded = files.into_iter().filter_map(|file| Some((file, onnx::read(file).ok()?)));
        let warnings = loaded.flat_map(|(file, LoadedOnnx { warnings, .. })| {
            warnings.into_iter().map(move |warning| format!("{}: {warning}", file.display()))
        });
        NetworkRemarks { warnings: warnings.collect(), notes: Vec::new() }
    }

    /// Adds the remarks on another network.
    pub fn extend(&mut self, other: NetworkRemarks) {
        self.warnings.extend(other.warnings);
        self.notes.extend(other.notes);
    }

    /// Prints the first remarks, and the number of the others.
    pub fn report(&self, context: &mut Context) {
        self.warnings.iter().take(SPOKEN).for_each(|warning| context.warn(warning));
        if let Some(more @ 1..) = self.warnings.len().checked_sub(SPOKEN) {
            context.warn(format!("{more} more warnings of this kind"));
        }
        self.notes.iter().take(SPOKEN).for_each(|note| context.console.note(note));
    }
}

/// Refuses a word that is neither a file, nor a known network, nor a known network with a level.
pub(super) fn check(word: &str) -> Result<()> {
    let (name, level) = word.split_once('@').unwrap_or((word, "0"));
    if is_file(word) { Ok(()) } else { check_name(name).and_then(|()| parse_level(name, level).map(drop)) }
}

fn build_known(name: &str, dataset: &str, extents: &NetworkExtents) -> Result<Network> {
    check_name(name)?;
    if let Some((dim, _)) = extents.dims.first_key_value() {
        return Err(Error::usage(format!("{name} leaves no dimension \"{dim}\" open, nor any other"))
            .expected("an ONNX file of which it is a dimension")
            .help("input and classes set the sizes of a known network's input and output"));
    }
    extents.check_channels(name)?;
    let images = ImageDataset::from_word_with(dataset, extents.input.as_ref(), extents.classes).map_err(|_| {
        let known = Dataset::ALL.map(Dataset::name);
        let meant = nearest(dataset, known).map(|known| format!("did you mean the dataset \"{known}\"?"));
        Error::input(format!(
            "how large the images of \"{dataset}\" are is not known, nor how many classes, so {name} cannot be built"
        ))
        .expected(format!("a file, one of the datasets {}, or both input and classes", known.join(", ")))
        .help(meant.as_deref().unwrap_or(AS_A_FILE))
    })?;
    zoo::build(name, images)
}

const AS_A_FILE: &str = "name a network of your own by its file, with path and ending: nets/mine.onnx";

/// Refuses invalid names for a user's network: names that make rows unreadable, and the names of calibration networks.
pub(super) fn check_own_name(name: &str) -> Result<()> {
    // Known names are resolved as a whole before anything is taken for a level.
    if !zoo::names().any(|known| known == name) {
        check_network_name(name)?;
    }
    match calibration::is_reserved(name) {
        true => Err(Error::config(format!("\"{name}\" is the name of a calibration network"))
            .expected("a name that does not begin so")
            .help("rename the network; teach = True in [profile] measures the calibration networks")),
        false => Ok(()),
    }
}

/// Refuses an unknown name, and suggests a file of that name if there is one, a known name that it was mistyped from, or how to export it.
fn check_name(name: &str) -> Result<()> {
    zoo::check_name(name).map_err(|unknown| {
        unknown.help(match (near(name), similar_name(name)) {
            (Some(file), _) => format!("a file is named with path and ending: {file}"),
            (None, Some(known)) => format!("did you mean \"{known}\"?"),
            (None, None) => exporting::advice(name),
        })
    })
}

/// The known name that this one was mistyped from. Numbers and single letters tell networks of a family apart, which are never meant
/// for each other: vgg11_bn is no vgg16_bn, vit_l_16 no vit_b_16.
fn similar_name(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let name = name.as_str();
    let telling = |name: &str| {
        let letters = name.split('_').filter(|part| part.len() == 1).map(str::to_owned).collect::<Vec<_>>();
        let mut digits: Vec<char> = name.chars().filter(char::is_ascii_digit).collect();
        digits.sort_unstable();
        (letters, digits)
    };
    let alike = zoo::names().filter(|known| telling(known) == telling(name));
    let known = nearest(name, alike)?;
    // Another word of a family, such as convnext_small for convnext_tiny, is no slip of a finger.
    (known.len().abs_diff(name.len()) < 3 && shared_letters(known, name) + 2 >= known.len()).then_some(known)
}

/// Letters that two words have in common at their beginnings and ends.
fn shared_letters(one: &str, other: &str) -> usize {
    let pairs = || one.chars().zip(other.chars());
    let back = one.chars().rev().zip(other.chars().rev());
    pairs().take_while(|(a, b)| a == b).count() + back.take_while(|(a, b)| a == b).count()
}

/// The file of a network of that name in the current folder or in one of its folders.
fn near(name: &str) -> Option<String> {
    let name = Pattern::escape(name);
    let patterns =
        [format!("{name}.onnx"), format!("*/{name}.onnx"), format!("{name}_0.onnx"), format!("*/{name}_0.onnx")];
    let mut found = patterns.iter().filter_map(|pattern| glob::glob(pattern).ok()).flatten();
    found.find_map(|file| Some(file.ok()?.display().to_string()))
}

/// Explains why there is no such file, where its name tells.
fn check_file(word: &str) -> Result<()> {
    if Path::new(word).exists() {
        return Ok(());
    }
    if word.contains(char::REPLACEMENT_CHARACTER) {
        return Err(Error::input("has a name that is not UTF-8").file(word).help("rename the file"));
    }
    match word.rsplit_once('@') {
        Some((file, level)) if Path::new(file).is_file() => Err(Error::usage(format!(
            "{file} is a file, which has no levels"
        ))
        .help(format!(
            "perf4sight prune {file} --level {level} --out FILE writes the pruned network, which is then asked about"
        ))),
        _ => Ok(()),
    }
}

pub(super) fn is_file(word: &str) -> bool {
    let path = Path::new(word);
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ending == "onnx" || FOREIGN.contains(&ending)) || word.contains('/') || path.exists()
}

fn parse_level(name: &str, word: &str) -> Result<u8> {
    let level = word.parse().ok().filter(|level| *level <= 99);
    level.ok_or_else(|| {
        let percent = word.parse().ok().map(|number: f64| if number < 1.0 { 100.0 * number } else { number });
        let help = match percent.filter(|percent| (1.0..99.5).contains(percent)) {
            Some(percent) => format!("did you mean {name}@{percent:.0}?"),
            None => format!("write {name}@50, for example"),
        };
        Error::usage(format!("\"{word}\" is not a level"))
            .expected("the percentage to prune, a whole number from 0 to 99")
            .help(help)
    })
}

/// Prunes at random, always with the same result.
fn prune_at_random(network: &Network, level: u8) -> Result<NamedNetwork> {
    let pruner = Pruner::new(network);
    let ranking = FilterRanking::random(&pruner, &mut generator(0, network.name(), level, 0));
    let pruned = pruner.prune(&ranking, PruningGoal::percent(network, f64::from(level)))?;
    let (name, reached) = (network.name(), Percent(pruned.percent));
    // Its answers would be those of another level.
    if let Some(limit) = pruned.limit {
        let nearest = pruned.percent.floor().min(99.0);
        return Err(Error::input(format!(
            "{name}@{level}: {reached} of the parameters can go, chosen at random: {limit}"
        ))
        .help(format!("{name}@{nearest} is near to what it can be pruned to")));
    }
    let notes = vec![format!("{name}@{level}: {reached} of the parameters are gone, chosen at random")];
    Ok(NamedNetwork { network: pruned.network, remarks: NetworkRemarks { notes, ..NetworkRemarks::default() } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_network_is_not_taken_for_a_mistyped_one() {
        for (typed, meant) in
            [("resnet81", "resnet18"), ("ResNet18", "resnet18"), ("vgg61_bn", "vgg16_bn"), ("goglenet", "googlenet")]
        {
            assert_eq!(similar_name(typed), Some(meant), "{typed}");
        }
        // Networks of torchvision and timm by themselves.
        for other in [
            "efficientnet_v2_s",
            "mobilenet_v3",
            "vgg11_bn",
            "squeezenet1_1",
            "vit_l_16",
            "convnext_small",
            "regnet_x_400mf",
            "resnet26",
        ] {
            assert_eq!(similar_name(other), None, "{other}");
        }
    }
}
