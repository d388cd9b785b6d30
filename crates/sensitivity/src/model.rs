//! How long an epoch takes with some CPUs and some memory, and which storage it needs.
//!
//! As published by Synergy (Mohan and others, OSDI 2022), reading and computing overlap, so that the slower of the two
//! counts. A measured overlap replaces that assumption. Cached data is read at the bandwidth of memory, the rest at the
//! bandwidth of storage.

use crate::cache::DataCache;
use crate::curve::RateCurve;
use crate::overlap::{MeasuredOverlap, ReadOverlap};
use crate::rate::KNOWN;
use serde::{Deserialize, Serialize};

/// What a job reads, and how fast it can be read.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct JobData {
    /// Bytes of an epoch.
    pub bytes: f64,
    /// Bytes a second from memory.
    pub memory_bandwidth: f64,
    /// Bytes a second from storage.
    pub storage_bandwidth: f64,
    /// The 95 % interval of `storage_bandwidth`; none where it was specified, or measured for too short a time.
    #[serde(default)]
    pub storage_between: Option<[f64; 2]>,
}

/// A model of a job, from a few measured configurations.
#[derive(Debug, Clone, PartialEq)]
pub struct EpochModel {
    /// Its rate over CPUs, with all data in memory.
    pub curve: RateCurve,
    /// Iterations of an epoch.
    pub iterations: f64,
    /// What an epoch reads.
    pub data: JobData,
    /// How the machine caches what was read; none where that was not measured.
    pub cache: Option<DataCache>,
    /// How far reading and computing overlap; none where that was not measured.
    pub overlap: Option<MeasuredOverlap>,
}

/// An estimate with its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EpochEstimate {
    /// Lower bound.
    pub least: f64,
    /// Most likely value; none where it is unknown.
    pub likely: Option<f64>,
    /// Upper bound.
    pub most: f64,
}

/// The resource that limits an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EpochBound {
    /// Storage: a faster one, or more memory, would make the epoch shorter.
    Storage,
    /// CPUs: more of them would make the epoch shorter.
    Cpu,
    /// Neither: the accelerator, or the part of the job that does not run in parallel.
    Accelerator,
}

/// From this share of the best rate on, more CPUs do not count as a benefit.
const SATISFIED: f64 = 0.95;

/// If the epochs of the two caches differ by more than this share of the shorter one, a measurement is worth its time.
const WORTH: f64 = 0.05;

impl JobData {
    /// Seconds to read an epoch's data when the share `hits` of it is in memory.
    pub fn fetch(&self, hits: f64) -> f64 {
        self.bytes * (hits / self.memory_bandwidth + (1.0 - hits) / self.storage_bandwidth)
    }

    /// With storage at one end of its interval, which is at least as wide as [`KNOWN`] to either side.
    fn with_storage_at(&self, end: impl Fn([f64; 2]) -> f64) -> Self {
        let bandwidth = self.storage_bandwidth;
        let [low, high] = self.storage_between.unwrap_or([bandwidth; 2]);
        let between = [low.min(bandwidth * (1.0 - KNOWN)), high.max(bandwidth * (1.0 + KNOWN))];
        JobData { storage_bandwidth: end(between), ..*self }
    }

    /// The share that was found in memory when reading took so many seconds; none where storage is not slower than
    /// memory.
    pub fn hit_rate(&self, seconds: f64) -> Option<f64> {
        let [nothing, all] = [0.0, 1.0].map(|hits| self.fetch(hits));
        (nothing > all).then(|| ((nothing - seconds) / (nothing - all)).clamp(0.0, 1.0))
    }

    /// Bytes a second that storage must deliver so that reading takes at most `seconds`; none where memory alone takes
    /// longer.
    fn needed_bandwidth(&self, hits: f64, seconds: f64) -> Option<f64> {
        let left = seconds - self.bytes * hits / self.memory_bandwidth;
        (left > 0.0).then(|| self.bytes * (1.0 - hits) / left)
    }
}

impl EpochModel {
    /// The measured overlap, or the published one.
    fn overlap(&self) -> ReadOverlap {
        self.overlap.map_or(ReadOverlap::SIDE_BY_SIDE, MeasuredOverlap::likely)
    }

