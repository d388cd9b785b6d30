//! A simulated device: a roofline model of a network's layers, seeded noise, a memory capacity.
//!
//! It serves to try a whole configuration without hardware, and for tests that need a known answer. An operation takes
//! the longer of its arithmetic and its memory traffic (the roofline of Williams, Waterman and Patterson, 2009), plus
//! a fixed start time. Training runs every operation three times: forward, the gradient of its input, the gradient of
//! its weights. Inference keeps weights once, training four times (weight, gradient, momentum, and the update in
//! flight). Training keeps every output for the backward pass, inference the largest pair of input and output.
//!
//! Other steps leave parts out. Frozen weights have neither gradient nor momentum; below the lowest trained layer
//! nothing runs backward and no output is kept. Freed gradients are held once instead of twice. Gradient accumulation
//! keeps the outputs of one pass. Checkpointed segments keep only their inputs, plus the outputs of the largest
//! segment.

use super::protocol::{LatencyReading, MemoryReading};
use super::{Device, Measurement, MeasurementJob};
use crate::records::MeasurementOutcome;
use perf4sight_base::checksum::hash;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_base::units::Bytes;
use perf4sight_machine::{MachineProperties, RunWatch};
use perf4sight_network::{CheckpointSegment, Network, Node};
use perf4sight_onnx as onnx;
use perf4sight_step::workload::{Stage, Step, Workload, ZeroGrad};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The performance of a simulated device; the content of a `device_source` file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimulatedPerformance {
    /// Multiply-accumulates per second, in billions.
    pub gmacs_per_second: f64,
    /// Memory traffic per second, in billions of bytes.
    pub gigabytes_per_second: f64,
    /// Microseconds from one kernel launch to the next.
    pub start_microseconds: f64,
    /// Memory in MiB.
    pub capacity_mib: f64,
    /// Memory of the process before the network is loaded, in MiB; part of `mem_used`.
    pub idle_mib: f64,
    /// Largest relative deviation of a measured time from the computed one.
    pub noise: f64,
}

impl Default for SimulatedPerformance {
    /// Roughly a small accelerator with its own memory.
    fn default() -> Self {
        SimulatedPerformance {
            gmacs_per_second: 500.0,
            gigabytes_per_second: 50.0,
            start_microseconds: 10.0,
            capacity_mib: 4096.0,
            idle_mib: 256.0,
            noise: 0.02,
        }
    }
}

impl SimulatedPerformance {
    /// Reads a JSON file with any of the fields; the others keep their defaults.
    ///
    /// # Errors
    /// A file that cannot be read, an unknown field, a value that is not above zero.
    pub fn load(file: &Path) -> Result<Self> {
        let text = input_file::text(file, "read the simulated device")?;
        let abilities: SimulatedPerformance = serde_json::from_str(&text).map_err(|cause| {
            Error::input(format!("the simulated device cannot be understood: {cause}")).file(file).line(cause.line())
        })?;
        let rates = [abilities.gmacs_per_second, abilities.gigabytes_per_second, abilities.capacity_mib];
        let extras = [abilities.start_microseconds, abilities.idle_mib, abilities.noise];
        if rates.iter().all(|rate| *rate > 0.0) && extras.iter().all(|extra| *extra >= 0.0) && abilities.noise < 1.0 {
            return Ok(abilities);
        }
        Err(Error::input("a simulated device has rates and a capacity above 0, and noise from 0 to below 1").file(file))
    }

    /// Milliseconds of one step, without noise.
    fn milliseconds(&self, network: &Network, workload: Workload) -> f64 {
        let (samples, passes) = (workload.batch, workload.step.accumulate.passes());
        // If the samples do not divide evenly, the first passes get one more sample each.
        let longer = samples % passes;
        let pass = |samples| 1e3 * self.seconds(network, Workload { batch: samples, ..workload });
        let whole = if longer > 0 { longer as f64 * pass(samples / passes + 1) } else { 0.0 };
        whole + (passes - longer) as f64 * pass(samples / passes)
    }

