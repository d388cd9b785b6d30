//! The noise floor: how far measurements of the same thing lie apart, which no prediction can undercut.

use crate::fingerprint::Row;
use perf4sight_base::stats::{mean, scatter};
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
    /// From rows of the same network at the same batch size; none where nothing was measured twice. Repeats of a level are the same
    /// network only where pruning left the same one, as it does at level 0.
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
