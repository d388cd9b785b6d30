//! Variant names: `{network}_{level}`, with an optional `_{repeat}`.

use super::dialect::{begins_formula, check_cell};
use perf4sight_base::error::{Error, Result, suggestion};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The highest pruning level, in percent.
const MAX_LEVEL: u8 = 99;

/// A network at a pruning level; where a level was pruned several times, one of the repeats.
///
/// ```
/// use perf4sight_cost::records::Variant;
/// let variant = Variant::parse("resnet18_30_2", ["resnet18", "resnet50"])?;
/// assert_eq!((variant.network.as_str(), variant.level, variant.repeat), ("resnet18", 30, Some(2)));
/// assert_eq!(variant.to_string(), "resnet18_30_2");
/// # Ok::<(), perf4sight_base::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Variant {
    /// As in the name of its file.
    pub network: String,
    /// Pruning level, 0 to 99 percent.
    pub level: u8,
    /// The repeat, if a level was pruned several times.
    pub repeat: Option<u32>,
}

impl Variant {
    /// A network at a level, pruned once.
    pub fn new(network: impl Into<String>, level: u8) -> Self {
        Variant { network: network.into(), level, repeat: None }
    }

    /// Parses a variant from `stem`, a file name without its extension.
    ///
    /// The network is resolved as a prefix among the `known` names, so that names may contain underscores; the longest
    /// such name counts, so that `vit_b_16_0` is of `vit_b_16` even where there is a `vit_b`.
    ///
    /// # Errors
    /// A stem of another form, an unknown network (with the most similar known one) or a level above 99.
    pub fn parse<'a>(stem: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> Result<Self> {
        let resolved = known.clone().into_iter().filter_map(|network| Self::strip(stem, network));
        resolved.max_by_key(|variant| variant.network.len()).ok_or_else(|| refusal(stem, known))
    }

    /// `stem` read as a variant of `network`, if it is one.
    fn strip(stem: &str, network: &str) -> Option<Self> {
        let numbers = stem.strip_prefix(network)?.strip_prefix('_')?;
        let (level, repeat) = match numbers.split_once('_') {
            Some((level, repeat)) => (level, Some(canonical(repeat)?)),
            None => (numbers, None),
        };
        let level = u8::try_from(canonical(level)?).ok().filter(|&level| level <= MAX_LEVEL)?;
        Some(Variant { network: network.to_owned(), level, repeat })
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.network, self.level)?;
        self.repeat.map_or(Ok(()), |repeat| write!(f, "_{repeat}"))
    }
}

/// A number as [`Variant`] writes it: digits only, no leading zero.
fn canonical(digits: &str) -> Option<u32> {
    let number: u32 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

fn refusal<'a>(stem: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> Error {
    let mut network = stem;
    while let Some((name, _)) = network.rsplit_once('_').filter(|(_, digits)| is_digits(digits)) {
        network = name;
    }
    let error = Error::input(format!("\"{stem}\" names no variant of a known network"))
        .expected("{network}_{level} or {network}_{level}_{repeat} with a level from 0 to 99, such as resnet18_30");
    match known.clone().into_iter().any(|name| name == network || stem.starts_with(&format!("{name}_"))) {
        true => error.help(format!("name the file {network}_0 if the network is not pruned")),
        false => error.help(suggestion(network, known)),
    }
}

fn is_digits(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Refuses a network name that ends in an underscore and a level, because its variants would be ambiguous. It also
/// refuses a name that would make rows unreadable, and one that a spreadsheet would take for a formula.
///
/// # Errors
/// The invalid name, with a valid one.
///
/// ```
/// use perf4sight_cost::records::check_network_name;
/// assert!(check_network_name("my_net").is_ok());
/// assert!(check_network_name("ghostnet_100").is_ok()); // no level
/// assert!(check_network_name("net_5").unwrap_err().to_string().contains("net-5"));
/// ```
pub fn check_network_name(name: &str) -> Result<()> {
    check_cell(name)?;
    if name.is_empty() || begins_formula(name) || name.starts_with('.') || name.contains('/') {
        let problem = format!("\"{name}\" cannot name a network");
        return Err(Error::config(problem).expected("a word without slashes that begins with a letter or digit"));
    }
    let Some((stem, digits)) = name.rsplit_once('_') else { return Ok(()) };
    // A number that is not a level, such as the 100 of `ghostnet_100`, is part of the name, unless it could be the
    // repeat of a level.
    if !is_digits(digits)
        || (Variant::strip(name, stem).is_none() && !is_digits(stem.rsplit('_').next().unwrap_or(stem)))
    {
        return Ok(());
    }
    Err(Error::input(format!("the network name \"{name}\" ends in _{digits}, which reads as a pruning level"))
        .expected("a name that does not end in an underscore and digits")
        .help(format!("rename it, for example to \"{stem}-{digits}\" or \"{stem}{digits}\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 3] = ["net", "net_wide", "resnet18"];

    #[test]
    fn the_network_is_found_as_a_known_prefix() {
        assert_eq!(Variant::parse("net_wide_30", KNOWN).unwrap(), Variant::new("net_wide", 30));
        assert_eq!(Variant::parse("vit_b_16_0", ["vit_b", "vit_b_16"]).unwrap(), Variant::new("vit_b_16", 0));
        assert_eq!(Variant::parse("vit_b_16", ["vit_b", "vit_b_16"]).unwrap(), Variant::new("vit_b", 16));
        assert_eq!(Variant::parse("net_0_3", KNOWN).unwrap(), Variant { repeat: Some(3), ..Variant::new("net", 0) });
    }

    #[test]
    fn what_would_not_be_written_back_the_same_is_refused() {
        for stem in ["net_05", "net_+5", "net_100", "net_5_", "net_5_1_1", "net", "resnet18", "_5", ""] {
            assert!(Variant::parse(stem, KNOWN).is_err(), "{stem}");
        }
    }

    #[test]
    fn a_mistyped_network_gets_the_nearest_name() {
        assert!(Variant::parse("resnt18_30", KNOWN).unwrap_err().to_string().contains("did you mean \"resnet18\"?"));
    }
}
