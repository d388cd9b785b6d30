//! The scores of `report.json`.

use super::Evaluation;
use perf4sight_base::stats::ErrorScores;
use serde::Serialize;
use std::collections::BTreeMap;

/// Scores over all rows, as stored in `report.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Accuracy {
    /// Over all rows; for networks left out, the means over networks.
    #[serde(flatten)]
    pub scores: ErrorScores,
    /// Mean of the networks' mean errors, in percent: every network weighs the same, however many rows it has.
    pub mean_over_networks: f64,
    /// Percent of the rows inside their 90 % interval, every network weighing the same; none where there are no intervals.
    pub coverage_90: Option<f64>,
    /// Rows of unpruned networks: usually the ones that a user asks for.
    pub level_0: Option<ErrorScores>,
    /// All other rows.
    pub pruned: Option<ErrorScores>,
    /// The scores of each network by name.
    pub networks: BTreeMap<String, NetworkAccuracy>,
}

/// Scores of one network, at all levels and at each.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NetworkAccuracy {
    /// Over all its levels.
    #[serde(flatten)]
    pub scores: ErrorScores,
    /// Percent of its rows inside their 90 % interval; none where there are no intervals.
    pub coverage_90: Option<f64>,
    /// By pruning level in percent.
    pub levels: BTreeMap<u8, ErrorScores>,
}

impl Evaluation {
    /// All scores of `report.json`, every row weighing the same; none where there are no cases.
    pub fn accuracy(&self) -> Option<Accuracy> {
        self.accuracy_by(Evaluation::scores)
    }

    /// The same with equal weight for every network: the accuracy to expect for a further network, however many rows
    /// each of these has.
    pub fn accuracy_over_networks(&self) -> Option<Accuracy> {
        self.accuracy_by(Evaluation::scores_over_networks)
    }

    fn accuracy_by(&self, scores: fn(&Evaluation) -> Option<ErrorScores>) -> Option<Accuracy> {
        let names = self.by(|case| case.variant.network.clone()).into_keys();
        let networks: BTreeMap<String, NetworkAccuracy> =
            names.filter_map(|name| Some((name.clone(), self.of_network(&name)?))).collect();
        Some(Accuracy {
            scores: scores(self)?,
            mean_over_networks: self.mean_over_networks()?,
            coverage_90: self.coverage_90(),
            level_0: scores(&self.at_level_0(true)),
            pruned: scores(&self.at_level_0(false)),
            networks,
        })
    }

    fn of_network(&self, name: &str) -> Option<NetworkAccuracy> {
        let own = self.filter(|case| case.variant.network == name);
        let levels = own.by(|case| case.variant.level);
        Some(NetworkAccuracy { scores: own.scores()?, coverage_90: own.coverage_90(), levels })
    }
}
