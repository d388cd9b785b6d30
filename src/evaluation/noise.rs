//! The noise floor: how far measurements of the same thing lie apart, which no prediction can undercut.

use crate::fingerprint::Row;
use crate::records::Identity;
use crate::stats::mean;
use serde::Serialize;
use std::collections::BTreeMap;

/// The scatter of repeated rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Noise {
    /// Configurations that were measured more than once.
    pub repeated: usize,
    /// The mean absolute percentage error that a prediction of the true mean would still have.
    pub mape: f64,
}

impl Noise {
    /// From rows of the same variant, stage and batch size, whatever the repeat of the level; none where nothing was measured twice.
    pub fn of(rows: &[Row]) -> Option<Self> {
        let mut groups: BTreeMap<Identity, Vec<f64>> = BTreeMap::new();
        for row in rows {
            groups.entry(row.record.identity()).or_default().push(row.measured);
        }
        let errors: Vec<f64> = groups.values().filter(|group| group.len() > 1).map(|group| scatter(group)).collect();
        (!errors.is_empty()).then(|| Noise { repeated: errors.len(), mape: mean(&errors) })
    }
}

/// Mean absolute deviation in percent. The mean of n values lies nearer to them than the true one does, by the root of (n - 1) / n.
fn scatter(group: &[f64]) -> f64 {
    let (count, middle) = (group.len() as f64, mean(group));
    let deviations: Vec<f64> = group.iter().map(|value| (value - middle).abs() / middle).collect();
    100.0 * mean(&deviations) * (count / (count - 1.0)).sqrt()
}