    /// The most likely overlap twice, or the two bounds where it was not measured.
    fn overlaps(&self) -> [ReadOverlap; 2] {
        self.overlap.map_or(ReadOverlap::BOUNDS, |measured| [measured.likely(); 2])
    }

    fn overlap_ends(&self) -> [ReadOverlap; 2] {
        self.overlap.map_or(ReadOverlap::BOUNDS, MeasuredOverlap::ends)
    }

    /// The measured cache twice, or the two bounds where it was not measured.
    fn caches(&self) -> [DataCache; 2] {
        self.cache.map_or([DataCache::MINIO, DataCache::LRU], |cache| [cache; 2])
    }

    /// The same model with another storage bandwidth, in bytes a second.
    #[must_use]
    pub fn with_storage(&self, storage_bandwidth: f64) -> Self {
        EpochModel { data: JobData { storage_bandwidth, storage_between: None, ..self.data }, ..self.clone() }
    }

    /// Seconds of an epoch with all its data in infinitely fast memory. The interval of a rate covers the run it was
    /// measured in; other runs of the same job may differ by [`KNOWN`], so the bounds are at least that far apart.
    pub fn compute(&self, cpus: f64) -> EpochEstimate {
        let (between, measured) = (self.curve.bounds_at(cpus), self.curve.measured(cpus));
        let [low, high] = self.curve.interval(cpus);
        let rates = [low.min(between.least * (1.0 - KNOWN)), high.max(between.most * (1.0 + KNOWN))];
        let likely = measured.map_or(between.least, |rate| rate.per_second);
        let seconds = |rate: f64| self.iterations / rate;
        EpochEstimate { least: seconds(rates[1]), likely: Some(seconds(likely)), most: seconds(rates[0]) }
    }

    /// Seconds of an epoch with so many CPUs, where the share `cached` of the data fits in memory. A cache or overlap
    /// that was not measured may be anywhere between its two bounds.
    pub fn epoch(&self, cpus: f64, cached: f64) -> EpochEstimate {
        let compute = self.compute(cpus);
        let fetch = |data: JobData, cache: DataCache| data.fetch(cache.hit_rate(cached));
        let [side_by_side, in_turn] = self.overlap_ends();
        let fastest = self.data.with_storage_at(|[_, fastest]| fastest);
        let slowest = self.data.with_storage_at(|[slowest, _]| slowest);
        let least = side_by_side.epoch(fetch(fastest, DataCache::MINIO), compute.least);
        let most = in_turn.epoch(fetch(slowest, DataCache::LRU), compute.most);
        // Where both bounds predict nearly the same, no measurement is needed.
        let likely = compute.likely.and_then(|compute| {
            let (caches, overlaps) = (self.caches(), self.overlaps());
            let [low, high] = [0, 1].map(|bound| overlaps[bound].epoch(fetch(self.data, caches[bound]), compute));
            (high - low <= WORTH * low).then_some(high)
        });
        EpochEstimate { least, likely, most }
    }

    /// Bytes a second that storage must deliver so that reading does not slow an epoch down. None where memory itself
    /// is, or may be, too slow. Reading and computing are assumed to overlap where that was not measured.
    pub fn needed_bandwidth(&self, cpus: f64, cached: f64) -> Option<EpochEstimate> {
        let compute = self.compute(cpus);
        let with = |cache: DataCache, overlap: ReadOverlap, compute: f64| {
            self.data.needed_bandwidth(cache.hit_rate(cached), overlap.longest_hidden_reading(compute))
        };
        let [side_by_side, in_turn] = self.overlap.map_or([ReadOverlap::SIDE_BY_SIDE; 2], MeasuredOverlap::ends);
        let likely = compute.likely.and_then(|compute| {
            let [fast, slow] = self.caches().map(|cache| with(cache, self.overlap(), compute));
            fast.zip(slow).filter(|(low, high)| high - low <= WORTH * low).map(|(_, high)| high)
        });
        let least = with(DataCache::MINIO, side_by_side, compute.most)?;
        Some(EpochEstimate { least, likely, most: with(DataCache::LRU, in_turn, compute.least)? })
    }

