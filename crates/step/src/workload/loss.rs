//! What a training step compares the network's result with, and how.

use super::parse;
use perf4sight_base::error::Result;
use serde::{Deserialize, Serialize};

/// What backward begins at, as the mean over everything that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Cross-entropy of classes: of a vector, of every pixel of an image whose channels are classes, of every place of a sequence.
    #[default]
    CrossEntropy,
    /// The mean of squared differences from as many numbers as the result has, as in regression and reconstruction.
    MeanSquaredError,
}

impl Loss {
    /// Both, in the order they are listed to people.
    pub const ALL: [Loss; 2] = [Loss::CrossEntropy, Loss::MeanSquaredError];

    /// The word in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Loss::CrossEntropy => "cross_entropy",
            Loss::MeanSquaredError => "mean_squared_error",
        }
    }

    /// What is called so.
    ///
    /// # Errors
    /// An unknown word, with the nearest known one.
    pub fn parse(word: &str) -> Result<Self> {
        parse("loss", word, &Self::ALL, Self::name)
    }
}
