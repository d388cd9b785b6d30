//! The fitted performance model of one device, stage and quantity.
//!
//! A [`RowSelection`] specifies the rows of a profile; [`GatheredRows`] are those rows with their networks, and a list of
//! the rows left out; with the facts of the device they are [`Observations`]; [`Fingerprint::fit`] fits them by a
//! [`FitRecipe`]; [`Fingerprint::about`] predicts any network.

mod about;
mod calibrate;
mod cross_validation;
mod depthwise;
mod distribution;
mod files;
mod fitted;
mod latency;
mod memory;
mod prediction;
mod prior;
mod published;
mod recipe;
mod rows;

pub use about::{PreparedNetwork, PreparedStep};
pub use calibrate::MOST_ROWS;
pub use distribution::{LEAST_COVERAGE, OutOfDistribution, calibration_kinds, check_understood};
pub use files::{DeviceFingerprints, file_name};
pub use fitted::left_out_error;
pub use memory::{LikelierPlatform, MemoryBoundary, TriedStep, likelier_platform};
pub use prediction::{
    CountedMemory, ExpectedError, FitDecision, FitVerdict, IntervalBasis, LatencyShare, LatencyShares, MaxBatch,
    MemoryLimit, PredictedValue, Prediction, PredictionInterval, TimedOperation,
};
pub use recipe::{FitMethod, FitRecipe};
pub use rows::{
    FailedAttempt, GatheredRows, LevelSelection, MOST_FITTED, MeasuredRow, NetworkFolder, Observations, RowSelection,
    gather,
};

use crate::records::Variant;
use distribution::ProfiledNetworks;
use fitted::FittedModel;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats::ErrorScores;
use perf4sight_machine::MachineProperties;
use perf4sight_step::workload::{Quantity, Step};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Fewer rows than this cannot show how cost grows with batch size and level.
pub const FEWEST_ROWS: usize = 10;

/// Version of a fingerprint's file; raised whenever an older program could misread it.
const FORMAT: u32 = 3;

/// What a fingerprint predicts, and of which device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FingerprintSubject {
    /// The value of the key `device_name`.
    pub device: String,
    /// The data set whose shapes the networks have.
    pub dataset: String,
    /// The step whose cost it predicts.
    #[serde(flatten)]
    pub step: Step,
    /// Latency or memory.
    pub quantity: Quantity,
}

/// A variant that a fingerprint was fitted on, with the number of its rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FittedVariant {
    /// The network at its level.
    #[serde(flatten)]
    pub variant: Variant,
    /// Rows, repeated ones included.
    pub rows: usize,
    /// The largest batch size among them.
    pub largest_batch: u64,
}

/// Everything that differs between equal fits.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FitProvenance {
    /// When it was fitted, in RFC 3339.
    pub date: String,
    /// Seconds the fit took.
    pub seconds: f64,
}

/// The fitted performance model of one device, stage and quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    format: u32,
    subject: FingerprintSubject,
    fitted_on: Vec<FittedVariant>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    taught_by: Vec<FittedVariant>,
    seed: u64,
    /// Scores on rows it was not fitted on, at the time of the fit; none where there were no such rows.
    pub scores: Option<ErrorScores>,
    /// Mean absolute percentage errors of fits without a network, for that network; empty where networks were too few
    /// to leave one out.
    pub left_out: BTreeMap<String, f64>,
    /// The settings of the profiles it was fitted on, where they contain them.
    pub settings: Vec<MachineProperties>,
    software: BTreeMap<String, String>,
    profiled: ProfiledNetworks,
    fitted: FittedModel,
    /// Everything that differs between equal fits.
    pub provenance: FitProvenance,
}

impl Fingerprint {
    /// Fits observations; equal ones and an equal recipe give an equal fingerprint.
    ///
    /// # Errors
    /// Fewer than [`FEWEST_ROWS`] rows.
    pub fn fit(subject: FingerprintSubject, recipe: FitRecipe, observations: &Observations) -> Result<Self> {
        let rows = observations.rows;
        if rows.len() < FEWEST_ROWS {
            return Err(too_few(&subject, rows.len()));
        }
        let fitted = FittedModel::fit(&subject, recipe, observations)?;
        Ok(Fingerprint {
            profiled: ProfiledNetworks::new(observations),
            fitted_on: count(rows),
            taught_by: count(observations.taught),
            seed: recipe.seed,
            ..Self::without_rows(subject, fitted)
        })
    }

    fn without_rows(subject: FingerprintSubject, fitted: FittedModel) -> Self {
        Fingerprint {
            format: FORMAT,
            subject,
            fitted_on: Vec::new(),
            taught_by: Vec::new(),
            seed: 0,
            scores: None,
            left_out: BTreeMap::new(),
            settings: Vec::new(),
            software: BTreeMap::from([("perf4sight".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
            profiled: ProfiledNetworks::default(),
            fitted,
            provenance: FitProvenance::default(),
        }
    }

    /// The predicted quantity, and its device, dataset and step.
    pub fn subject(&self) -> &FingerprintSubject {
        &self.subject
    }

    /// Method, seed and number of trees that give the same fit again.
    pub fn recipe(&self) -> FitRecipe {
        self.fitted.recipe(self.seed)
    }

    /// The variants it was fitted on, by network, level and repeat.
    pub fn fitted_on(&self) -> &[FittedVariant] {
        &self.fitted_on
    }

    /// The calibration networks it was fitted on, with their rows: not the user's, and never scored.
    pub fn taught_by(&self) -> &[FittedVariant] {
        &self.taught_by
    }

    /// Whether it was fitted on rows of this network at this level, in any repeat.
    pub fn knows(&self, network: &str, level: u8) -> bool {
        self.fitted_on.iter().any(|part| part.variant.network == network && part.variant.level == level)
    }

    /// Whether it was fitted on these rows; compares variants and their numbers of rows.
    pub fn was_fitted_on(&self, gathered: &GatheredRows) -> bool {
        count(&gathered.rows) == self.fitted_on && count(&gathered.taught) == self.taught_by
    }

    /// The largest batch size it was fitted on; trees do not extrapolate beyond it.
    pub fn largest_batch(&self) -> u64 {
        self.profiled.largest_batch()
    }
}

fn count(rows: &[MeasuredRow]) -> Vec<FittedVariant> {
    let mut batches: BTreeMap<&Variant, Vec<u64>> = BTreeMap::new();
    for row in rows {
        batches.entry(&row.record.variant).or_default().push(row.record.workload.batch);
    }
    let counted = batches.into_iter().map(|(variant, batches)| FittedVariant {
        variant: variant.clone(),
        rows: batches.len(),
        largest_batch: batches.into_iter().max().unwrap_or_default(),
    });
    counted.collect()
}

fn too_few(subject: &FingerprintSubject, rows: usize) -> Error {
    let FingerprintSubject { device, step, quantity, .. } = subject;
    Error::input(format!("{rows} {step} {quantity} rows of {device} that passed are too few to fit on"))
        .expected(format!("at least {FEWEST_ROWS} rows"))
        .help("profile more batch sizes, levels or networks, or list more of them in train_nets and train_logs")
}