    /// Seconds of a pass over a batch of this size.
    fn seconds(&self, network: &Network, pass: Workload) -> f64 {
        network
            .nodes()
            .iter()
            .zip(StepExecution::new(network, pass.step).runs)
            .map(|(node, runs)| {
                let macs = network.macs_of(node) as f64 * pass.batch as f64;
                let bytes = network.bytes_in(node, pass) as f64 + network.bytes_out(node, pass) as f64;
                let arithmetic = macs / (self.gmacs_per_second * 1e9);
                let once = self.start_microseconds * 1e-6 + arithmetic.max(bytes / (self.gigabytes_per_second * 1e9));
                runs * once
            })
            .sum()
    }
}

/// How a step runs and keeps the operations of a network.
struct StepExecution {
    /// How often each operation runs, including its gradients.
    runs: Vec<f64>,
    kept: Vec<bool>,
    /// The checkpointed segments, which run again in the backward pass.
    segments: Vec<CheckpointSegment>,
}

impl StepExecution {
    fn new(network: &Network, step: Step) -> Self {
        let (part, cuts) = (network.trained_in(step.trainable), network.cuts(step.checkpoint));
        let segments = network.segments(&cuts);
        let (whole, asked) = (network.gradients(), part.gradients());
        // Nodes without gradients in the whole network, such as data, count as in the published step.
        let idle = |index: usize| whole[index] && !asked[index];
        let again: Vec<_> = segments.iter().map(|segment| part.runs_again(segment, &asked)).collect();
        let runs = part.nodes().iter().enumerate().map(|(index, node)| {
            let frozen = network.trains(node) && !part.trains(node);
            let gradients = if idle(index) { 0.0 } else { 2.0 - f64::from(u8::from(frozen)) };
            let forward = 1.0 + f64::from(u8::from(again.iter().any(|nodes| nodes.contains(&index))));
            if step.trains() { forward + gradients } else { 1.0 }
        });
        let runs = runs.collect();
        let crosses = |index: usize| cuts.iter().any(|cut| cut.index() == index);
        let within = |index: usize| segments.iter().any(|segment| segment.nodes.contains(&index));
        let kept = (0..network.nodes().len()).map(|index| !idle(index) && (!within(index) || crosses(index))).collect();
        StepExecution { runs, kept, segments }
    }
}

/// Bytes of all tensors of one step that are alive at the same time.
fn tensors(network: &Network, workload: Workload) -> u64 {
    let step = workload.step;
    let weights = network.parameters().saturating_mul(step.weight());
    match step.stage {
        Stage::Training => weights.saturating_add(training_bytes(network, workload)),
        Stage::Inference => {
            let pairs = network
                .nodes()
                .iter()
                .map(|node| network.bytes_in(node, workload).saturating_add(network.bytes_out(node, workload)));
            pairs.max().unwrap_or(0).saturating_add(weights)
        }
    }
}

/// Bytes that training needs besides the weights: gradients, optimizer states, outputs kept for backward.
fn training_bytes(network: &Network, workload: Workload) -> u64 {
    let (step, part) = (workload.step, network.trained_in(workload.step.trainable));
    let learned = part.nodes().iter().flat_map(|node| part.learned_of(node)).fold(0, u64::saturating_add);
    // Gradients that are kept are held twice: the old ones and the new ones that are added to them.
    let gradients = match step.zero_grad {
        ZeroGrad::Keep => 2,
        ZeroGrad::Free => 1,
    };
    let copies = (gradients + step.optimizer.states()).saturating_mul(step.weight());
    let pass = Workload { batch: step.accumulate.samples(workload.batch), ..workload };
    let course = StepExecution::new(network, step);
    let outputs = |nodes: &[Node]| nodes.iter().map(|node| network.bytes_out(node, pass)).fold(0, u64::saturating_add);
    let kept = network.nodes().iter().zip(&course.kept).filter(|(_, kept)| **kept);
    let kept = kept.map(|(node, _)| network.bytes_out(node, pass)).fold(0, u64::saturating_add);
    let again = course.segments.iter().map(|segment| outputs(&network.nodes()[segment.nodes.clone()])).max();
    [learned.saturating_mul(copies), kept, again.unwrap_or(0)].into_iter().fold(0, u64::saturating_add)
}

