//! A prediction in full: the value, how far off it may be, and what about the network nobody has profiled.

mod predictor;
mod verdict;

pub(super) use predictor::{Least, Predictor, Steps};
pub use verdict::{Call, Counts, MaxBatch, MemoryLimit, Verdict};

use super::distribution::OutOfDistribution;
use perf4sight_base::stats::{Scores, mean};
use perf4sight_base::units::{Bytes, Milliseconds};
use perf4sight_step::workload::Quantity;
use std::collections::BTreeMap;
use std::fmt;

/// What a fingerprint says of one network at one batch size.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The likeliest value.
    pub value: Predicted,
    /// Where nine of ten measurements should lie; none for the published method, which knows no intervals.
    pub interval: Option<Interval>,
    /// What sets the network apart from everything profiled, if anything.
    pub out_of_distribution: Vec<OutOfDistribution>,
}

/// What a fingerprint answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Predicted {
    /// Time of a step.
    Latency(Milliseconds),
    /// Memory of a step.
    Memory(Bytes),
}

impl Predicted {
    /// From the unit of the profile's columns: milliseconds or MiB.
    pub(in crate::fingerprint) fn new(quantity: Quantity, value: f64) -> Self {
        match quantity {
            Quantity::Latency => Predicted::Latency(Milliseconds(value)),
            Quantity::Memory => Predicted::Memory(Bytes::from_mib(value)),
        }
    }

    /// In the unit of the profile's columns: milliseconds or MiB.
    pub fn value(self) -> f64 {
        match self {
            Predicted::Latency(latency) => latency.0,
            Predicted::Memory(memory) => memory.mib(),
        }
    }
}

impl fmt::Display for Predicted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Predicted::Latency(latency) => latency.fmt(f),
            Predicted::Memory(memory) => memory.fmt(f),
        }
    }
}

/// A 90 % prediction interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: Predicted,
    /// Its upper end.
    pub high: Predicted,
    /// What the 90 % rest on.
    pub basis: Basis,
}

impl Interval {
    /// Whether a measured value, in the unit of the profile's columns, lies inside.
    pub fn contains(&self, measured: f64) -> bool {
        (self.low.value()..=self.high.value()).contains(&measured)
    }
}

/// What the 90 % of an interval rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Conformal prediction over at least ten networks, each left out once.
    Conformal,
    /// The same residuals of fewer networks: too few for a guarantee.
    Estimated,
    /// The network was profiled: its own levels, each left out once.
    Levels,
    /// How much networks, levels and rows vary and how uncertain the device's parameters are, learned from networks left out.
    Networks,
    /// The same, and a few rows of this network.
    Rows,
    /// What is believed of such devices before anything is measured.
    Prior,
    /// What those of the profiled step rest on, widened by what this one does otherwise: of such a step nothing was measured.
    OtherStep,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Basis::Conformal => "conformal 90 %",
            Basis::Estimated => "estimated 90 % (fewer than ten networks profiled)",
            Basis::Levels => "estimated 90 % (from other levels of this network)",
            Basis::Networks => "estimated 90 % (from networks left out)",
            Basis::Rows => "estimated 90 % (from rows of this network)",
            Basis::Prior => "90 % of a prior: nothing was measured on this device",
            Basis::OtherStep => "as of the profiled step, not tested of this one",
        })
    }
}

/// How wide the intervals of one network are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::fingerprint) struct Band {
    /// Natural logarithms of the factors between a prediction and the lower and upper end of its interval.
    pub ends: [f64; 2],
    /// What the 90 % rest on.
    pub basis: Basis,
}

impl Band {
    /// As far below as above.
    pub fn even(width: f64, basis: Basis) -> Self {
        Band { ends: [-width, width], basis }
    }
}

/// The error to expect of one network, in percent.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// It is a level of a network that was profiled: as of other levels.
    Levels {
        /// Mean absolute error over the rows.
        mape: f64,
        /// How many rows of levels that the fingerprint was not fitted on.
        rows: usize,
    },
    /// Nobody profiled it: as of networks left out.
    LeftOut {
        /// Mean over the networks.
        mape: f64,
        /// How many were left out, each in turn.
        networks: usize,
        /// The one it was farthest off for.
        worst: String,
        /// And how far.
        worst_mape: f64,
    },
}

impl Expected {
    /// The error to expect of a network that was profiled at other levels, from the `scores` of levels not fitted on, or of one that never
    /// was, from the errors of networks left out; of the latter that of levels, told as such, where networks were too few to leave one out;
    /// none where nothing was tested.
    pub(in crate::fingerprint) fn new(
        is_profiled: bool,
        scores: Option<Scores>,
        left_out: &BTreeMap<String, f64>,
    ) -> Option<Self> {
        let levels = || scores.map(|scores| Expected::Levels { mape: scores.mape, rows: scores.rows });
        match is_profiled {
            true => levels(),
            false => Self::of_networks(left_out).or_else(levels),
        }
    }

    fn of_networks(left_out: &BTreeMap<String, f64>) -> Option<Self> {
        let errors: Vec<f64> = left_out.values().copied().collect();
        let (worst, &worst_mape) = left_out.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        Some(Expected::LeftOut { mape: mean(&errors), networks: errors.len(), worst: worst.clone(), worst_mape })
    }
}

/// What a step's predicted latency is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Shares {
    /// By class of operation, the costliest first; together the whole latency.
    pub classes: Vec<Share>,
    /// By layer of the network, the costliest first; what no layer owns, such as the loss, is in none.
    pub layers: Vec<Share>,
}

/// One part of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// The class in words, or the layer's name.
    pub name: String,
    /// Its part of the predicted latency.
    pub latency: Milliseconds,
}

/// One operation of a step, forward or backward, or what belongs to none: measured and predicted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimedOperation {
    /// The class in words.
    pub class: &'static str,
    /// As the profile timed it, in place.
    pub measured: Milliseconds,
    /// By itself: what operations do at the same time or to one another's caches is not in it.
    pub predicted: Milliseconds,
}
