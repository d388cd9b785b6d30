//! What fingerprints say about one network.

use crate::fingerprint::{
    Call, Expected, MaxBatch, MemoryLimit, Predicted, Prediction, Shares, Verdict, check_understood,
};
use crate::verbs::extents::Extents;
use crate::verbs::source::Device;
use perf4sight_base::error::Result;
use perf4sight_base::units::Bytes;
use perf4sight_memory::{Alive, Timeline};
use perf4sight_network::Network;
use perf4sight_step::workload::Quantity;
use std::collections::BTreeMap;

/// Everything predicted of one network.
pub(super) struct Answer {
    /// As it was asked for.
    pub network: String,
    /// How far off latency and memory are likely to be, where that was tested.
    pub expected: BTreeMap<Quantity, Expected>,
    /// One per batch size, in the order asked.
    pub points: Vec<Point>,
    /// What a step must fit into, where the memory fingerprint knows or the question says.
    pub limit: Option<MemoryLimit>,
    /// Where the memory fingerprint knows.
    pub max_batch: Option<MaxBatch>,
    /// What the largest batch asked for is made of; only on a network's own page.
    pub breakdown: Option<Breakdown>,
}

/// One batch size.
pub(super) struct Point {
    pub batch: u64,
    pub latency: Option<Prediction>,
    pub memory: Option<Prediction>,
    /// What the allocator takes for tensors alone.
    pub tensors: Option<Predicted>,
    /// Memory of what has to fit into [`Answer::limit`].
    pub need: Option<Predicted>,
    pub verdict: Option<Verdict>,
}

/// What a step's latency and memory are made of.
pub(super) struct Breakdown {
    pub batch: u64,
    pub shares: Option<Shares>,
    pub alive: Option<Alive>,
    pub timeline: Option<Timeline>,
}

/// What is asked about every network.
pub(super) struct Question<'a> {
    /// What answers, of every device; at least one.
    pub devices: &'a [Device],
    pub batches: &'a [u64],
    /// What a step must fit into, instead of the memory of the device that was profiled.
    pub limit: Option<Bytes>,
    /// How large what networks read and give is to be.
    pub extents: &'a Extents,
    /// Whether to break the largest batch size down.
    pub breakdown: bool,
    /// Whether to tell what lies in memory all along a step of that size, too.
    pub timeline: bool,
}

impl Question<'_> {
    /// The data set whose images known networks read.
    pub fn dataset(&self) -> &str {
        &self.devices[0].fingerprints.subject().dataset
    }

    /// Asks every device about `network`, called `name`.
    ///
    /// # Errors
    /// A network of which too little is understood.
    pub fn ask(&self, name: &str, network: &Network) -> Result<Vec<Answer>> {
        check_understood(network)?;
        self.devices.iter().map(|device| self.ask_device(device, name, network)).collect()
    }

    fn ask_device(&self, Device { fingerprints, step, .. }: &Device, name: &str, network: &Network) -> Result<Answer> {
        network.check_step(*step)?;
        let [latency, memory] = [&fingerprints.latency, &fingerprints.memory]
            .map(|one| one.as_ref().map(|one| one.about_step(network, *step, self.limit)).transpose());
        let (latency, memory) = (latency?, memory?);
        let points = self.batches.iter().map(|&batch| Point {
            batch,
            latency: latency.as_ref().map(|about| about.at(batch)),
            memory: memory.as_ref().map(|about| about.at(batch)),
            tensors: memory.as_ref().and_then(|about| about.tensors(batch)),
            need: memory.as_ref().and_then(|about| about.need(batch)),
            verdict: memory.as_ref().and_then(|about| about.verdict(batch)),
        });
        let points = points.collect();
        let largest = self.batches.iter().copied().max().filter(|_| self.breakdown || self.timeline);
        let breakdown = largest.map(|batch| Breakdown {
            batch,
            shares: latency.as_ref().and_then(|about| about.shares(batch)),
            alive: memory.as_ref().and_then(|about| about.alive(batch)),
            timeline: memory.as_ref().filter(|_| self.timeline).and_then(|about| about.timeline(batch)),
        });
        let expected = [(Quantity::Latency, &latency), (Quantity::Memory, &memory)]
            .into_iter()
            .filter_map(|(quantity, about)| Some((quantity, about.as_ref()?.expected()?)))
            .collect();
        let limit = memory.as_ref().and_then(|about| about.limit());
        let max_batch = memory.as_ref().and_then(|about| about.max_batch());
        Ok(Answer { network: name.to_owned(), expected, points, limit, max_batch, breakdown })
    }
}

impl Answer {
    /// Everything that sets the network apart from what was profiled, each reason once.
    pub fn out_of_distribution(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        for reason in self.points.iter().flat_map(Point::out_of_distribution) {
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        reasons
    }
}

impl Point {
    pub fn fits(&self) -> bool {
        self.verdict.is_some_and(|verdict| verdict.call == Call::Fits)
    }

    /// Samples a second.
    pub fn throughput(&self) -> Option<f64> {
        let latency = self.latency.as_ref()?.value.value();
        (latency > 0.0).then(|| 1000.0 * self.batch as f64 / latency)
    }

    /// Latency and memory, whichever there is.
    pub fn predictions(&self) -> impl Iterator<Item = &Prediction> {
        self.latency.iter().chain(&self.memory)
    }

    /// What sets this prediction apart from what was profiled, each reason once.
    pub fn out_of_distribution(&self) -> Vec<String> {
        let mut reasons: Vec<String> = Vec::new();
        for reason in self.predictions().flat_map(|prediction| &prediction.out_of_distribution).map(ToString::to_string)
        {
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        reasons
    }
}
