//! The fitted performance model of one device, stage and quantity.
//!
//! A [`Selection`] says which rows of a profile to take; [`Gathered`] are those rows with their networks and all that had
//! to be left out; with the facts of the device they are [`Observations`]; [`Fingerprint::fit`] fits them by a [`Method`];
//! [`Fingerprint::about`] answers for any network.

mod about;
mod calibrate;
mod cross_validation;
mod estimate;
mod files;
mod hybrid;
mod latency;
mod memory;
mod method;
mod novelty;
mod prediction;
mod published;
mod rows;

pub use about::About;
pub use calibrate::MOST_ROWS;
pub use estimate::left_out_error;
pub use files::{Fingerprints, Provenance, file_name};
pub use memory::{Likelier, Limit, Tried, likelier};
pub use method::Method;
pub use novelty::{LEAST_COVERAGE, Unlike, check_understood};
pub use prediction::{
    Basis, Call, Counts, Expected, Interval, MaxBatch, Predicted, Prediction, Room, Share, Shares, TimedOperation,
    Verdict,
};
pub use rows::{Attempt, Gathered, Levels, MOST_FITTED, Networks, Observations, Row, Selection, gather};

use crate::error::{Error, Result};
use crate::machine::Setting;
use crate::network::Network;
use crate::records::Variant;
use crate::stats::Scores;
use crate::workload::{Quantity, Step};
use method::Fitted;
use novelty::Profiled;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Fewer rows than this cannot show how cost grows with batch size and level.
pub const FEWEST_ROWS: usize = 10;

/// What a fingerprint speaks of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The device's name.
    pub device: String,
    /// The data set whose shapes the networks have.
    pub dataset: String,
    /// The step whose cost it tells.
    #[serde(flatten)]
    pub step: Step,
    /// Latency or memory.
    pub quantity: Quantity,
}

/// How many rows of a variant a fingerprint was fitted on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FittedOn {
    /// The network at its level.
    #[serde(flatten)]
    pub variant: Variant,
    /// Rows, repeated ones included.
    pub rows: usize,
    /// The largest batch size among them.
    pub largest_batch: u64,
}

/// The fitted performance model of one device, stage and quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    format: u32,
    subject: Subject,
    fitted_on: Vec<FittedOn>,
    seed: u64,
    /// How well it predicted rows it was not fitted on, when it was fitted; none where there were no such rows.
    pub scores: Option<Scores>,
    /// Mean absolute percentage errors of fits without a network, for that network; empty where they were too few to leave one out.
    pub left_out: BTreeMap<String, f64>,
    /// What the profiles it was fitted on were measured with, where they say so.
    pub settings: Vec<Setting>,
    software: BTreeMap<String, String>,
    profiled: Profiled,
    fitted: Fitted,
    /// Everything that differs between equal fits.
    pub provenance: Provenance,
}

impl Fingerprint {
    /// Fits observations; equal ones and an equal seed give an equal fingerprint.
    ///
    /// # Errors
    /// Fewer than [`FEWEST_ROWS`] rows.
    pub fn fit(subject: Subject, method: Method, seed: u64, observations: &Observations) -> Result<Self> {
        let rows = observations.rows;
        if rows.len() < FEWEST_ROWS {
            return Err(too_few(&subject, rows.len()));
        }
        Ok(Fingerprint {
            format: files::FORMAT,
            profiled: Profiled::new(observations),
            fitted: Fitted::fit(&subject, method, seed, observations)?,
            subject,
            fitted_on: count(rows),
            seed,
            scores: None,
            left_out: BTreeMap::new(),
            settings: Vec::new(),
            software: BTreeMap::from([("perf4sight".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
            provenance: Provenance::default(),
        })
    }

    /// What it predicts for one step of `network` with `batch` samples; [`Fingerprint::about`] tells more, and faster for many
    /// batch sizes.
    pub fn predict(&self, network: &Network, batch: u64) -> Predicted {
        self.about(network).at(batch).value
    }

    /// What it speaks of.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// How it was fitted.
    pub fn method(&self) -> Method {
        self.fitted.method()
    }

    /// What it was fitted on, by network, level and repeat.
    pub fn fitted_on(&self) -> &[FittedOn] {
        &self.fitted_on
    }

    /// Whether it was fitted on rows of this network at this level, in any repeat.
    pub fn knows(&self, network: &str, level: u8) -> bool {
        self.fitted_on.iter().any(|part| part.variant.network == network && part.variant.level == level)
    }

    /// Whether it was fitted on just these rows, as far as variants and their numbers of rows tell.
    pub fn was_fitted_on(&self, rows: &[Row]) -> bool {
        count(rows) == self.fitted_on
    }

    /// The largest batch size it was fitted on; trees do not extrapolate beyond it.
    pub fn largest_batch(&self) -> u64 {
        self.profiled.largest_batch()
    }

    /// The seed of the fit.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The features with the share of the fit each is responsible for, in the order of the schema.
    pub fn importance(&self) -> Vec<(&'static str, f64)> {
        self.fitted.importance(self.subject.step)
    }
}

fn count(rows: &[Row]) -> Vec<FittedOn> {
    let mut batches: BTreeMap<&Variant, Vec<u64>> = BTreeMap::new();
    for row in rows {
        batches.entry(&row.record.variant).or_default().push(row.record.workload.batch);
    }
    let counted = batches.into_iter().map(|(variant, batches)| FittedOn {
        variant: variant.clone(),
        rows: batches.len(),
        largest_batch: batches.into_iter().max().unwrap_or_default(),
    });
    counted.collect()
}

fn too_few(subject: &Subject, rows: usize) -> Error {
    let Subject { device, step, quantity, .. } = subject;
    Error::input(format!("{rows} passed {step} {quantity} rows of {device} are too few to fit on"))
        .expected(format!("at least {FEWEST_ROWS} rows"))
        .help("profile more batch sizes, levels or networks, or list more of them in train_nets and train_logs")
}
