//! The protocols of a study, compared on the same rows.

use super::learning::Learned;
use super::trial::Trial;
use crate::fingerprint::{Fingerprint, Gathered, Method, Row};
use perf4sight_base::stats::{mean, scatter};
use serde::Serialize;
use std::collections::BTreeMap;

/// All tests of a fingerprint's accuracy.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// The fingerprint's own method.
    pub own: Protocols,
    /// The published method on the same rows; none where it is the fingerprint's own, or was not fitted.
    pub published: Option<Protocols>,
    /// The measurement noise of the device; none where nothing was measured twice.
    pub noise: Option<Noise>,
    /// Why protocols are missing, as text.
    pub missing: Vec<String>,
}

/// One method, tested in different ways on the same rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Protocols {
    /// What the protocols are of.
    pub method: Method,
    /// Fitted on all available rows.
    pub whole: Trial,
    /// Every network predicted by a fit without any of its levels; none where that is not possible.
    pub left_out: Option<Trial>,
    /// Error against rows fitted on, in ascending rows; empty where no tested level is unseen.
    pub learning: Vec<Learned>,
}

impl Study {
    /// Tests a fingerprint without further fits, and keeps the reason why there are none.
    pub fn without_fits(fingerprint: &Fingerprint, tested: &Gathered, reason: impl Into<String>) -> Self {
        let whole = Trial::of(fingerprint, &tested.rows, &tested.failed);
        let own = Protocols { method: fingerprint.recipe().method, whole, left_out: None, learning: Vec::new() };
        Study { own, published: None, noise: Noise::of(&tested.rows), missing: vec![reason.into()] }
    }

    /// The published method, either the fingerprint's own or fitted for comparison.
    pub fn published(&self) -> Option<&Protocols> {
        match self.own.method {
            Method::Perf4sight => Some(&self.own),
            Method::Hybrid => self.published.as_ref(),
        }
    }
}

/// The scatter of repeated rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Noise {
    /// Configurations that were measured more than once.
    pub repeated: usize,
    /// The mean absolute percentage error that a prediction of the true mean would still have.
    pub mape: f64,
}

impl Noise {
    /// From rows of the same network at the same batch size; none where nothing was measured twice. Repeats of a
    /// level are the same network only where pruning gave the same one, as at level 0.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Option<Self> {
        let mut groups: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        for row in rows {
            let (variant, network) = (&row.record.variant, &row.network);
            let shape = (network.parameters(), network.macs(), network.activations());
            groups.entry((&variant.network, variant.level, shape, row.record.workload)).or_default().push(row.measured);
        }
        let errors: Vec<f64> = groups.values().filter(|group| group.len() > 1).map(|group| scatter(group)).collect();
        (!errors.is_empty()).then(|| Noise { repeated: errors.len(), mape: mean(&errors) })
    }
}
