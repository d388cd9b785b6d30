//! The one JSON line each way between the profiler and a worker, so that a worker can be written in anything.
//!
//! A worker is started for one measurement. It reads one line from its standard input:
//!
//! ```json
//! {"protocol":2,"place":"cpu","threads":2,"mem_limit":629145600,"seed":0,
//!  "task":"step","network":"nets/resnet18_30.onnx","stage":"training","batch":8,"latency":true,"memory":true,"layers":false,
//!  "tf32":false,"cudnn_benchmark":false,"steps":{"minimum":3,"minimum_seconds":0.5,"spread":0.02,"maximum_seconds":5.0}}
//! ```
//!
//! (without the line breaks). A request without `task` is a `step`. Its step is the published one, except for the keys
//! it names: `"optimizer":"adamw","zero_grad":"free"`. The worker writes one of these to its standard output, with
//! times in milliseconds unless the key is called seconds, and memory in bytes:
//!
//! ```
//! use perf4sight_step::protocol::WorkerReply;
//! for line in [
//!     r#"{"outcome":"measured",
//!         "latency":{"median":151.2,"spread":0.013,"steps":4,"discarded":1,"disturbed":false},
//!         "memory":{"allocated":251658240,"reserved":251658240,"used":310000000,"available":8000000000,"free":900000000,
//!                   "heap":420000000},
//!         "layers":{"step":151.9,"step_spread":0.02,"steps":4,"disturbed":false,"times":[
//!             {"node":"conv1","pass":"forward","milliseconds":6.1,"spread":0.03},
//!             {"node":null,"pass":"loss","milliseconds":0.1,"spread":0.2}]},
//!         "seconds":1.9,
//!         "conditions":{"start":{"clocks":{"gpu":114.75},"temperatures":{"GPU-therm":41.5}},
//!                       "end":{"clocks":{"gpu":1300.5},"temperatures":{"GPU-therm":52.0},"held_by":["gpu-balanced"]}}}"#,
//!     r#"{"outcome":"out_of_memory",
//!         "memory":{"allocated":629100000,"reserved":629100000,"used":640000000,"available":8000000000,"free":900000000}}"#,
//!     r#"{"outcome":"failed","reason":"operation Foo cannot be run"}"#,
//! ] {
//!     serde_json::from_str::<WorkerReply>(line)?;
//! }
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! How it measures: memory comes first, in a warm-up and one more step, in which the optimizer has its state. An
//! allocator that returns freed blocks at once is used for it, so that `used` is the need of the step. Then come the
//! timed steps, with the allocator that processes usually have; each is followed by a step timed operation by operation
//! where `layers` are requested. `heap` is the peak of `used` during these.
//!
//! `conditions`, before the network is built and right after the last step, are optional, and so is everything in them
//! ([`Conditions`]); without them, times are never marked as throttled.
//!
//! Whatever it writes to its standard error is quoted when it dies without an answer.
//!
//! Started with `--about`, a worker reads nothing and writes one line about itself:
//!
//! ```
//! use perf4sight_step::protocol::WorkerAbout;
//! let line = r#"{"protocol":2,"software":{"python":"3.6.9","torch":"1.10.0"},
//!                "places":{"cpu":{},"cuda:0":{"gpu":"NVIDIA Tegra X2","cuda":"10.2"}},"layers":false,
//!                "settings":["optimizer","zero_grad","precision"],"precisions":{"cpu":["fp32"],"cuda:0":["fp32","amp_fp16"]},
//!                "gpus":{"cuda:0":{"name":"NVIDIA Tegra X2","memory":8232402944,"unified":true}}}"#;
//! let about = serde_json::from_str::<WorkerAbout>(line)?;
//! assert!(about.places.contains_key("cuda:0"));
//! // A worker that does not say otherwise measures steps; one without `settings` the published ones only, and places without
//! // `precisions` compute with fp32.
//! assert_eq!(about.tasks, ["step"]);
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! On a GPU, times are taken on the device, between events, with no other work in the queue. `allocated` and `reserved`
//! are the peaks of its allocator, and out of memory means that this allocator failed.

use crate::detection::{DetectionTask, GraphsTask};
use crate::workload::{StepPart, Workload};
use perf4sight_machine::{Conditions, MachineProperties};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Version of this protocol; a worker refuses a request of another one.
pub const PROTOCOL: u32 = 2;

