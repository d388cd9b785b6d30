//! Cross-validation of fits: the error on rows left out, and the width of intervals that follows from it.

use crate::fingerprint::prediction::{IntervalBand, IntervalBasis};
use perf4sight_base::stats::weighted_quantile;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Parts that the levels of every network are split into: with more, fits take longer and hardly use more levels.
const FOLDS: usize = 3;

/// The part of each level of each network. Networks of a single level are in none: without that level they are
/// unprofiled.
pub(in crate::fingerprint) struct Folds<'a>(BTreeMap<(&'a str, u8), usize>);

impl<'a> Folds<'a> {
    /// Deals out the levels in ascending order, so that every part has small and large ones.
    pub fn new(levels: impl IntoIterator<Item = (&'a str, u8)>) -> Self {
        let levels: BTreeSet<(&str, u8)> = levels.into_iter().collect();
        let levels: Vec<(&str, u8)> = levels.into_iter().collect();
        let networks = levels.chunk_by(|a, b| a.0 == b.0).filter(|network| network.len() > 1);
        Folds(networks.flat_map(|network| network.iter().copied().zip((0..FOLDS).cycle())).collect())
    }

    /// The part that contains this level.
    pub fn fold(&self, network: &str, level: u8) -> Option<usize> {
        self.0.get(&(network, level)).copied()
    }
}

/// The results of `ask` for every group of parts against all others, in the order of the groups; parts without a
/// group are never left out.
pub(in crate::fingerprint) fn leave_out<'a, T: Sync, G: Ord + Send + Sync, A: Send>(
    parts: &'a [T],
    group: impl Fn(&'a T) -> Option<G> + Sync,
    ask: impl Fn(&[&'a T], &[&'a T]) -> A + Sync,
) -> Vec<A> {
    let groups: BTreeSet<G> = parts.iter().filter_map(&group).collect();
    let groups: Vec<G> = groups.into_iter().collect();
    let answers = groups.par_iter().map(|name| {
        let (own, others): (Vec<&T>, Vec<&T>) = parts.iter().partition(|part| group(part).as_ref() == Some(name));
        ask(&own, &others)
    });
    answers.collect()
}

/// The share of measurements that intervals should contain.
const COVERAGE: f64 = 0.9;

/// From this many networks on the share is guaranteed. A new network is one more among them with unknown residuals,
/// so a share of 0.9 (n + 1) / n of the n known ones must be inside; with nine that would need the worst one.
const NETWORKS: usize = 10;

/// Fewer residuals of a network's own levels give no estimate of the worst tenth.
const FEWEST: usize = 20;

/// The maximum width of an interval, in logarithms.
pub(in crate::fingerprint) const WIDEST: f64 = 14.0;

/// The errors of predictions for data left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::fingerprint) struct ErrorSpread {
    /// For networks that were not profiled: natural logarithm of the factor between a prediction and either end of
    /// its interval.
    width: f64,
    networks: usize,
    /// The same for further levels of networks that were profiled at several, by architecture.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    profiled: BTreeMap<String, f64>,
}

/// Natural logarithms of measured over predicted for one network, predicted by fits without these measurements.
pub(in crate::fingerprint) type Residuals = Vec<f64>;

impl ErrorSpread {
    /// From the residuals of each network; none where there is not a single one.
    ///
    /// Every network weighs the same, however many rows it has: hierarchical conformal prediction (Y. Lee, R. F. Barber, R. Willett,
    /// "Distribution-free inference with hierarchical data", 2023).
    pub fn new(networks: &[Residuals]) -> Option<Self> {
        let known: Vec<&Residuals> = networks.iter().filter(|residuals| !residuals.is_empty()).collect();
        let count = known.len() as f64;
        let share = if known.len() >= NETWORKS { COVERAGE * (count + 1.0) / count } else { COVERAGE };
        let weighted = known.iter().flat_map(|residuals| {
            let weight = 1.0 / (count * residuals.len() as f64);
            residuals.iter().map(move |residual| (residual.abs(), weight))
        });
        let width = weighted_quantile(weighted.collect(), share)?;
        Some(ErrorSpread { width, networks: known.len(), profiled: BTreeMap::new() })
    }

