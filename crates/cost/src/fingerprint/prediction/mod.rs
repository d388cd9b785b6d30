//! A prediction in full: the value, its uncertainty, and how the network differs from the profiled ones.

mod predictor;
mod verdict;

pub(super) use predictor::{LowerBound, Predictor, StepPredictors};
pub use verdict::{CountedMemory, FitDecision, FitVerdict, MaxBatch, MemoryLimit};

use super::distribution::OutOfDistribution;
use perf4sight_base::stats::{ErrorScores, mean};
use perf4sight_base::units::{Bytes, Milliseconds};
use perf4sight_step::workload::Quantity;
use std::collections::BTreeMap;
use std::fmt;

/// The prediction for one network at one batch size.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The likeliest measurement.
    pub value: PredictedValue,
    /// The 90 % interval of measurements; none for the published method, which has no intervals.
    pub interval: Option<PredictionInterval>,
    /// How the network differs from everything profiled, if it does.
    pub out_of_distribution: Vec<OutOfDistribution>,
}

/// Time or memory of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PredictedValue {
    /// Time of a step.
    Latency(Milliseconds),
    /// As `mem_used` of a profile.
    Memory(Bytes),
}

impl PredictedValue {
    /// From the unit of the profile's columns: milliseconds or MiB.
    pub fn new(quantity: Quantity, value: f64) -> Self {
        match quantity {
            Quantity::Latency => PredictedValue::Latency(Milliseconds(value)),
            Quantity::Memory => PredictedValue::Memory(Bytes::from_mib(value)),
        }
    }

    /// In the unit of the profile's columns: milliseconds or MiB.
    pub fn value(self) -> f64 {
        match self {
            PredictedValue::Latency(latency) => latency.0,
            PredictedValue::Memory(memory) => memory.mib(),
        }
    }
}

impl fmt::Display for PredictedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PredictedValue::Latency(latency) => latency.fmt(f),
            PredictedValue::Memory(memory) => memory.fmt(f),
        }
    }
}

/// Nine of ten measurements are in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictionInterval {
    /// Its lower end.
    pub low: PredictedValue,
    /// Its upper end.
    pub high: PredictedValue,
    /// What the share of nine in ten rests on.
    pub basis: IntervalBasis,
}

impl PredictionInterval {
    /// Whether a measured value, in the unit of the profile's columns, is inside.
    pub fn contains(&self, measured: f64) -> bool {
        (self.low.value()..=self.high.value()).contains(&measured)
    }
}

perf4sight_base::words! {
    /// How the 90 % of an interval were obtained.
    pub enum IntervalBasis {
        /// Conformal prediction over at least ten networks, each left out once.
        Conformal = "conformal 90 %",
        /// The same residuals of fewer networks: too few for a guarantee.
        Estimated = "estimated 90 % (fewer than ten networks profiled)",
        /// The network's own levels, each left out once.
        Levels = "estimated 90 % (from other levels of this network)",
        /// The variation between networks, levels and rows, and the uncertainty of the device's parameters, learned from
        /// networks left out.
        Networks = "estimated 90 % (from networks left out)",
        /// The same, and a few rows of this network.
        Rows = "estimated 90 % (from rows of this network)",
        /// The prior of such devices, before any measurement.
        Prior = "90 % of a prior: nothing was measured on this device",
        /// The basis of the profiled step's intervals, widened by the difference between the steps: this step was not
        /// measured.
        OtherStep = "as of the profiled step, not tested of this one",
    }
}

/// The width of a network's intervals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::fingerprint) struct IntervalBand {
    /// Natural logarithms of the factors between a prediction and the lower and upper end of its interval.
    pub ends: [f64; 2],
    pub basis: IntervalBasis,
}

impl IntervalBand {
    /// The same width below and above.
    pub fn even(width: f64, basis: IntervalBasis) -> Self {
        IntervalBand { ends: [-width, width], basis }
    }

    /// The band that holds both.
    pub fn union(self, other: IntervalBand) -> Self {
        let ([low, high], [lower, higher]) = (self.ends, other.ends);
        IntervalBand { ends: [low.min(lower), high.max(higher)], ..self }
    }
}

/// The error to expect of one network, in percent.
#[derive(Debug, Clone, PartialEq)]
pub enum ExpectedError {
    /// For a level of a profiled network: the error at other levels.
    Levels {
        /// Mean absolute error over the rows.
        mape: f64,
        /// The number of rows at levels that the fingerprint was not fitted on.
        rows: usize,
    },
    /// For an unprofiled network: the error for networks left out.
    LeftOut {
        /// Mean over the networks.
        mape: f64,
        /// The number of networks, each left out in turn.
        networks: usize,
        /// The network with the largest error.
        worst: String,
        /// The error of that network.
        worst_mape: f64,
    },
}

impl ExpectedError {
    /// The error to expect. For a network that was profiled at other levels, it comes from the `scores` of levels not
    /// fitted on; for any other network, from the errors of networks left out. Where networks were too few to leave
    /// one out, it falls back to the error of levels, reported as such. None where nothing was tested.
    pub(in crate::fingerprint) fn new(
        is_profiled: bool,
        scores: Option<ErrorScores>,
        left_out: &BTreeMap<String, f64>,
    ) -> Option<Self> {
        let levels = || scores.map(|scores| ExpectedError::Levels { mape: scores.mape, rows: scores.rows });
        match is_profiled {
            true => levels(),
            false => Self::of_networks(left_out).or_else(levels),
        }
    }

    fn of_networks(left_out: &BTreeMap<String, f64>) -> Option<Self> {
        let errors: Vec<f64> = left_out.values().copied().collect();
        let (worst, &worst_mape) = left_out.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        Some(ExpectedError::LeftOut { mape: mean(&errors), networks: errors.len(), worst: worst.clone(), worst_mape })
    }
}

/// The breakdown of a step's predicted latency.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyShares {
    /// By class of operation, the costliest first; together the whole latency.
    pub classes: Vec<LatencyShare>,
    /// By layer of the network, the costliest first; time that no layer owns, such as the loss, is not included.
    pub layers: Vec<LatencyShare>,
}

/// One part of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyShare {
    /// The name of the class or of the layer.
    pub name: String,
    /// Its part of the predicted latency.
    pub latency: Milliseconds,
}

/// One operation of a step, forward or backward, or a part that belongs to none: measured and predicted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimedOperation {
    /// As [`KernelClass::name`](crate::features::physical::KernelClass::name).
    pub class: &'static str,
    /// Measured in place, as the profile timed it.
    pub measured: Milliseconds,
    /// In isolation: without overlap between operations or effects on each other's caches.
    pub predicted: Milliseconds,
}