    /// Whether reading from storage slows an epoch down; none where that depends on a cache or an overlap that was not
    /// measured.
    pub fn waits_for_storage(&self, cpus: f64, cached: f64) -> Option<bool> {
        let compute = self.compute(cpus).likely?;
        let (caches, overlaps) = (self.caches(), self.overlap_ends());
        let [fast, slow] = [0, 1].map(|end: usize| {
            self.data.fetch(caches[end].hit_rate(cached)) > overlaps[end].longest_hidden_reading(compute)
        });
        (fast == slow).then_some(fast)
    }

    /// The resource that limits an epoch; none where that depends on a cache, an overlap or more CPUs that were not
    /// measured.
    pub fn bound(&self, cpus: f64, cached: f64) -> Option<EpochBound> {
        match self.waits_for_storage(cpus, cached)? {
            true => Some(EpochBound::Storage),
            false if self.curve.bounds_at(cpus).least < SATISFIED * self.curve.highest().rate.per_second => {
                Some(EpochBound::Cpu)
            }
            false => self.curve.levels_off(SATISFIED).then_some(EpochBound::Accelerator),
        }
    }

    /// The cached share, of `shares`, at which the two bounding caches differ most; none where the difference is not
    /// worth a measurement.
    pub fn worth_measuring(&self, cpus: f64, shares: &[f64]) -> Option<f64> {
        let compute = self.compute(cpus).likely?;
        let epoch =
            |cache: DataCache, cached: f64| self.overlap().epoch(self.data.fetch(cache.hit_rate(cached)), compute);
        let gain = |cached: f64| epoch(DataCache::LRU, cached) / epoch(DataCache::MINIO, cached) - 1.0;
        let gains = shares.iter().map(|cached| (*cached, gain(*cached)));
        gains.filter(|(_, gain)| *gain > WORTH).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(cached, _)| cached)
    }

    /// The cache that explains an epoch of so many seconds; none where computing took as long, or both bounds fit.
    pub fn cache_of(&self, cpus: f64, cached: f64, seconds: f64) -> Option<DataCache> {
        let reading = self.overlap().reading(seconds, self.compute(cpus).likely?)?;
        DataCache::from_hit_rate(cached, self.data.hit_rate(reading)?)
    }

    /// The overlap that explains an epoch of `seconds`, within `between`, whose data all came from storage. None where
    /// reading or computing takes too little of it to distinguish the bounds. The interval is at least [`KNOWN`] to
    /// either side.
    pub fn overlap_of(&self, cpus: f64, seconds: f64, between: [f64; 2]) -> Option<MeasuredOverlap> {
        let (reading, compute) = (self.data.fetch(0.0), self.compute(cpus));
        let placed = |computing: f64, epoch: f64| Some(ReadOverlap::explaining(reading, computing, epoch)?.in_turn);
        let in_turn = placed(compute.likely?, seconds)?;
        let [least, most] = [between[0].min(seconds * (1.0 - KNOWN)), between[1].max(seconds * (1.0 + KNOWN))];
        // Where the bounds nearly agree, a measurement does not distinguish them.
        let low = placed(compute.most, least).unwrap_or(ReadOverlap::SIDE_BY_SIDE.in_turn);
        let high = placed(compute.least, most).unwrap_or(ReadOverlap::IN_TURN.in_turn);
        Some(MeasuredOverlap { in_turn, between: [low.min(in_turn), high.max(in_turn)] })
    }

    /// The smallest of `shares` (sorted from small to large) with which an epoch takes at most so many seconds: the
    /// most likely time counts, or the upper bound where that is unknown.
    pub fn enough_memory(&self, cpus: f64, seconds: f64, shares: &[f64]) -> Option<f64> {
        let takes = |cached: f64| {
            let epoch = self.epoch(cpus, cached);
            epoch.likely.unwrap_or(epoch.most)
        };
        shares.iter().copied().find(|cached| takes(*cached) <= seconds)
    }
}

#[cfg(test)]
mod tests;