/// A device that computes what a step would take.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedDevice {
    /// How fast it is, and how much memory it has.
    pub abilities: SimulatedPerformance,
    /// A limit below the capacity.
    pub mem_limit: Option<Bytes>,
    /// The same seed gives the same noise for a job.
    pub seed: u64,
}

impl Device for SimulatedDevice {
    fn name(&self) -> &str {
        "simulated"
    }

    fn capacity(&self) -> Option<Bytes> {
        Some(self.available())
    }

    fn setting(&self) -> MachineProperties {
        let limit = self.mem_limit.map_or("default".to_owned(), |limit| format!("{} MiB", limit.mib()));
        let abilities = serde_json::to_string(&self.abilities).unwrap_or_default();
        let facts = [
            ("device", self.name().to_owned()),
            ("perf4sight", env!("CARGO_PKG_VERSION").to_owned()),
            ("processor", abilities),
            ("mem_limit", limit),
            ("target", self.name().to_owned()),
        ];
        facts.map(|(name, fact)| (name.to_owned(), fact)).into()
    }

    fn check(&self, job: &MeasurementJob) -> Result<()> {
        super::refuse_layers(self, job)?;
        input_file::open(&job.file, "read the network").map(drop)
    }

    fn measure(&self, job: &MeasurementJob, watch: &RunWatch<'_>) -> Result<Measurement> {
        if watch.cancelled() {
            return Ok(Measurement::Interrupted);
        }
        let network = match onnx::read(&job.file) {
            Ok(loaded) => loaded.network,
            Err(error) => return Ok(Measurement::broken_run(MeasurementOutcome::Failed, error.to_string())),
        };
        let mut noise = self.random_of_job(job);
        let memory = self.memory(&network, job.workload);
        if memory.used > self.available().0 {
            return Ok(Measurement::OutOfMemory { memory: Some(memory), seconds: 0.0 });
        }
        let latency = LatencyReading {
            median: self.abilities.milliseconds(&network, job.workload)
                * (1.0 + self.abilities.noise * noise.random_range(-1.0..=1.0)),
            spread: self.abilities.noise,
            steps: 3,
            discarded: 0,
            disturbed: false,
        };
        let (latency, memory) = (job.latency.then_some(latency), job.memory.then_some(memory));
        Ok(Measurement::Measured { latency, memory, layers: None, seconds: 0.0, conditions: Box::default() })
    }
}

impl SimulatedDevice {
    fn available(&self) -> Bytes {
        let capacity = Bytes::from_mib(self.abilities.capacity_mib);
        self.mem_limit.map_or(capacity, |limit| limit.min(capacity))
    }

    /// Randomness of one job: the same for the same job and seed, in whatever order jobs run.
    fn random_of_job(&self, job: &MeasurementJob) -> Xoshiro256PlusPlus {
        let name = format!("{} {} {} {}", job.variant, job.workload.step, job.workload.batch, job.round);
        Xoshiro256PlusPlus::seed_from_u64(self.seed ^ hash(name.bytes()))
    }

    fn memory(&self, network: &Network, workload: Workload) -> MemoryReading {
        // Accelerators hand out memory in pages of 2 MiB.
        const PAGE: u64 = 2 << 20;
        let allocated = tensors(network, workload);
        let reserved = allocated.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        let used = reserved.saturating_add(Bytes::from_mib(self.abilities.idle_mib).0);
        let available = self.available().0;
        MemoryReading { allocated, reserved, used, available, free: available, ..MemoryReading::default() }
    }
}
