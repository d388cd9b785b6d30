//! Predicted against measured, summed up: over all rows, per network, per level.

use crate::records::Variant;
use crate::stats;
use serde::Serialize;
use std::collections::BTreeMap;

/// One measured row and what was predicted for it, both in the quantity's unit: milliseconds or MiB.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluated {
    /// The network at its level.
    pub variant: Variant,
    /// Samples per step.
    pub batch: u64,
    /// What the device said.
    pub measured: f64,
    /// What the fingerprint said.
    pub predicted: f64,
    /// Whether rows of this network at this level were among those fitted on.
    pub fitted: bool,
}

/// How predictions compare to measurements; errors and shares in percent (5.5 is 5.5 %), relative to the measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scores {
    /// Rows compared.
    pub rows: usize,
    /// Mean of the absolute errors.
    pub mape: f64,
    /// Median of the absolute errors.
    pub median: f64,
    /// 90th percentile of the absolute errors.
    pub p90: f64,
    /// Share of the rows at most 5 % off.
    pub within_5: f64,
    /// Share of the rows at most 10 % off.
    pub within_10: f64,
    /// Root of the mean squared error; large errors weigh more.
    pub rmspe: f64,
    /// Rank correlation: 1 where predictions put all rows in the right order.
    pub spearman: f64,
    /// Mean of the signed errors; positive where predictions are too high.
    pub bias: f64,
}

/// Scores over all rows, and per network.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Breakdown {
    /// All rows.
    #[serde(flatten)]
    pub overall: Scores,
    /// By name.
    pub networks: BTreeMap<String, NetworkScores>,
}

/// Scores of one network, and per level of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NetworkScores {
    /// All its rows.
    #[serde(flatten)]
    pub overall: Scores,
    /// By pruning percentage.
    pub levels: BTreeMap<u8, Scores>,
}

/// What scores mean for someone who wants to rely on predictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// Too few rows, or errors too large: good for nothing but orders of magnitude.
    Little,
    /// Good for comparisons and rough plans; leave a margin.
    Some,
    /// Good for decisions.
    Much,
}

impl Evaluated {
    /// Signed error in percent of the measurement; positive where the prediction is too high.
    pub fn error(&self) -> f64 {
        stats::relative_errors(&[self.measured], &[self.predicted])[0]
    }
}

impl Scores {
    /// The scores of some rows; of none, everything but their number is NaN.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Evaluated>) -> Self {
        let (measured, predicted): (Vec<f64>, Vec<f64>) =
            rows.into_iter().map(|row| (row.measured, row.predicted)).unzip();
        let errors = stats::relative_errors(&measured, &predicted);
        let magnitudes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        Scores {
            rows: errors.len(),
            mape: stats::mean(&magnitudes),
            median: stats::median(&magnitudes),
            p90: stats::percentile(&magnitudes, 90.0),
            within_5: stats::share_within(&errors, 5.0),
            within_10: stats::share_within(&errors, 10.0),
            rmspe: stats::root_mean_square(&errors),
            spearman: stats::spearman(&measured, &predicted),
            bias: stats::mean(&errors),
        }
    }

    /// How far such predictions can be relied on.
    ///
    /// Thresholds: the published method's own figures on unseen levels of known networks lie between 2 and 8 %, on
    /// unseen networks between 6 and 24 %; with fewer rows than 20 a mean error is itself mostly chance.
    pub fn trust(&self) -> Trust {
        match self.mape {
            mape if self.rows >= 20 && mape <= 8.0 => Trust::Much,
            mape if self.rows >= 5 && mape <= 20.0 => Trust::Some,
            _ => Trust::Little,
        }
    }
}

impl Breakdown {
    /// The scores of some rows, by network and level.
    pub fn of(rows: &[Evaluated]) -> Self {
        let networks = grouped(rows, |row| row.variant.network.clone());
        Breakdown {
            overall: Scores::of(rows),
            networks: networks.into_iter().map(|(name, rows)| (name, NetworkScores::of(&rows))).collect(),
        }
    }
}

impl NetworkScores {
    fn of(rows: &[&Evaluated]) -> Self {
        let levels = grouped(rows.iter().copied(), |row| row.variant.level);
        NetworkScores {
            overall: Scores::of(rows.iter().copied()),
            levels: levels.into_iter().map(|(level, rows)| (level, Scores::of(rows))).collect(),
        }
    }
}

fn grouped<'a, K: Ord>(
    rows: impl IntoIterator<Item = &'a Evaluated>,
    key: impl Fn(&Evaluated) -> K,
) -> BTreeMap<K, Vec<&'a Evaluated>> {
    let mut groups: BTreeMap<K, Vec<&Evaluated>> = BTreeMap::new();
    for row in rows {
        groups.entry(key(row)).or_default().push(row);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(variant: Variant, measured: f64, predicted: f64) -> Evaluated {
        Evaluated { variant, batch: 8, measured, predicted, fitted: false }
    }

    #[test]
    fn scores_follow_from_errors_of_4_minus_10_and_1_percent() {
        let variant = Variant::new("resnet18", 30);
        let rows = [(100.0, 104.0), (200.0, 180.0), (400.0, 404.0)].map(|(m, p)| row(variant.clone(), m, p));
        let scores = Scores::of(&rows);
        assert_eq!((scores.rows, scores.mape, scores.median), (3, 5.0, 4.0));
        // Sorted 1, 4, 10; position 0.9 x 2 = 1.8.
        assert!((scores.p90 - 8.8).abs() < 1e-12 && (scores.rmspe - 39f64.sqrt()).abs() < 1e-12);
        assert!((scores.within_5 - 200.0 / 3.0).abs() < 1e-12 && scores.within_10 == 100.0);
        assert!((scores.spearman - 1.0).abs() < 1e-12 && (scores.bias + 5.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn a_breakdown_has_the_keys_of_the_report() {
        let rows = [("a", 0, 101.0), ("a", 30, 102.0), ("b", 30, 106.0)]
            .map(|(network, level, predicted)| row(Variant::new(network, level), 100.0, predicted));
        let json = serde_json::to_value(Breakdown::of(&rows)).unwrap();
        assert_eq!((&json["rows"], &json["mape"]), (&3.into(), &3.0.into()));
        assert_eq!((&json["networks"]["a"]["rows"], &json["networks"]["a"]["mape"]), (&2.into(), &1.5.into()));
        assert_eq!(json["networks"]["b"]["levels"]["30"]["mape"], 6.0);
        assert!(json["networks"]["b"]["spearman"].is_null(), "one row has no order");
    }

    #[test]
    fn trust_needs_rows_and_small_errors() {
        let rows = |count: usize, predicted: f64| vec![row(Variant::new("a", 0), 100.0, predicted); count];
        let trust = |rows: Vec<Evaluated>| Scores::of(&rows).trust();
        assert_eq!(trust(rows(20, 105.0)), Trust::Much);
        assert_eq!([trust(rows(19, 105.0)), trust(rows(20, 115.0))], [Trust::Some; 2]);
        assert_eq!([trust(rows(4, 100.0)), trust(rows(50, 130.0)), trust(vec![])], [Trust::Little; 3]);
    }
}
