//! The fitted models: one for each pair of method and quantity, and the only place that distinguishes them.

use super::FingerprintSubject;
use super::distribution::Extrapolation;
use super::latency::LatencyModel;
use super::memory::MemoryModel;
use super::prediction::StepPredictors;
use super::published::PublishedModel;
use super::recipe::{FitMethod, FitRecipe};
use super::rows::{FailedAttempt, MeasuredRow, Observations};
use crate::records::Variant;
use crate::trees::PUBLISHED_TREES;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats::mean;
use perf4sight_base::units::Bytes;
use perf4sight_network::Network;
use perf4sight_platform::{Platform, TensorMemory};
use perf4sight_step::workload::{Precision, Quantity, Step};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredModel", into = "StoredModel")]
pub(super) enum FittedModel {
    /// The published method, of either quantity.
    Published(PublishedModel),
    /// The hybrid method's latency.
    Latency(Box<LatencyModel>),
    /// The hybrid method's memory.
    Memory(Box<MemoryModel>),
}

impl FittedModel {
    pub(super) fn fit(subject: &FingerprintSubject, recipe: FitRecipe, observations: &Observations) -> Result<Self> {
        let (step, seed) = (subject.step, recipe.seed);
        match (recipe.method, subject.quantity) {
            (FitMethod::Perf4sight, _) => {
                PublishedModel::fit(step, recipe, observations.rows).map(FittedModel::Published)
            }
            (FitMethod::Hybrid, Quantity::Latency) => {
                Ok(FittedModel::Latency(Box::new(LatencyModel::fit(step, seed, observations)?)))
            }
            (FitMethod::Hybrid, Quantity::Memory) => {
                Ok(FittedModel::Memory(Box::new(MemoryModel::fit(step, seed, observations)?)))
            }
        }
    }

    /// The prior of a device, before any measurement on it; always of the hybrid method.
    pub(super) fn prior(quantity: Quantity, platform: &Platform) -> Self {
        match quantity {
            Quantity::Latency => FittedModel::Latency(Box::new(LatencyModel::prior(platform))),
            Quantity::Memory => FittedModel::Memory(Box::new(MemoryModel::prior(platform))),
        }
    }

    pub(super) fn calibrate(
        &self,
        subject: &FingerprintSubject,
        rows: &[MeasuredRow],
        failed: &[FailedAttempt],
    ) -> Result<Self> {
        let step = subject.step;
        match self {
            FittedModel::Published(_) => Err(Error::input("the published method keeps no rows to refit with")
                .help("fit a fingerprint with method = hybrid")),
            FittedModel::Latency(latency) => Ok(FittedModel::Latency(Box::new(latency.calibrate(step, rows)))),
            FittedModel::Memory(memory) => Ok(FittedModel::Memory(Box::new(memory.calibrate(step, rows, failed)?))),
        }
    }

