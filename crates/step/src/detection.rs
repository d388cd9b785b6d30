//! Requests to workers that train detectors, and their replies.
//!
//! ```
//! use perf4sight_step::detection::DetectionReply;
//! for line in [
//!     r#"{"outcome":"measured","images":32,"damaged":{"pet_7":"no pet in its trimap: no pixel has the value 1"},
//!         "first":{"seconds":1.9,"parts":[{"wait":0.1,"copy":0.0,"forward":0.8,"backward":0.9,"optimizer":0.1,"other":0.0}]},
//!         "plain":{"seconds":1.0,"parts":[{"wait":0.1,"copy":0.0,"forward":0.3,"backward":0.5,"optimizer":0.1,"other":0.0}]},
//!         "exact":{"seconds":1.0,"parts":[{"wait":0.1,"copy":0.0,"forward":0.3,"backward":0.5,"optimizer":0.1,"other":0.0}]},
//!         "losses":[1.4,1.2,null],"epoch_starts":[0.2],"seconds":4.5,
//!         "batches":[{"height":320,"width":224,"proposals":512}],"largest":[320,320],"weights":18954629,
//!         "memory":{"resident":1304000000,"used":656000000,"heap":700000000,"loaders":0}}"#,
//!     r#"{"outcome":"out_of_memory","memory":{"resident":1304000000,"used":656000000,"loaders":0}}"#,
//!     r#"{"outcome":"failed","reason":"trainval.txt: lists no image"}"#,
//! ] {
//!     serde_json::from_str::<DetectionReply>(line)?;
//! }
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! While it runs, the worker writes lines such as `{"step":3,"of":22,"epoch":1}` to its standard error ([`WorkerProgress`]); its
//! other output there is quoted where it dies without an answer.

use crate::workload::{Optimizer, Precision};
use perf4sight_base::error::{Error, Result};
use perf4sight_machine::Conditions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Some steps of training to measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DetectionTask {
    /// A network of torchvision, or `module:function` of a user's own.
    pub network: String,
    /// Whether the backbone's trained weights are downloaded.
    pub weights: bool,
    /// Folder in the layout of Oxford-IIIT Pet.
    pub data: PathBuf,
    /// What boxes are drawn around.
    pub boxes: BoxSource,
    /// Images of a step.
    pub batch: u64,
    /// Processes that load data; none: the training process itself.
    pub num_workers: u64,
    /// Batches that each of them loads ahead.
    pub prefetch_factor: u64,
    /// Pixels of the shorter side of images; none: the network's own.
    pub size: Option<u64>,
    /// Of weights and computation.
    pub precision: Precision,
    /// Whether images are stored channels-last (pixel by pixel) instead of channel by channel.
    pub channels_last: bool,
    /// Whether batches are stored in pinned memory, from which a GPU copies by DMA.
    pub pin_memory: bool,
    /// How weights change.
    pub optimizer: Optimizer,
    /// Factor on the gradients.
    pub learning_rate: f64,
    /// The norm that gradients are clipped to.
    pub clip: Option<f64>,
    /// Steps that are measured apart, because they are slower.
    pub warm_up: u64,
    /// Steps that are measured freely, and as many with the device finished at the end of each part.
    pub steps: u64,
    /// Where a trace of some more steps is written; none: nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
}

/// A request for a detector's graphs: its backbone with the heads that read whole images, at the sizes of the batches,
/// and the head that runs on each proposal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraphsTask {
    /// As in [`DetectionTask::network`].
    pub network: String,
    /// As in [`DetectionTask::weights`].
    pub weights: bool,
    /// As in [`DetectionTask::data`].
    pub data: PathBuf,
    /// As in [`DetectionTask::boxes`].
    pub boxes: BoxSource,
    /// Heights and widths of batches that were measured.
    pub shapes: Vec<[u64; 2]>,
    /// The requested batches; the worker finds out how large their images are.
    pub asked: Vec<BatchRequest>,
}

/// A batch of images of a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchRequest {
    /// Images per step.
    pub batch: u64,
    /// Pixels of the shorter side; none: the network's own.
    pub size: Option<u64>,
}

/// How far a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerProgress {
    /// Steps so far, over all epochs.
    pub step: u64,
    /// Steps that there will be.
    pub of: u64,
    /// Epochs so far, with the one that runs.
    pub epoch: u64,
}

perf4sight_base::words! {
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum BoxSource: "boxes" {
        /// The whole pet, from the trimap.
        #[default]
        Trimap = "trimap",
        /// Its head, from the xml file.
        Head = "head",
    }
}

/// What the worker answers to a [`DetectionTask`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum DetectionReply {
    /// The steps ran.
    Measured(Box<MeasuredDetection>),
    /// A step did not fit.
    OutOfMemory {
        /// Memory in use until then; none where the kernel ended the worker.
        #[serde(default)]
        memory: Option<MemoryPeaks>,
    },
    /// Anything else that stopped the worker, in its own words.
    Failed {
        /// In the worker's own words.
        reason: String,
    },
}

/// What the worker answers to a [`GraphsTask`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum GraphsReply {
    /// One graph for each part of the step.
    Described(Box<DetectorGraphs>),
    /// Whatever stopped the worker, in its own words.
    Failed {
        /// In the worker's own words.
        reason: String,
    },
}

