//! The ways to fit: one name in configurations and files, one kind of fitted model each.

use super::Subject;
use super::hybrid::Hybrid;
use super::published::Published;
use super::rows::Row;
use super::rows::{Attempt, Observations};
use crate::error::{Error, Result, suggestion};
use crate::workload::{Quantity, Step};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A way to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The published one: extremely randomised trees on the published features, fitted on the raw value.
    Perf4sight,
    /// Physical: memory by simulation, latency by the time of every operation, and fitted is only what these leave open.
    Hybrid,
}

impl Method {
    /// All methods, in the order they are listed to people.
    pub const ALL: [Method; 2] = [Method::Hybrid, Method::Perf4sight];

    /// The word in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Method::Perf4sight => "perf4sight",
            Method::Hybrid => "hybrid",
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
    Hybrid(Hybrid),
}

impl Fitted {
    pub(super) fn fit(subject: &Subject, method: Method, seed: u64, observations: &Observations) -> Result<Self> {
        let Subject { step, quantity, .. } = *subject;
        match method {
            Method::Perf4sight => Published::fit(step, seed, observations.rows).map(Fitted::Perf4sight),
            Method::Hybrid => Hybrid::fit(step, quantity, seed, observations).map(Fitted::Hybrid),
        }
    }

    /// The same with rows of a new network.
    pub(super) fn calibrate(&self, subject: &Subject, rows: &[Row], failed: &[Attempt]) -> Result<Self> {
        match self {
            Fitted::Perf4sight(_) => Err(Error::input("the published method keeps no rows to refit with")
                .help("fit a fingerprint with method = hybrid")),
            Fitted::Hybrid(hybrid) => hybrid.calibrate(subject.step, rows, failed).map(Fitted::Hybrid),
        }
    }

    pub(super) fn method(&self) -> Method {
        match self {
            Fitted::Perf4sight(_) => Method::Perf4sight,
            Fitted::Hybrid(_) => Method::Hybrid,
        }
    }

    /// Only trees have features that are responsible for shares of the fit.
    pub(super) fn importance(&self, step: Step) -> Vec<(&'static str, f64)> {
        match self {
            Fitted::Perf4sight(published) => published.importance(step),
            Fitted::Hybrid(_) => Vec::new(),
        }
    }

    /// Refuses what was fitted on other features than this program computes.
    pub(super) fn check(&self, step: Step, quantity: Quantity) -> Result<()> {
        match self {
            Fitted::Perf4sight(published) => published.check(step),
            Fitted::Hybrid(hybrid) => hybrid.check(quantity),
        }
    }
}
