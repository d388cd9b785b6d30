//! Cache hit rates when only a part of a job's data fits in memory.
//!
//! Each epoch reads all data once, in a new random order. A cache that keeps a fixed part `c` of the data ("MinIO":
//! Mohan and others, Analyzing and Mitigating Data Stalls in DNN Training, VLDB 2021) has the hit rate `c`. One that
//! evicts the least recently used data has `c + (1 - c) ln(1 - c)`: data at position `x` of an epoch was at a uniform
//! position of the previous one, and is still cached if less than `c` of the data was read since. A kernel's page cache
//! is between the two.

use serde::{Deserialize, Serialize};

/// A cache whose hit rate lies between MinIO's and LRU's: MinIO's to the power of `1 - lru` times LRU's to the power
/// of `lru`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DataCache {
    /// 0 for a cache that keeps a fixed part, 1 for one that evicts the least recently used data.
    pub lru: f64,
}

impl DataCache {
    /// Keeps a fixed part.
    pub const MINIO: DataCache = DataCache { lru: 0.0 };
    /// Evicts the least recently used data.
    pub const LRU: DataCache = DataCache { lru: 1.0 };

    /// The hit rate when the share `cached` of the data fits.
    ///
    /// ```
    /// use perf4sight_sensitivity::DataCache;
    /// assert_eq!(DataCache::MINIO.hit_rate(0.5), 0.5);
    /// // 0.5 + 0.5 ln 0.5
    /// assert!((DataCache::LRU.hit_rate(0.5) - 0.153_426_4).abs() < 1e-7);
    /// assert_eq!([DataCache::LRU.hit_rate(0.0), DataCache::LRU.hit_rate(1.0), DataCache::LRU.hit_rate(2.0)], [0.0, 1.0, 1.0]);
    /// ```
    pub fn hit_rate(self, cached: f64) -> f64 {
        let cached = cached.clamp(0.0, 1.0);
        let left = 1.0 - cached;
        if cached <= 0.0 || left <= 0.0 {
            return cached;
        }
        let lru = (cached + left * left.ln()).max(f64::MIN_POSITIVE);
        cached.powf(1.0 - self.lru) * lru.powf(self.lru)
    }

    /// The cache with this hit rate when the share `cached` of the data fits; outside the two bounds, the nearer one.
    /// None where both bounds have the same hit rate, as where nothing or everything fits.
    pub fn from_hit_rate(cached: f64, hits: f64) -> Option<Self> {
        let [minio, lru] = [DataCache::MINIO, DataCache::LRU].map(|cache| cache.hit_rate(cached));
        let span = (minio / lru).ln();
        (span.is_finite() && span > 0.0).then(|| {
            let down = (minio / hits.max(f64::MIN_POSITIVE)).ln();
            DataCache { lru: (down / span).clamp(0.0, 1.0) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::seq::SliceRandom;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use std::collections::{BTreeMap, BTreeSet};

    /// Simulates an LRU cache: a part of 2000 pages fits, and each epoch reads all of them in a new order.
    #[test]
    fn the_formula_of_lru_is_what_comes_of_playing_it() {
        for cached in [0.25, 0.5, 0.75] {
            let mut draws = Xoshiro256PlusPlus::seed_from_u64(1);
            let mut order: Vec<usize> = (0..2000).collect();
            let (mut used, mut by_use) = (BTreeMap::new(), BTreeSet::new());
            let (mut clock, mut hits) = (0, 0);
            for epoch in 0..6 {
                order.shuffle(&mut draws);
                for page in &order {
                    clock += 1;
                    if let Some(before) = used.insert(*page, clock) {
                        by_use.remove(&(before, *page));
                        hits += usize::from(epoch > 0);
                    }
                    by_use.insert((clock, *page));
                    if by_use.len() > (2000.0 * cached) as usize {
                        let (_, oldest) = by_use.pop_first().unwrap();
                        used.remove(&oldest);
                    }
                }
            }
            let share = hits as f64 / 10_000.0;
            assert!((share - DataCache::LRU.hit_rate(cached)).abs() < 0.015, "{cached}: {share}");
        }
    }

    proptest! {
        #[test]
        fn a_cache_is_placed_where_it_is(lru in 0.0..=1.0, cached in 0.01..0.99) {
            let cache = DataCache { lru };
            let [low, high] = [DataCache::LRU, DataCache::MINIO].map(|bound| bound.hit_rate(cached));
            prop_assert!((low..=high).contains(&(cache.hit_rate(cached).clamp(low, high))));
            prop_assert!((DataCache::from_hit_rate(cached, cache.hit_rate(cached)).unwrap().lru - lru).abs() < 1e-6);
        }
    }

    #[test]
    fn what_lies_beyond_the_bounds_is_the_nearer_one_and_without_room_there_is_nothing_to_place() {
        assert_eq!(DataCache::from_hit_rate(0.5, 0.9), Some(DataCache::MINIO));
        assert_eq!(DataCache::from_hit_rate(0.5, 0.0), Some(DataCache::LRU));
        assert_eq!((DataCache::from_hit_rate(0.0, 0.0), DataCache::from_hit_rate(1.0, 1.0)), (None, None));
    }
}
