//! How a fit is made: the method, the seed and the number of trees.

use crate::trees::PUBLISHED_TREES;

/// How a fit is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FitRecipe {
    /// Decides which model is fitted.
    pub method: FitMethod,
    /// The seed of all randomness: the same rows and recipe give the same fingerprint.
    pub seed: u64,
    /// Trees in the forest of the published method; the hybrid method sets its own numbers.
    pub trees: usize,
}

impl FitRecipe {
    /// A method as it was published or tuned.
    pub fn new(method: FitMethod, seed: u64) -> Self {
        FitRecipe { method, seed, trees: PUBLISHED_TREES }
    }

    /// The same seed and trees with another method.
    pub fn by(self, method: FitMethod) -> Self {
        FitRecipe { method, ..self }
    }
}

perf4sight_base::words! {
    /// A way to fit.
    pub enum FitMethod: "method" {
        /// Physical: memory by simulation, latency from the time of every operation; only the residuals are fitted.
        Hybrid = "hybrid",
        /// The published one: extremely randomised trees on the published features, fitted on the raw value.
        Perf4sight = "perf4sight",
    }
}

impl FitMethod {
    /// What reports say of the method.
    pub fn explanation(self) -> &'static str {
        match self {
            FitMethod::Perf4sight => "trees on the published features, fitted to the measured values",
            FitMethod::Hybrid => {
                "memory is simulated and latency computed operation by operation; what was measured corrects both"
            }
        }
    }
}
