//! The predictions for one network.

use crate::fingerprint::{
    ExpectedError, FitDecision, FitVerdict, LatencyShares, MaxBatch, MemoryLimit, OutOfDistribution, PredictedValue,
    Prediction, check_understood,
};
use crate::verbs::extents::NetworkExtents;
use crate::verbs::source::TargetDevice;
use crate::verbs::verdict::tensors_text;
use perf4sight_base::error::Result;
use perf4sight_base::units::Bytes;
use perf4sight_memory::{MemoryTimeline, TensorsAtPeak};
use perf4sight_network::Network;
use perf4sight_step::workload::Quantity;
use std::collections::BTreeMap;

/// The share of the memory of tensors up to which it does not matter that a file leaves it open.
const LITTLE: f64 = 0.02;

pub(super) struct NetworkAnswer {
    pub network: String,
    /// The expected errors of latency and memory, if they were tested.
    pub expected: BTreeMap<Quantity, ExpectedError>,
    /// One per batch size, in the requested order.
    pub points: Vec<BatchPrediction>,
    /// The memory limit, if the memory fingerprint or the request gives one.
    pub limit: Option<MemoryLimit>,
    /// The largest batch that fits, if there is a memory fingerprint.
    pub max_batch: Option<MaxBatch>,
    /// The components of the largest requested batch; only if one network is requested.
    pub breakdown: Option<PredictionBreakdown>,
}

pub(super) struct BatchPrediction {
    pub batch: u64,
    pub latency: Option<Prediction>,
    pub memory: Option<Prediction>,
    /// The memory that the allocator reserves for tensors.
    pub tensors: Option<PredictedValue>,
    /// The least and the most that these may be.
    pub tensors_between: Option<[PredictedValue; 2]>,
    /// The memory that counts against [`NetworkAnswer::limit`].
    pub need: Option<PredictedValue>,
    pub verdict: Option<FitVerdict>,
}

pub(super) struct PredictionBreakdown {
    pub batch: u64,
    pub shares: Option<LatencyShares>,
    pub alive: Option<TensorsAtPeak>,
    pub timeline: Option<MemoryTimeline>,
}

pub(super) struct PredictQuestion<'a> {
    /// The fingerprints of every device; at least one device.
    pub devices: &'a [TargetDevice],
    pub batches: &'a [u64],
    /// The memory limit, if it is not the memory of the profiled device.
    pub limit: Option<Bytes>,
    /// The sizes of networks' inputs and outputs.
    pub extents: &'a NetworkExtents,
    /// Whether to break down the largest batch size.
    pub breakdown: bool,
    /// Whether to include the memory timeline of that step.
    pub timeline: bool,
}

impl PredictQuestion<'_> {
    /// The data set whose images known networks read.
    pub fn dataset(&self) -> &str {
        &self.devices[0].fingerprints.subject().dataset
    }

    /// Predicts `network`, called `name`, on every device.
    ///
    /// # Errors
    /// A network of which too little is understood.
    pub fn answer(&self, name: &str, network: &Network) -> Result<Vec<NetworkAnswer>> {
        check_understood(network)?;
        self.devices.iter().map(|device| self.ask_device(device, name, network)).collect()
    }

    fn ask_device(
        &self,
        TargetDevice { fingerprints, step, .. }: &TargetDevice,
        name: &str,
        network: &Network,
    ) -> Result<NetworkAnswer> {
        network.check_step(*step)?;
        let [latency, memory] = [&fingerprints.latency, &fingerprints.memory]
            .map(|one| one.as_ref().map(|one| one.about_step(network, *step, self.limit)).transpose());
        let (latency, memory) = (latency?, memory?);
        let points = self.batches.iter().map(|&batch| BatchPrediction {
            batch,
            latency: latency.as_ref().map(|about| about.predict(batch)),
            memory: memory.as_ref().map(|about| about.predict(batch)),
            tensors: memory.as_ref().and_then(|about| about.tensors(batch)),
            tensors_between: memory.as_ref().and_then(|about| about.tensors_between(batch)),
            need: memory.as_ref().and_then(|about| about.needed_memory(batch)),
            verdict: memory.as_ref().and_then(|about| about.verdict(batch)),
        });
        let points = points.collect();
        let largest = self.batches.iter().copied().max().filter(|_| self.breakdown || self.timeline);
        let breakdown = largest.map(|batch| PredictionBreakdown {
            batch,
            shares: latency.as_ref().and_then(|about| about.shares(batch)),
            alive: memory.as_ref().and_then(|about| about.alive(batch)),
            timeline: memory.as_ref().filter(|_| self.timeline).and_then(|about| about.timeline(batch)),
        });
        let expected = [(Quantity::Latency, &latency), (Quantity::Memory, &memory)]
            .into_iter()
            .filter_map(|(quantity, about)| Some((quantity, about.as_ref()?.expected_error()?)))
            .collect();
        let limit = memory.as_ref().and_then(|about| about.limit());
        let max_batch = memory.as_ref().and_then(|about| about.max_batch());
        Ok(NetworkAnswer { network: name.to_owned(), expected, points, limit, max_batch, breakdown })
    }
}

impl NetworkAnswer {
    /// A warning where the network's file leaves the memory of tensors open by more than a little.
    pub fn open_memory(&self) -> Option<String> {
        let open = |point: &&BatchPrediction| match (point.tensors, point.tensors_between) {
            (Some(likely), Some([least, most])) => most.value() - least.value() > LITTLE * likely.value(),
            _ => false,
        };
        let point = self.points.iter().find(open)?;
        let also = if point.is_understood() { "" } else { ", and some operations are not understood" };
        Some(format!(
            "{}: a file does not record all that the module's code keeps, such as results in variables{also}: at batch size {} tensors take {}; \
             perf4sight.estimate_memory follows the module itself",
            self.network,
            point.batch,
            point.tensors_in_words()?
        ))
    }

    /// All reasons why the network is out of distribution, each once.
    pub fn out_of_distribution(&self) -> Vec<String> {
        reasons(self.points.iter().flat_map(BatchPrediction::predictions))
    }
}

impl BatchPrediction {
    pub fn fits(&self) -> bool {
        self.verdict.is_some_and(|verdict| verdict.call == FitDecision::Fits)
    }

    fn is_understood(&self) -> bool {
        let mut reasons = self.predictions().flat_map(|prediction| &prediction.out_of_distribution);
        !reasons.any(|reason| matches!(reason, OutOfDistribution::NotUnderstood { .. }))
    }

    /// The memory of tensors in words: "4.2 GiB", or "4.2 GiB (4.0 GiB – 4.9 GiB)" where the file can be read in several ways.
    pub fn tensors_in_words(&self) -> Option<String> {
        Some(tensors_text(self.tensors?, self.tensors_between))
    }

    /// Samples per second.
    pub fn throughput(&self) -> Option<f64> {
        let latency = self.latency.as_ref()?.value.value();
        (latency > 0.0).then(|| 1000.0 * self.batch as f64 / latency)
    }

    /// The predictions of latency and memory that exist.
    pub fn predictions(&self) -> impl Iterator<Item = &Prediction> {
        self.latency.iter().chain(&self.memory)
    }

    /// The reasons why this prediction is out of distribution, each once.
    pub fn out_of_distribution(&self) -> Vec<String> {
        reasons(self.predictions())
    }
}

fn reasons<'a>(predictions: impl Iterator<Item = &'a Prediction>) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    for reason in predictions.flat_map(|prediction| &prediction.out_of_distribution).map(ToString::to_string) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
}
