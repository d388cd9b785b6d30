//! Everything a fingerprint says about one network: prepared once, asked for any batch size.

use super::Fingerprint;
use super::cross_validation::Band;
use super::hybrid::Hybrid;
use super::latency;
use super::memory;
use super::method::Fitted;
use super::novelty::{News, Unlike};
use super::prediction::{Expected, Interval, MaxBatch, Predicted, Prediction, Room, Shares, TimedOperation, Verdict};
use super::published::Published;
use super::rows::Row;
use crate::memory::Alive;
use crate::network::Network;
use crate::units::Bytes;
use crate::workload::{Quantity, Workload};

/// One network before a fingerprint.
pub struct About<'a> {
    fingerprint: &'a Fingerprint,
    network: &'a Network,
    unlike: Vec<Unlike>,
    /// The architecture it is a level of, if one was profiled.
    family: Option<String>,
    prepared: Prepared<'a>,
}

enum Prepared<'a> {
    Published(&'a Published),
    Latency(Box<latency::Prepared<'a>>),
    Memory(Box<memory::Prepared<'a>>),
}

impl Fingerprint {
    /// Prepares what it says about a network.
    pub fn about<'a>(&'a self, network: &'a Network) -> About<'a> {
        self.about_within(network, None)
    }

    /// The same, where a step must fit into `limit` instead of the memory of the device that was profiled.
    pub fn about_within<'a>(&'a self, network: &'a Network, limit: Option<Bytes>) -> About<'a> {
        let news: News = self.profiled.news(network);
        let unlike = self.profiled.unlike(network);
        let step = self.subject.step;
        let prepared = match &self.fitted {
            Fitted::Perf4sight(published) => Prepared::Published(published),
            Fitted::Hybrid(Hybrid::Latency(latency)) => {
                Prepared::Latency(Box::new(latency.about(step, network, &news)))
            }
            Fitted::Hybrid(Hybrid::Memory(memory)) => {
                let [_, above] = memory.spread().map_or([0.0; 2], |spread| spread.band(news.family.as_deref()).ends);
                let prepared = memory.about(step, network).within(limit).at_least_as_unsure(above);
                Prepared::Memory(Box::new(prepared.unsure(ignorance(&unlike))))
            }
        };
        About { fingerprint: self, network, unlike, family: news.family, prepared }
    }
}

impl About<'_> {
    /// What it predicts for steps of `batch` samples; a step has at least one.
    pub fn at(&self, batch: u64) -> Prediction {
        let batch = batch.max(1);
        let value = self.value(batch);
        let unlike = self.unlike.iter().cloned().chain(self.fingerprint.profiled.unlike_batch(batch)).collect();
        Prediction { value: self.predicted(value), interval: self.interval(batch, value), unlike }
    }

    /// How far off predictions of such a network were when the fingerprint was fitted; none where that was not tested.
    pub fn expected(&self) -> Option<Expected> {
        let Fingerprint { scores, left_out, .. } = self.fingerprint;
        Expected::of(self.family.is_some(), *scores, left_out)
    }

    /// What a step must fit into; only a memory fingerprint knows.
    pub fn room(&self) -> Option<Room> {
        match &self.prepared {
            Prepared::Published(_) | Prepared::Latency(_) => None,
            Prepared::Memory(memory) => memory.room(),
        }
    }

    /// What a step of `batch` samples needs of what [`About::room`] counts, and of all memory where it counts nothing.
    pub fn need(&self, batch: u64) -> Option<Predicted> {
        match &self.prepared {
            Prepared::Published(_) if self.fingerprint.subject.quantity == Quantity::Memory => {
                Some(self.predicted(self.value(batch.max(1))))
            }
            Prepared::Published(_) | Prepared::Latency(_) => None,
            Prepared::Memory(memory) => Some(self.predicted(memory.need(batch.max(1)))),
        }
    }

    /// Whether a step of `batch` samples fits; only a memory fingerprint knows, where it knows what a step must fit into or its profile
    /// has steps that did not.
    pub fn verdict(&self, batch: u64) -> Option<Verdict> {
        match &self.prepared {
            Prepared::Published(_) | Prepared::Latency(_) => None,
            Prepared::Memory(memory) => memory.verdict(batch.max(1)),
        }
    }

    /// The largest batch sizes that fit; known where [`About::verdict`] is.
    pub fn max_batch(&self) -> Option<MaxBatch> {
        match &self.prepared {
            Prepared::Published(_) | Prepared::Latency(_) => None,
            Prepared::Memory(memory) => memory.max_batch(),
        }
    }

    /// What is alive when a step of `batch` samples needs the most memory; only a simulation knows.
    pub fn alive(&self, batch: u64) -> Option<Alive> {
        match &self.prepared {
            Prepared::Published(_) | Prepared::Latency(_) => None,
            Prepared::Memory(memory) => Some(memory.alive(batch.max(1))),
        }
    }

    /// Where the time of a step of `batch` samples goes; only a latency fingerprint of the hybrid method knows.
    pub fn shares(&self, batch: u64) -> Option<Shares> {
        match &self.prepared {
            Prepared::Latency(latency) => Some(latency.shares(batch.max(1))),
            Prepared::Published(_) | Prepared::Memory(_) => None,
        }
    }

    /// The operations of a row of this network that the profile timed one by one, measured and predicted; none where it did not,
    /// or where the fingerprint knows of no operations.
    pub fn operations(&self, row: &Row) -> Vec<TimedOperation> {
        match &self.prepared {
            Prepared::Latency(latency) => latency.operations(row),
            Prepared::Published(_) | Prepared::Memory(_) => Vec::new(),
        }
    }

    /// Milliseconds or MiB.
    pub(super) fn value(&self, batch: u64) -> f64 {
        match &self.prepared {
            Prepared::Published(published) => {
                published.predict(self.network, Workload { step: self.fingerprint.subject.step, batch })
            }
            Prepared::Latency(latency) => latency.at(batch),
            Prepared::Memory(memory) => memory.at(batch),
        }
    }

    fn interval(&self, batch: u64, value: f64) -> Option<Interval> {
        let Band { ends: [below, above], basis } = self.band(batch)?;
        let ignorance = ignorance(&self.unlike);
        let [low, high] = [below - ignorance, above + ignorance].map(|end| self.predicted(value * end.exp()));
        Some(Interval { low, high, basis })
    }

    /// None for the published method, which knows no intervals.
    fn band(&self, batch: u64) -> Option<Band> {
        match (&self.prepared, &self.fingerprint.fitted) {
            (Prepared::Latency(latency), _) => Some(latency.band(batch)),
            (_, Fitted::Hybrid(Hybrid::Memory(memory))) => Some(memory.spread()?.band(self.family.as_deref())),
            _ => None,
        }
    }

    fn predicted(&self, value: f64) -> Predicted {
        Predicted::new(self.fingerprint.subject.quantity, value)
    }
}

/// Operations that are not understood widen an interval as if each could cost twice an average one.
fn ignorance(unlike: &[Unlike]) -> f64 {
    let missed = unlike.iter().find_map(|unlike| match *unlike {
        Unlike::NotUnderstood { unknown, operations } => Some(unknown as f64 / operations as f64),
        _ => None,
    });
    missed.map_or(0.0, |share| (2.0 * share).ln_1p())
}
