//! The ways to fit: one name in configurations and files, one kind of fitted model each.

use super::published::Published;
use super::rows::Row;
use crate::error::{Error, Result, suggestion};
use crate::network::Network;
use crate::workload::{Stage, Workload};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A way to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The published one: extremely randomised trees on the published features, fitted on the raw value.
    Perf4sight,
}

impl Method {
    /// All methods, in the order they are listed to people.
    pub const ALL: [Method; 1] = [Method::Perf4sight];

    /// The word in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Method::Perf4sight => "perf4sight",
        }
    }

    /// The method of that name.
    ///
    /// # Errors
    /// An unknown word, with the nearest known one.
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

/// What a method fitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Fitted {
    Perf4sight(Published),
}

impl Fitted {
    pub(super) fn fit(method: Method, stage: Stage, seed: u64, rows: &[Row]) -> Result<Self> {
        match method {
            Method::Perf4sight => Published::fit(stage, seed, rows).map(Fitted::Perf4sight),
        }
    }

    pub(super) fn method(&self) -> Method {
        match self {
            Fitted::Perf4sight(_) => Method::Perf4sight,
        }
    }

    /// Milliseconds or MiB.
    pub(super) fn predict(&self, network: &Network, workload: Workload) -> f64 {
        match self {
            Fitted::Perf4sight(fitted) => fitted.predict(network, workload),
        }
    }

    pub(super) fn importance(&self, stage: Stage) -> Vec<(&'static str, f64)> {
        match self {
            Fitted::Perf4sight(fitted) => fitted.importance(stage),
        }
    }

    /// Refuses what was fitted on other features than this program computes.
    pub(super) fn check(&self, stage: Stage) -> Result<()> {
        match self {
            Fitted::Perf4sight(fitted) => fitted.check(stage),
        }
    }
}
