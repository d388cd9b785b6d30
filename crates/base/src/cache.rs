//! A cache that several threads share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Values by key, each computed on first use. A thread that needs a value which another thread is computing waits for that one only.
///
/// ```
/// use perf4sight_base::cache::Cache;
/// let squares = Cache::default();
/// assert_eq!(*squares.get_or_compute(3, || 9), 9);
/// assert_eq!(*squares.get_or_compute(3, || unreachable!()), 9);
/// ```
#[derive(Debug)]
pub struct Cache<Key, Value>(Mutex<BTreeMap<Key, CacheSlot<Value>>>);

type CacheSlot<Value> = Arc<OnceLock<Arc<Value>>>;

impl<Key: Ord, Value> Cache<Key, Value> {
    /// The value of a key, computed by `find`, which must not hand work to other threads: they may wait for the same value.
    pub fn get_or_compute(&self, key: Key, find: impl FnOnce() -> Value) -> Arc<Value> {
        let slot = {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(known.entry(key).or_default())
        };
        Arc::clone(slot.get_or_init(|| Arc::new(find())))
    }
}

impl<Key, Value> Default for Cache<Key, Value> {
    fn default() -> Self {
        Cache(Mutex::default())
    }
}