/// A detector's graphs: ONNX files without weights, in base64.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DetectorGraphs {
    /// Its backbone with the heads that read all of its features, once for each size of a batch.
    pub graphs: Vec<DetectorGraph>,
    /// The head that runs on each proposal; none for detectors without proposals.
    pub box_head: Option<String>,
    /// How large the images are in each requested batch.
    pub asked: Vec<BatchSizes>,
    /// Which weights of the backbone and those heads are trained: the words of `trainable`.
    pub trainable: String,
    /// Images in the data set.
    pub images: u64,
}

/// A graph for batches of a height and width.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DetectorGraph {
    /// Height and width.
    pub shape: [u64; 2],
    /// The backbone with the head that reads all of its features.
    pub onnx: String,
    /// The backbone alone, where such batches were measured.
    pub trunk: Option<String>,
}

/// How large batches are that are drawn from a data set.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct BatchSizes {
    /// Height and width of one that is as large as they are on average, nearly.
    pub typical: [u64; 2],
    /// Their pixels on average.
    pub area: f64,
    /// Height and width of the largest.
    pub largest: [u64; 2],
}

/// Steps that ran. Times are in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredDetection {
    /// The first steps, which warm up.
    pub first: StepSeries,
    /// Steps that ran freely: half of them before the exact ones, half after.
    pub plain: StepSeries,
    /// Steps in which the device had finished at the end of each part.
    pub exact: StepSeries,
    /// The loss of each step in their order; none where it was no finite number.
    pub losses: Vec<Option<f64>>,
    /// Peaks over all steps.
    pub memory: MemoryPeaks,
    /// Images in the data set.
    pub images: u64,
    /// The waiting time for the first batch of each epoch; it is not part of any step's time.
    pub epoch_starts: Vec<f64>,
    /// Samples that were left out, and why.
    pub damaged: BTreeMap<String, String>,
    /// Seconds of everything that the task did.
    pub seconds: f64,
    /// The backbone's input in each step, in the order of the steps; empty where the network has no known backbone.
    #[serde(default)]
    pub batches: Vec<BackboneBatch>,
    /// Height and width of the largest batch that the data may give, which the last of the first steps took.
    #[serde(default)]
    pub largest: Option<[u64; 2]>,
    /// Numbers in all of its parameters.
    #[serde(default)]
    pub weights: u64,
    /// State of the machine before and after the steps: clocks and temperatures.
    #[serde(default)]
    pub conditions: Box<Conditions>,
}

/// A backbone's input in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackboneBatch {
    /// Pixels from top to bottom of all images, filled up to the highest.
    pub height: u64,
    /// Likewise from left to right.
    pub width: u64,
    /// Proposals from which boxes were computed.
    pub proposals: u64,
}

/// Steps in a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepSeries {
    /// Seconds of the parts of each step.
    pub parts: Vec<StepSeconds>,
    /// By a clock around all of them.
    pub seconds: f64,
    /// The number of them during which other programs used processors that this one waited for.
    #[serde(default)]
    pub disturbed: u64,
}

/// The seconds of the parts of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StepSeconds {
    /// Waiting for the batch, or loading it where no other process does.
    pub wait: f64,
    /// Seconds to copy the batch to the device.
    pub copy: f64,
    /// From images to the loss.
    pub forward: f64,
    /// Seconds of the backward pass.
    pub backward: f64,
    /// Changing the weights.
    pub optimizer: f64,
    /// Everything else.
    pub other: f64,
    /// The backbone's part of forward; none where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trunk_forward: Option<f64>,
    /// The backbone's part of backward; none where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trunk_backward: Option<f64>,
}

/// Peaks in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPeaks {
    /// The process's resident set.
    pub resident: u64,
    /// Peak above the process's memory before the network, in the first steps, during which freed memory is returned to
    /// the system at once: the need of a step.
    pub used: u64,
    /// The same in all steps, including freed memory that the heap keeps.
    #[serde(default)]
    pub heap: Option<u64>,
    /// Private memory of the processes that load data.
    pub loaders: u64,
    /// Tensors on a GPU.
    #[serde(default)]
    pub allocated: Option<u64>,
    /// Memory reserved by the allocator of a GPU.
    #[serde(default)]
    pub reserved: Option<u64>,
}

impl MeasuredDetection {
    /// Whether these can be measurements of steps that ran.
    ///
    /// # Errors
    /// Impossible values: invalid times, no images, no epoch that began.
    pub fn check(&self) -> Result<()> {
        let possible = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
        let ran = |phase: &StepSeries| {
            let parts = phase.parts.iter().all(|parts| parts.seconds().into_iter().all(possible));
            parts && possible(phase.seconds) && (phase.seconds > 0.0 || phase.parts.is_empty())
        };
        let problem = match self {
            MeasuredDetection { images: 0, .. } => "no image",
            MeasuredDetection { epoch_starts, .. } if epoch_starts.is_empty() => "no epoch that began",
            MeasuredDetection { epoch_starts, .. } if !epoch_starts.iter().copied().all(possible) => {
                "epochs that began before their time"
            }
            MeasuredDetection { first, plain, exact, .. } if ![first, plain, exact].into_iter().all(ran) => {
                "times that are none"
            }
            _ => return Ok(()),
        };
        Err(Error::input(format!("{problem} in what was measured")))
    }
}

impl StepSeconds {
    fn seconds(&self) -> Vec<f64> {
        self.in_order().into_iter().chain(self.trunk_forward).chain(self.trunk_backward).collect()
    }

    /// The seconds of each part, in the order they run.
    pub fn in_order(&self) -> [f64; 6] {
        [self.wait, self.copy, self.forward, self.backward, self.optimizer, self.other]
    }

    /// The whole step.
    pub fn sum(&self) -> f64 {
        self.in_order().iter().sum()
    }
}
