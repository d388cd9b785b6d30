//! The protocols of a study, compared on the same rows.

use super::learning::LearningPoint;
use super::trial::Trial;
use crate::fingerprint::{Fingerprint, FitMethod, GatheredRows, MeasuredRow};
use perf4sight_base::stats::{mean, scatter};
use serde::Serialize;
use std::collections::BTreeMap;

/// All tests of a fingerprint's accuracy.
#[derive(Debug, Clone, PartialEq)]
pub struct AccuracyStudy {
    /// The fingerprint's own method.
    pub own: MethodTests,
    /// The published method on the same rows; none where it is the fingerprint's own, or was not fitted.
    pub published: Option<MethodTests>,
    /// The measurement noise of the device; none where nothing was measured twice.
    pub noise: Option<RowScatter>,
    /// Why protocols are missing, as text.
    pub missing: Vec<String>,
}

/// One method, tested in different ways on the same rows.
#[derive(Debug, Clone, PartialEq)]
pub struct MethodTests {
    /// What the protocols are of.
    pub method: FitMethod,
    /// Fitted on all available rows.
    pub whole: Trial,
    /// Every network predicted by a fit without any of its levels; none where that is not possible.
    pub left_out: Option<Trial>,
    /// Error against rows fitted on, in ascending rows; empty where no tested level is unseen.
    pub learning: Vec<LearningPoint>,
}

impl AccuracyStudy {
    /// Tests a fingerprint without further fits, and keeps the reason why there are none.
    pub fn without_fits(fingerprint: &Fingerprint, tested: &GatheredRows, reason: impl Into<String>) -> Self {
        let whole = Trial::run(fingerprint, &tested.rows, &tested.failed);
        let own = MethodTests { method: fingerprint.recipe().method, whole, left_out: None, learning: Vec::new() };
        AccuracyStudy { own, published: None, noise: RowScatter::from_rows(&tested.rows), missing: vec![reason.into()] }
    }

    /// The published method, either the fingerprint's own or fitted for comparison.
    pub fn published(&self) -> Option<&MethodTests> {
        match self.own.method {
            FitMethod::Perf4sight => Some(&self.own),
            FitMethod::Hybrid => self.published.as_ref(),
        }
    }
}

/// The scatter of repeated rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RowScatter {
    /// Configurations that were measured more than once.
    pub repeated: usize,
    /// The mean absolute percentage error that a prediction of the true mean would still have.
    pub mape: f64,
}

impl RowScatter {
    /// From rows of the same network at the same batch size; none where nothing was measured twice. Repeats of a
    /// level are the same network only where pruning gave the same one, as at level 0.
    pub fn from_rows<'a>(rows: impl IntoIterator<Item = &'a MeasuredRow>) -> Option<Self> {
        let mut groups: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        for row in rows {
            let (variant, network) = (&row.record.variant, &row.network);
            let shape = (network.parameters(), network.macs(), network.activations());
            groups.entry((&variant.network, variant.level, shape, row.record.workload)).or_default().push(row.measured);
        }
        let errors: Vec<f64> = groups.values().filter(|group| group.len() > 1).map(|group| scatter(group)).collect();
        (!errors.is_empty()).then(|| RowScatter { repeated: errors.len(), mape: mean(&errors) })
    }
}