    /// Predictors for the steps of a network; `extrapolation` describes how it differs from the profiled ones. A step
    /// must fit into `limit`, or into the memory of the profiled device.
    pub(super) fn steps<'a>(
        &'a self,
        subject: &'a FingerprintSubject,
        network: &'a Network,
        extrapolation: &Extrapolation,
        limit: Option<Bytes>,
    ) -> StepPredictors<'a> {
        match self {
            // The published method predicts the profiled step only.
            FittedModel::Published(published) => Box::new(move |_, _| Box::new(published.about(subject, network))),
            FittedModel::Latency(latency) => latency.steps(subject.step, network, extrapolation),
            FittedModel::Memory(memory) => {
                let prepared = memory.prepare(network);
                Box::new(move |step, extrapolation| Box::new(prepared.about(step, extrapolation).with_limit(limit)))
            }
        }
    }

    /// Refuses a step at another precision than the subject's where the model cannot predict it: the device does not
    /// support the precision, or no measurement gives its speed. The prior of latency is for single precision.
    pub(super) fn check_precision(&self, subject: &FingerprintSubject, asked: Precision) -> Result<()> {
        self.check_device(asked)?;
        let FittedModel::Latency(latency) = self else { return Ok(()) };
        let known = if latency.is_belief() { Precision::Fp32 } else { subject.step.precision };
        if asked == known || latency.knows(asked) {
            return Ok(());
        }
        let help = match latency.is_belief() {
            true => "nothing was measured on this device: profile networks there (the section [profile]), of that precision or of fp32 and a few rows \
                     of that to calibrate with; memory is simulated without"
                .to_owned(),
            false => format!(
                "measure up to four such rows on the device, best of a network that multiplies much (resnet18) and one that does not (mobilenetv2), and \
                 calibrate with them: perf4sight calibrate NET --fingerprint DIR --precision {}; memory is simulated without",
                asked.name()
            ),
        };
        Err(Error::input(format!("how long a step takes with precision = {} is not known here", asked.name()))
            .expected(format!("steps with precision = {}, which the latency rests on", known.name()))
            .help(help))
    }

    /// Refuses a precision that the device does not support; the published method does not depend on devices.
    pub(super) fn check_device(&self, asked: Precision) -> Result<()> {
        match self {
            FittedModel::Published(_) => Ok(()),
            FittedModel::Latency(latency) => latency.platform().check_precision(asked),
            FittedModel::Memory(memory) => memory.platform().check_precision(asked),
        }
    }

    /// Whether tensors live in a processor's memory, for a model of memory.
    pub(super) fn is_on_processor(&self) -> bool {
        match self {
            FittedModel::Published(_) | FittedModel::Latency(_) => false,
            FittedModel::Memory(memory) => memory.platform().memory == TensorMemory::Host,
        }
    }

    /// Total memory of the profiled device, for a model of memory whose rows have it.
    pub(super) fn capacity(&self) -> Option<Bytes> {
        match self {
            FittedModel::Published(_) | FittedModel::Latency(_) => None,
            FittedModel::Memory(memory) => memory.capacity(),
        }
    }

    /// Memory that the system of a board keeps, for a model of a board's memory.
    pub(super) fn kept_by_system(&self) -> Option<Bytes> {
        match self {
            FittedModel::Published(_) | FittedModel::Latency(_) => None,
            FittedModel::Memory(memory) => memory.platform().system.map(Bytes),
        }
    }

    /// Threads that compute, for a model of a processor's memory.
    pub(super) fn threads(&self) -> Option<u64> {
        match self {
            FittedModel::Published(_) | FittedModel::Latency(_) => None,
            FittedModel::Memory(memory) => memory.platform().threads(),
        }
    }

    /// Refuses rows of a step that cannot calibrate this model. Accepted are rows of its own step and, for latency
    /// fitted at single precision, rows of the same step at another precision.
    pub(super) fn check_teaches(&self, subject: &FingerprintSubject, step: Step) -> Result<()> {
        let own = subject.step;
        let is_taught = matches!(self, FittedModel::Latency(latency) if !latency.is_belief());
        let narrows = own.precision == Precision::Fp32 && Step { precision: own.precision, ..step } == own;
        if step == own || is_taught && narrows {
            return Ok(());
        }
        Err(Error::input(format!("rows of {step} cannot calibrate this {} fingerprint of {own}", subject.quantity))
            .expected("rows of the same steps, or for latency of the same steps but for a precision other than the fp32 of the profile")
            .help("profile such steps and fit a fingerprint of their own"))
    }

    pub(super) fn recipe(&self, seed: u64) -> FitRecipe {
        let (method, trees) = match self {
            FittedModel::Published(published) => (FitMethod::Perf4sight, published.trees()),
            FittedModel::Latency(_) | FittedModel::Memory(_) => (FitMethod::Hybrid, PUBLISHED_TREES),
        };
        FitRecipe { method, seed, trees }
    }

    /// Refuses a model with other features than this program computes, of another quantity than the file states, or
    /// with values that no fit gives.
    pub(super) fn check(&self, subject: &FingerprintSubject) -> Result<()> {
        match (self, subject.quantity) {
            (FittedModel::Published(published), _) => published.check(subject.step),
            (FittedModel::Latency(latency), Quantity::Latency) => latency.check(),
            (FittedModel::Memory(memory), Quantity::Memory) => memory.check(),
            (FittedModel::Latency(_), Quantity::Memory) | (FittedModel::Memory(_), Quantity::Latency) => {
                Err(Error::input("the model of this fingerprint is of another quantity than its subject"))
            }
        }
    }
}

/// The error of the hybrid method on unseen variants, estimated from the rows of a profile alone: the mean absolute
/// percentage error for rows of each `group` of variants, left out in turn. All groups weigh the same. None where
/// there are too few rows, or only one group.
///
/// # Errors
/// When a fit fails.
pub fn left_out_error<G: Ord + Send + Sync>(
    (step, quantity): (Step, Quantity),
    seed: u64,
    observations: &Observations,
    group: impl Fn(&Variant) -> G + Sync,
) -> Result<Option<f64>> {
    let residuals = match quantity {
        Quantity::Latency => LatencyModel::left_out(step, seed, observations, &group)?,
        Quantity::Memory => MemoryModel::left_out(step, seed, observations, &group)?,
    };
    // A residual is the logarithm of measured over predicted; an error is relative to the measurement.
    let error = |residual: &f64| 100.0 * ((-residual).exp() - 1.0).abs();
    let groups = residuals.iter().filter(|residuals| !residuals.is_empty());
    let errors: Vec<f64> = groups.map(|group| mean(&group.iter().map(error).collect::<Vec<f64>>())).collect();
    Ok((!errors.is_empty()).then(|| mean(&errors)))
}

/// A fitted model as stored in a file: by the name of its method, and for the hybrid method also of its quantity.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredModel {
    Perf4sight(PublishedModel),
    Hybrid(HybridModel),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum HybridModel {
    Latency(Box<LatencyModel>),
    Memory(Box<MemoryModel>),
}

impl From<FittedModel> for StoredModel {
    fn from(fitted: FittedModel) -> Self {
        match fitted {
            FittedModel::Published(published) => StoredModel::Perf4sight(published),
            FittedModel::Latency(latency) => StoredModel::Hybrid(HybridModel::Latency(latency)),
            FittedModel::Memory(memory) => StoredModel::Hybrid(HybridModel::Memory(memory)),
        }
    }
}

impl From<StoredModel> for FittedModel {
    fn from(stored: StoredModel) -> Self {
        match stored {
            StoredModel::Perf4sight(published) => FittedModel::Published(published),
            StoredModel::Hybrid(HybridModel::Latency(latency)) => FittedModel::Latency(latency),
            StoredModel::Hybrid(HybridModel::Memory(memory)) => FittedModel::Memory(memory),
        }
    }
}
