//! The loss function of a training step.

use super::parse;
use perf4sight_base::error::Result;
use serde::{Deserialize, Serialize};

/// The loss function, as the mean over all compared elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Cross-entropy of classes: of a vector, of every pixel of an image whose channels are classes, of every position
    /// of a sequence.
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

    /// The loss of that name.
    ///
    /// # Errors
    /// An unknown word, with the nearest known one.
    pub fn parse(word: &str) -> Result<Self> {
        parse("loss", word, &Self::ALL, Self::name)
    }
}
