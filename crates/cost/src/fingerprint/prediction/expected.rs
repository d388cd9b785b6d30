//! The error to expect of a prediction: how far off the fingerprint was for what it had not seen, as the fit that made it found out.

use perf4sight_base::stats::{Scores, mean};
use std::collections::BTreeMap;

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
    pub(in crate::fingerprint) fn of(
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