/// The fields that lines of all versions share.
#[derive(Deserialize)]
struct ProtocolVersion {
    protocol: u32,
}

/// A line of this version of the protocol.
///
/// # Errors
/// Which version it is of instead, or why it is no line of this one.
pub fn read<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    let ProtocolVersion { protocol } = serde_json::from_str(line).map_err(|cause| cause.to_string())?;
    if protocol != PROTOCOL {
        return Err(format!("protocol {protocol} instead of {PROTOCOL}"));
    }
    serde_json::from_str(line).map_err(|cause| cause.to_string())
}

/// The line a worker reads from its standard input: one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerRequest {
    /// [`PROTOCOL`] of the program that asks.
    pub protocol: u32,
    /// The device: `cpu`, or `cuda:` and the number of the GPU.
    pub place: String,
    /// Threads of the compute library.
    pub threads: usize,
    /// Bytes past which allocations are refused, the GPU's on a GPU; none: no limit.
    pub mem_limit: Option<u64>,
    /// Seed of weights and data.
    pub seed: u64,
    /// What the worker is asked to do.
    #[serde(flatten)]
    pub task: WorkerTask,
}

/// A task of a worker; in a line its name is `task`, and its own fields are next to the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub enum WorkerTask {
    /// Measure a step of a network.
    Step(StepTask),
    /// Train a detector; the answer is a [`crate::detection::DetectionReply`].
    Detection(Box<DetectionTask>),
    /// Describe a detector's graphs; the answer is a [`crate::detection::GraphsReply`].
    DetectionGraphs(Box<GraphsTask>),
}

impl WorkerTask {
    /// The name of [`WorkerTask::Step`], which a request is of that names none.
    pub const STEP: &str = "step";
    /// How [`WorkerAbout::tasks`] names [`WorkerTask::Detection`].
    pub const DETECTION: &str = "detection";
}

/// A step of a network to measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepTask {
    /// The network as an ONNX file.
    pub network: PathBuf,
    /// Stage, batch size and the settings of the step that differ from the published one.
    #[serde(flatten)]
    pub workload: Workload,
    /// The nodes after which it is cut where a part of forward is to run again in backward: `Network::cuts`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cuts: Vec<String>,
    /// Whether to time steps.
    pub latency: bool,
    /// Whether to read peaks of memory.
    pub memory: bool,
    /// Whether every operation of a step is timed.
    pub layers: bool,
    /// Whether a GPU may round the factors of products to 10 bits (TF32).
    #[serde(default)]
    pub tf32: bool,
    /// Whether cuDNN tries its algorithms and takes the fastest.
    #[serde(default)]
    pub cudnn_benchmark: bool,
    /// When enough steps were timed.
    pub steps: StepRule,
}

/// When enough steps were timed: at least `minimum` steps and `minimum_seconds`, then until the median is known to
/// `spread`, at most `maximum_seconds`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepRule {
    /// Fewest timed steps.
    pub minimum: usize,
    /// Least timed seconds in all.
    pub minimum_seconds: f64,
    /// Half-width of the median's confidence interval that is good enough, relative to the median.
    pub spread: f64,
    /// Timed seconds after which the median is taken as it is.
    pub maximum_seconds: f64,
}

impl Default for StepRule {
    /// The published three steps, but at least half a second, then until the median is known to 2 %.
    fn default() -> Self {
        StepRule { minimum: 3, minimum_seconds: 0.5, spread: 0.02, maximum_seconds: 5.0 }
    }
}

/// The request in a line.
///
/// # Errors
/// See [`read`]; an unknown task, or one that lacks a field.
pub fn read_request(line: &str) -> Result<WorkerRequest, String> {
    let mut fields: Map<String, Value> = read(line)?;
    // Requests were of steps before there were other tasks.
    fields.entry("task").or_insert_with(|| WorkerTask::STEP.into());
    serde_json::from_value(fields.into()).map_err(|cause| cause.to_string())
}

/// The line a worker writes about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerAbout {
    /// [`PROTOCOL`] of the worker.
    pub protocol: u32,
    /// The software that runs networks: names and versions.
    pub software: MachineProperties,
    /// The devices it can use, as [`WorkerRequest::place`] names them, with the facts on which measurements there depend.
    pub places: BTreeMap<String, MachineProperties>,
    /// Names of the tasks that it can do.
    #[serde(default = "steps")]
    pub tasks: Vec<String>,
    /// Settings of a step in which it can differ from the published profiler, by the keys of requests.
    #[serde(default)]
    pub settings: Vec<String>,
    /// The precisions supported at a place, by their words in requests; fp32 alone at places that are not named.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub precisions: BTreeMap<String, Vec<String>>,
    /// Whether it times single operations.
    pub layers: bool,
    /// The GPUs among the places.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gpus: BTreeMap<String, GpuInfo>,
    /// Why there is no GPU among the places, of a worker that was to look for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_gpu: Option<String>,
}

