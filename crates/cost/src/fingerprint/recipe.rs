//! How a fit is made: the method, the seed and the number of trees.

use crate::trees::PUBLISHED_TREES;
use perf4sight_base::error::{Error, Result, suggestion};
use std::fmt;

/// How a fit is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipe {
    /// The method.
    pub method: Method,
    /// The seed of all randomness: the same rows and recipe give the same fingerprint.
    pub seed: u64,
    /// Trees in the forest of the published method; the hybrid method sets its own numbers.
    pub trees: usize,
}

impl Recipe {
    /// A method as it was published or tuned.
    pub fn new(method: Method, seed: u64) -> Self {
        Recipe { method, seed, trees: PUBLISHED_TREES }
    }

    /// The same by another method.
    pub fn by(self, method: Method) -> Self {
        Recipe { method, ..self }
    }
}

/// A way to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The published one: extremely randomised trees on the published features, fitted on the raw value.
    Perf4sight,
    /// Physical: memory by simulation, latency from the time of every operation; only the residuals are fitted.
    Hybrid,
}

impl Method {
    /// All methods, in the order they are listed to users.
    pub const ALL: [Method; 2] = [Method::Hybrid, Method::Perf4sight];

    /// Its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Method::Perf4sight => "perf4sight",
            Method::Hybrid => "hybrid",
        }
    }

    /// An explanation for reports.
    pub fn explanation(self) -> &'static str {
        match self {
            Method::Perf4sight => "trees on the published features, fitted to the measured values",
            Method::Hybrid => {
                "memory is simulated and latency computed operation by operation; what was measured corrects both"
            }
        }
    }

    /// The method of that name.
    ///
    /// # Errors
    /// The name is unknown; the message has the nearest known one.
    pub fn parse(word: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|method| method.name() == word);
        found.ok_or_else(|| {
            Error::config(format!("unknown method \"{word}\"")).help(suggestion(word, Self::ALL.map(Self::name)))
        })
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
