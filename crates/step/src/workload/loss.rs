//! The loss function of a training step.

use serde::{Deserialize, Serialize};

perf4sight_base::words! {
    /// The loss function, as the mean over all compared elements.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Loss: "loss" {
        /// Cross-entropy of classes: of a vector, of every pixel of an image whose channels are classes, of every position
        /// of a sequence.
        #[default]
        CrossEntropy = "cross_entropy",
        /// The mean of squared differences from as many numbers as the result has, as in regression and reconstruction.
        MeanSquaredError = "mean_squared_error",
    }
}
