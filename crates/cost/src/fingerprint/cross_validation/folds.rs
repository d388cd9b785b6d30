//! Levels left out in turns: how far a fit is off for further levels of a network that it knows.

use std::collections::{BTreeMap, BTreeSet};

/// Parts that the levels of every network are dealt into: with more, fits take longer and hardly know more levels.
const FOLDS: usize = 3;

/// Which part each level of each network is in; networks of a single level are in none, for without it they are unknown.
pub(in crate::fingerprint) struct Folds<'a>(BTreeMap<(&'a str, u8), usize>);

impl<'a> Folds<'a> {
    /// The levels are dealt out in ascending order, so that every part has small and large ones.
    pub fn new(levels: impl IntoIterator<Item = (&'a str, u8)>) -> Self {
        let levels: BTreeSet<(&str, u8)> = levels.into_iter().collect();
        let levels: Vec<(&str, u8)> = levels.into_iter().collect();
        let networks = levels.chunk_by(|a, b| a.0 == b.0).filter(|network| network.len() > 1);
        Folds(networks.flat_map(|network| network.iter().copied().zip((0..FOLDS).cycle())).collect())
    }

    /// The part that holds this level.
    pub fn of(&self, network: &str, level: u8) -> Option<usize> {
        self.0.get(&(network, level)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_left_out_once_but_never_all_of_a_network() {
        let levels = [("a", 0), ("a", 20), ("a", 40), ("a", 60), ("b", 0), ("c", 0), ("c", 50), ("c", 50)];
        let folds = Folds::new(levels);
        let held = |fold| -> Vec<(&str, u8)> {
            levels[..7].iter().copied().filter(|(network, level)| folds.of(network, *level) == Some(fold)).collect()
        };
        assert_eq!(held(0), [("a", 0), ("a", 60), ("c", 0)]);
        assert_eq!(held(1), [("a", 20), ("c", 50)]);
        assert_eq!(held(2), [("a", 40)]);
    }
}