/// The tasks of a worker that names none.
fn steps() -> Vec<String> {
    vec![WorkerTask::STEP.to_owned()]
}

/// A GPU that networks can run on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInfo {
    /// The model, such as `NVIDIA H100`.
    pub name: String,
    /// Bytes in total.
    pub memory: u64,
    /// Whether that is the machine's main memory.
    pub unified: bool,
    /// Its PCI address, such as `0000:3B:00.0`, by which NVML identifies it; may be empty.
    #[serde(default)]
    pub bus: String,
    /// The major version of its compute capability; 0 where it was not queried.
    #[serde(default)]
    pub capability: u64,
    /// The processes that compute on it already, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
}

/// The line a worker writes to its standard output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum WorkerReply {
    /// The step ran.
    Measured {
        /// Present when the request includes latency.
        latency: Option<LatencyReading>,
        /// Present when the request includes memory.
        memory: Option<MemoryReading>,
        /// Present when the request includes layers.
        #[serde(default)]
        layers: Option<LayersReading>,
        /// Seconds spent in steps, warm-up included; the rest of the worker's life is start-up and bookkeeping.
        #[serde(default)]
        seconds: f64,
        /// State of the machine before and after the steps, where the worker read it.
        #[serde(default, skip_serializing_if = "Conditions::is_empty")]
        conditions: Box<Conditions>,
    },
    /// The device or its limit had no more memory; the counters until then.
    OutOfMemory {
        /// Memory counters at the failure.
        memory: MemoryReading,
        /// Seconds spent in steps until then.
        #[serde(default)]
        seconds: f64,
    },
    /// Anything else that stopped the worker, in its own words.
    Failed {
        /// In the worker's own words.
        reason: String,
    },
}

/// Timed steps, summarised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyReading {
    /// Median milliseconds of the timed steps.
    pub median: f64,
    /// Half-width of the median's confidence interval, relative to the median.
    pub spread: f64,
    /// How many steps the median is of.
    pub steps: usize,
    /// Samples thrown away because something else used the processor.
    pub discarded: usize,
    /// Whether disturbance went on, so that the median rests on disturbed samples.
    pub disturbed: bool,
}

/// Steps timed operation by operation, between plain ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayersReading {
    /// Median milliseconds of the plain steps in between: the times of the operations should add up to this.
    pub step: f64,
    /// Half-width of that median's confidence interval, relative to it.
    pub step_spread: f64,
    /// How many steps each time is the median of.
    pub steps: usize,
    /// Whether other programs used the processor so much that the medians are of disturbed steps.
    pub disturbed: bool,
    /// The operations, forward in the order they run, then backward, then the times that belong to no node.
    pub times: Vec<LayerTime>,
}

/// Time of one operation in one pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerTime {
    /// The node's name in the network file; none for loss, zero_grad and optimizer.
    pub node: Option<String>,
    /// In which part of the step.
    pub pass: StepPart,
    /// Milliseconds in a middling step.
    pub milliseconds: f64,
    /// Half-width of the median's confidence interval, relative to it.
    pub spread: f64,
}

/// Memory counters, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryReading {
    /// Peak of the tensors alive at once.
    pub allocated: u64,
    /// Peak that the allocator reserved from the system.
    pub reserved: u64,
    /// Peak of the process (or device) above its idle value, with freed memory returned at once.
    pub used: u64,
    /// Available at idle, by the kernel's count.
    pub available: u64,
    /// Free at idle, by the kernel's count.
    pub free: u64,
    /// Peak of the process above its idle value in the timed steps, with a heap that keeps freed memory; none without
    /// such steps.
    #[serde(default)]
    pub heap: Option<u64>,
    /// How often the allocator gave cached memory back to serve a request; none of allocators that cache nothing.
    #[serde(default)]
    pub retries: Option<u64>,
    /// How often the allocator had to refuse a request; none as above.
    #[serde(default)]
    pub refusals: Option<u64>,
}
