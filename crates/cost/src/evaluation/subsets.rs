//! Fits on subsets of the networks of a profile, tested on all others: the coverage of intervals with few networks.

use super::Evaluation;
use super::left_out::{FitProtocol, try_without};
use super::share::{ObservationSubset, networks};
use crate::fingerprint::{MeasuredRow, Observations};
use perf4sight_base::error::Result;
use perf4sight_base::stats::weighted_quantile;
use rand::SeedableRng;
use rand::seq::index::sample;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;

/// 90 % intervals compared with the actual errors; every network weighs the same.
#[derive(Debug, Clone, PartialEq)]
pub struct IntervalCoverage {
    /// Percent of the rows inside their interval.
    pub coverage: f64,
    /// The same for each network.
    pub networks: BTreeMap<String, f64>,
    /// Half of the median width, as natural logarithm of the factor between prediction and end.
    pub width: f64,
    /// The half width that would contain nine tenths of the rows, if all intervals were equally wide.
    pub needed: f64,
}

impl FitProtocol {
    /// Fits each set of `size` networks, or a random `most` of these sets, and predicts all networks not in it. Each
    /// is first calibrated with its rows that `measured` picks; those are not predicted.
    ///
    /// # Errors
    /// When a fit fails.
    pub fn subsets(
        &self,
        observations: &Observations,
        [size, most]: [usize; 2],
        measured: impl Fn(&MeasuredRow) -> bool,
    ) -> Result<Evaluation> {
        let names = networks(observations);
        let mut sets = sets(names.len(), size);
        if sets.len() > most {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(self.recipe.seed);
            sets = sample(&mut random, sets.len(), most).into_iter().map(|index| sets[index].clone()).collect();
        }
        let mut cases = Vec::new();
        for set in sets {
            let is_known = |name: &String| set.iter().any(|&index| names[index] == *name);
            let known = ObservationSubset::select(observations, |variant| is_known(&variant.network));
            let fingerprint = self.fit(&known.observations())?;
            for name in names.iter().filter(|name| !is_known(name)) {
                let own = ObservationSubset::select(observations, |variant| variant.network == *name);
                let rows: Vec<MeasuredRow> = own.rows.iter().filter(|row| measured(row)).cloned().collect();
                let calibrated = if rows.is_empty() { None } else { Some(fingerprint.calibrate(&rows, &[])?) };
                let trial = try_without(calibrated.as_ref().unwrap_or(&fingerprint), &own, &rows);
                cases.extend(trial.evaluation.cases);
            }
        }
        Ok(Evaluation { cases })
    }
}

fn sets(count: usize, size: usize) -> Vec<Vec<usize>> {
    match (count, size) {
        (_, 0) => vec![Vec::new()],
        (0, _) => Vec::new(),
        _ => {
            let with_last = sets(count - 1, size - 1).into_iter().map(|mut set| {
                set.push(count - 1);
                set
            });
            sets(count - 1, size).into_iter().chain(with_last).collect()
        }
    }
}

impl Evaluation {
    /// The coverage of its intervals; none where there are none.
    pub fn intervals(&self) -> Option<IntervalCoverage> {
        let coverage = self.coverage_90()?;
        let names = self.by(|case| case.variant.network.clone());
        let weight = |name: &str| 1.0 / names[name].rows as f64;
        let own =
            |name: &String| Some((name.clone(), self.filter(|case| case.variant.network == *name).coverage_90()?));
        let weighted = |value: &dyn Fn(&super::PredictedRow) -> f64| -> Vec<(f64, f64)> {
            self.cases.iter().map(|case| (value(case), weight(&case.variant.network))).collect()
        };
        let width = weighted(&|case| {
            case.interval.map_or(0.0, |interval| 0.5 * (interval.high.value() / interval.low.value()).ln())
        });
        let errors = weighted(&|case| (case.measured / case.predicted.value()).ln().abs());
        Some(IntervalCoverage {
            coverage,
            networks: names.keys().filter_map(own).collect(),
            width: quantile(width, 0.5),
            needed: quantile(errors, 0.9),
        })
    }
}

/// The smallest value with at least `share` of the weight at or below it.
fn quantile(weighted: Vec<(f64, f64)>, share: f64) -> f64 {
    let total: f64 = weighted.iter().map(|(_, weight)| weight).sum();
    weighted_quantile(weighted, share * total).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_comes_once() {
        assert_eq!(sets(4, 2), [[0, 1], [0, 2], [1, 2], [0, 3], [1, 3], [2, 3]]);
        // 7 choose 3.
        assert_eq!(sets(7, 3).len(), 35);
    }
}