    /// Adds widths for further levels, from the residuals of fits without some levels, by architecture.
    pub fn with_levels(mut self, levels: BTreeMap<String, Residuals>) -> Self {
        self.profiled = widths(levels);
        self
    }

    /// Whether the widths of a file are possible for intervals: a factor of a million either way would be useless.
    pub fn is_valid(&self) -> bool {
        self.profiled.values().chain([&self.width]).all(|width| (0.0..=WIDEST).contains(width))
    }

    /// The intervals of a network, by the architecture whose level it is, if any.
    pub fn band(&self, family: Option<&str>) -> IntervalBand {
        match family.and_then(|family| self.profiled.get(family)) {
            Some(&width) => IntervalBand::even(width, IntervalBasis::Levels),
            None if self.networks >= NETWORKS => IntervalBand::even(self.width, IntervalBasis::Conformal),
            None => IntervalBand::even(self.width, IntervalBasis::Estimated),
        }
    }
}

/// The widths of intervals for further levels, where enough levels were left out: natural logarithms of the factor
/// between a prediction and either end, by architecture.
pub(in crate::fingerprint) fn widths(levels: BTreeMap<String, Residuals>) -> BTreeMap<String, f64> {
    let enough = levels.into_iter().filter(|(_, residuals)| residuals.len() >= FEWEST);
    let width = |(architecture, residuals): (String, Residuals)| {
        let count = residuals.len() as f64;
        let weighted = residuals.into_iter().map(|residual| (residual.abs(), 1.0 / count));
        Some((architecture, weighted_quantile(weighted.collect(), COVERAGE * (count + 1.0) / count)?))
    };
    enough.filter_map(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_left_out_once_but_never_all_of_a_network() {
        let levels = [("a", 0), ("a", 20), ("a", 40), ("a", 60), ("b", 0), ("c", 0), ("c", 50), ("c", 50)];
        let folds = Folds::new(levels);
        let held = |fold| -> Vec<(&str, u8)> {
            levels[..7].iter().copied().filter(|(network, level)| folds.fold(network, *level) == Some(fold)).collect()
        };
        assert_eq!(held(0), [("a", 0), ("a", 60), ("c", 0)]);
        assert_eq!(held(1), [("a", 20), ("c", 50)]);
        assert_eq!(held(2), [("a", 40)]);
    }

    #[test]
    fn a_network_of_many_rows_weighs_as_much_as_one_of_few() {
        // Nine networks are exact and one is off: 1.1 x 0.9 = 99 % must be inside, so its ten thousand rows count.
        let mut networks = vec![vec![0.0]; 9];
        networks.push(vec![-0.5; 10_000]);
        let spread = ErrorSpread::new(&networks).unwrap();
        assert_eq!(spread.band(None), IntervalBand::even(0.5, IntervalBasis::Conformal));
        // With five networks 90 % need the fifth, too.
        let few = ErrorSpread::new(&networks[5..]).unwrap();
        assert_eq!(few.band(None), IntervalBand::even(0.5, IntervalBasis::Estimated));
        assert!(ErrorSpread::new(&[vec![]]).is_none());
    }

    #[test]
    fn levels_of_a_profiled_network_have_intervals_of_their_own() {
        let residuals: Residuals = (1..=100).map(|one| 0.001 * f64::from(one)).collect();
        let levels = [("known".to_owned(), residuals.clone()), ("hardly".to_owned(), residuals[..19].to_vec())];
        let spread = ErrorSpread::new(&[vec![0.5]]).unwrap().with_levels(levels.into());
        // 0.9 x 101 / 100 of a hundred: the 91st.
        assert_eq!(spread.band(Some("known")), IntervalBand::even(0.091, IntervalBasis::Levels));
        assert_eq!(spread.band(Some("hardly")), spread.band(None));
    }
}
