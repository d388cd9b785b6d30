//! Activation checkpointing: the parts of the forward pass that a step runs again in backward instead of keeping their
//! results.

use perf4sight_base::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The segments of forward; all but the last keep only their inputs, and backward runs their forward again
/// (`torch.utils.checkpoint`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Checkpoint {
    /// Into none: everything that backward needs is kept.
    #[default]
    None,
    /// So many segments, at least two.
    Segments(u64),
    /// Into as many as a network has blocks.
    EveryBlock,
}

const NONE: &str = "none";
const EVERY_BLOCK: &str = "every block";
const SEGMENTS: &str = "segments";

impl Checkpoint {
    /// Parses the word of a configuration; a number alone is the number of segments.
    ///
    /// # Errors
    /// Any other word, and fewer than two segments, with which nothing would run again.
    pub fn parse(word: &str) -> Result<Self> {
        let word = word.trim();
        let count = word.strip_suffix(SEGMENTS).unwrap_or(word).trim().parse::<u64>();
        match (word, count) {
            (NONE, _) => Ok(Checkpoint::None),
            (EVERY_BLOCK, _) => Ok(Checkpoint::EveryBlock),
            (_, Ok(count)) if count > 1 => Ok(Checkpoint::Segments(count)),
            (_, Ok(_)) => {
                Err(refused(word).help("the last segment never runs again, so that one alone changes nothing"))
            }
            (_, Err(_)) => Err(refused(word)),
        }
    }
}

fn refused(word: &str) -> Error {
    Error::config(format!("checkpoint = {word} is no way of checkpointing"))
        .expected("none, a number of segments from 2 such as 4 segments, or every block")
}

/// The word that is parsed to it.
impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Checkpoint::None => f.write_str(NONE),
            Checkpoint::Segments(count) => write!(f, "{count} {SEGMENTS}"),
            Checkpoint::EveryBlock => f.write_str(EVERY_BLOCK),
        }
    }
}

stored_as_its_word!(Checkpoint);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for word in ["none", "2 segments", "every block"] {
            assert_eq!(Checkpoint::parse(word).unwrap().to_string(), word);
        }
        assert_eq!(Checkpoint::parse(" 4 ").unwrap(), Checkpoint::Segments(4));
        for word in ["1 segments", "0", "segments", "", "blocks", "-3"] {
            assert!(Checkpoint::parse(word).unwrap_err().to_string().contains("2"), "{word}");
        }
    }
}
