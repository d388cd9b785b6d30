//! Learning curve: error against rows profiled, to estimate the gain from more measurements.

use super::share::ObservationSubset;
use crate::fingerprint::{FEWEST_ROWS, Observations};
use perf4sight_base::stats::mean;
use rand::SeedableRng;
use rand::seq::index::sample;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Shares of the rows that are tried; the fingerprint itself uses all.
const SHARES: [f64; 4] = [0.0625, 0.125, 0.25, 0.5];

/// Random subsets per share: the error of a single small one depends more on chance than on its size.
const DRAWS: u64 = 3;

/// The error of fits on a number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LearningPoint {
    /// How many rows the fit had.
    pub rows: usize,
    /// Mean absolute percentage error at levels not fitted on, mean over networks; the mean of a few random subsets
    /// of rows.
    pub mape: f64,
}

/// A random subset of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RandomSubset {
    pub rows: usize,
    seed: u64,
}

impl RandomSubset {
    /// The subsets to try of a number of rows.
    pub fn all(rows: usize, seed: u64) -> Vec<RandomSubset> {
        let sizes = SHARES.map(|share| (share * rows as f64).round() as usize);
        let sizes: BTreeSet<usize> = sizes.into_iter().filter(|size| (FEWEST_ROWS..rows).contains(size)).collect();
        let draws = |rows| (0..DRAWS).map(move |draw| RandomSubset { rows, seed: seed.wrapping_add(draw) });
        sizes.into_iter().flat_map(draws).collect()
    }

    /// Its subset of observations, with the same share of the failed ones.
    pub fn subset<'a>(self, observations: &Observations<'a>) -> ObservationSubset<'a> {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let (all, failed) = (observations.rows.len(), observations.failed.len());
        let mut part = ObservationSubset::select(observations, |_| false);
        let rows = indices(&mut generator, all, self.rows).into_iter();
        part.rows.extend(rows.map(|index| observations.rows[index].clone()));
        let attempts = indices(&mut generator, failed, failed * self.rows / all).into_iter();
        part.failed.extend(attempts.map(|index| observations.failed[index].clone()));
        part
    }
}

/// `count` random indices below `of`, ascending.
fn indices(generator: &mut Xoshiro256PlusPlus, of: usize, count: usize) -> Vec<usize> {
    let mut indices = sample(generator, of, count).into_vec();
    indices.sort_unstable();
    indices
}

/// The points of single draws, averaged over draws of equal size.
pub(super) fn curve(points: impl IntoIterator<Item = LearningPoint>) -> Vec<LearningPoint> {
    let mut errors: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for LearningPoint { rows, mape } in points {
        errors.entry(rows).or_default().push(mape);
    }
    errors.into_iter().map(|(rows, errors)| LearningPoint { rows, mape: mean(&errors) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_grow_and_repeat_and_never_are_too_small() {
        let sizes: Vec<usize> = RandomSubset::all(100, 7).iter().map(|draw| draw.rows).collect();
        assert_eq!(sizes, [13, 13, 13, 25, 25, 25, 50, 50, 50], "6 rows are too few to fit on");
        assert!(RandomSubset::all(12, 0).is_empty());
        let drawn = |seed| indices(&mut Xoshiro256PlusPlus::seed_from_u64(seed), 100, 13);
        assert_eq!((drawn(7).len(), drawn(7)), (13, drawn(7)));
        assert_ne!(drawn(7), drawn(8));
    }

    #[test]
    fn draws_of_equal_size_are_one_point() {
        let points = [(20, 6.0), (10, 8.0), (20, 4.0)].map(|(rows, mape)| LearningPoint { rows, mape });
        assert_eq!(curve(points), [LearningPoint { rows: 10, mape: 8.0 }, LearningPoint { rows: 20, mape: 5.0 }]);
    }
}
