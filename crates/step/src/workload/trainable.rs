//! The weights that a training step changes, and the mode of normalisations with frozen weights.

use internment::Intern;
use perf4sight_base::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which weights training changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Trainable {
    /// Every weight that is no buffer.
    #[default]
    All,
    /// Those of the last operation that has weights.
    Classifier,
    /// Those of the last operations that have weights; this many.
    Last(u64),
    /// The biases of layers and normalisations.
    Bias,
    /// Scales and shifts of normalisations.
    Normalisation,
    /// Those of the operations whose names match.
    Layers(Patterns),
}

/// Patterns of names, one of which must match: `layer4.*,fc`. Equal ones are stored once in memory, so that a step can
/// be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Patterns(Intern<String>);

perf4sight_base::words! {
    /// The mode of a batch normalisation with frozen weights in training.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum FrozenNormalisation: "frozen_normalisation" {
        /// With the statistics of the batch, as PyTorch does in `train()`.
        #[default]
        Train = "train",
        /// With the statistics it keeps, as in `eval()`.
        Eval = "eval",
    }
}

/// The word before the number of operations.
const LAST: &str = "last ";

/// Characters that a layer's name cannot have, because rows use them otherwise.
const RESERVED: [char; 4] = [';', '|', '=', ' '];

impl Trainable {
    /// Parses the word of a configuration.
    ///
    /// # Errors
    /// A number that counts nothing, a pattern that cannot be one.
    pub fn parse(word: &str) -> Result<Self> {
        let word = word.trim();
        let known = [Trainable::All, Trainable::Classifier, Trainable::Bias, Trainable::Normalisation];
        if let Some(known) = known.into_iter().find(|known| known.to_string() == word) {
            return Ok(known);
        }
        match word.strip_prefix(LAST).map(|count| count.trim().parse::<u64>()) {
            Some(Ok(count)) if count > 0 => Ok(Trainable::Last(count)),
            Some(_) => Err(refused(word)),
            None => Patterns::parse(word).map(Trainable::Layers),
        }
    }
}

impl Patterns {
    fn parse(word: &str) -> Result<Self> {
        let sound = |pattern: &str| !pattern.is_empty() && glob::Pattern::new(pattern).is_ok();
        match !word.contains(RESERVED) && word.split(',').all(sound) {
            true => Ok(Patterns(Intern::new(word.to_owned()))),
            false => Err(refused(word)),
        }
    }

    /// Whether a pattern matches a name.
    pub fn match_name(self, name: &str) -> bool {
        self.0.split(',').filter_map(|pattern| glob::Pattern::new(pattern).ok()).any(|pattern| pattern.matches(name))
    }
}

fn refused(word: &str) -> Error {
    Error::config(format!("\"{word}\" names no weights"))
        .expected("all, classifier, last and a number of operations, bias, normalisation, or patterns of layer names such as layer4.*,fc")
}

/// The word that is parsed to it.
impl fmt::Display for Trainable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trainable::All => f.write_str("all"),
            Trainable::Classifier => f.write_str("classifier"),
            Trainable::Last(count) => write!(f, "{LAST}{count}"),
            Trainable::Bias => f.write_str("bias"),
            Trainable::Normalisation => f.write_str("normalisation"),
            Trainable::Layers(Patterns(word)) => f.write_str(word),
        }
    }
}

stored_as_its_word!(Trainable);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for word in ["all", "classifier", "last 10", "bias", "normalisation", "layer4.*,fc"] {
            assert_eq!(Trainable::parse(word).unwrap().to_string(), word);
        }
        for word in ["last 0", "last ten", "", "layer4,,fc", "a b", "[", "a=b"] {
            assert!(Trainable::parse(word).unwrap_err().to_string().contains("names no weights"), "{word}");
        }
        let Trainable::Layers(patterns) = Trainable::parse("layer4.*,fc").unwrap() else { panic!("a pattern") };
        assert!(["layer4.1.conv2", "fc"].iter().all(|name| patterns.match_name(name)));
        assert!(["layer3.1.conv2", "fc2"].iter().all(|name| !patterns.match_name(name)));
    }
}
