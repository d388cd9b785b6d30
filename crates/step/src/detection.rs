//! What a worker that trains detectors is asked, and what it answers.
//!
//! ```
//! use perf4sight_step::detection::Reply;
//! for line in [
//!     r#"{"outcome":"measured","images":32,"damaged":{"pet_7":"no pet in its trimap: no pixel has the value 1"},
//!         "first":{"seconds":1.9,"parts":[{"wait":0.1,"copy":0.0,"forward":0.8,"backward":0.9,"optimizer":0.1,"other":0.0}]},
//!         "plain":{"seconds":1.0,"parts":[{"wait":0.1,"copy":0.0,"forward":0.3,"backward":0.5,"optimizer":0.1,"other":0.0}]},
//!         "exact":{"seconds":1.0,"parts":[{"wait":0.1,"copy":0.0,"forward":0.3,"backward":0.5,"optimizer":0.1,"other":0.0}]},
//!         "losses":[1.4,1.2,null],"epoch_starts":[0.2],"seconds":4.5,
//!         "memory":{"resident":1304000000,"used":656000000,"loaders":0}}"#,
//!     r#"{"outcome":"out_of_memory","memory":{"resident":1304000000,"used":656000000,"loaders":0}}"#,
//!     r#"{"outcome":"failed","reason":"trainval.txt: lists no image"}"#,
//! ] {
//!     serde_json::from_str::<Reply>(line)?;
//! }
//! # Ok::<(), serde_json::Error>(())
//! ```

use crate::workload::{Optimizer, Precision};
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
    /// What is boxed.
    pub boxes: Boxes,
    /// Images of a step.
    pub batch: u64,
    /// Processes that load data; none: the training process itself.
    pub num_workers: u64,
    /// Batches that each of them loads ahead.
    pub prefetch_factor: u64,
    /// Pixels of the shorter side of images; none: the network's own.
    pub size: Option<u64>,
    /// What numbers are computed with.
    pub precision: Precision,
    /// Whether images lie channel by channel or pixel by pixel.
    pub channels_last: bool,
    /// Whether batches lie in memory that a GPU copies from by itself.
    pub pin_memory: bool,
    /// How weights change.
    pub optimizer: Optimizer,
    /// How far.
    pub learning_rate: f64,
    /// The norm that gradients are clipped to.
    pub clip: Option<f64>,
    /// Steps that are measured apart, because they are slower.
    pub warm_up: u64,
    /// Steps that are measured freely, and as many with the device finished at the end of each part.
    pub steps: u64,
}

/// What is boxed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Boxes {
    /// The whole pet, from the trimap.
    #[default]
    Trimap,
    /// Its head, from the xml file.
    Head,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Reply {
    /// The steps ran.
    Measured(Box<Measured>),
    /// There was not enough memory for one.
    OutOfMemory {
        /// What was taken until then.
        memory: Memory,
    },
    /// Anything else that stopped the worker, in its own words.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Steps that ran. Times are in seconds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Measured {
    /// The first steps.
    pub first: Phase,
    /// Steps that ran freely: half of them before the exact ones, half after.
    pub plain: Phase,
    /// Steps in which the device had finished at the end of each part.
    pub exact: Phase,
    /// The loss of each step in their order; none where it was no finite number.
    pub losses: Vec<Option<f64>>,
    /// Peaks.
    pub memory: Memory,
    /// Images in the data set.
    pub images: u64,
    /// How long the first batch of each epoch took to come; no step's time holds it.
    pub epoch_starts: Vec<f64>,
    /// Samples that were left out, and why.
    pub damaged: BTreeMap<String, String>,
    /// Of everything.
    pub seconds: f64,
}

/// Steps in a row.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Phase {
    /// Of each step.
    pub parts: Vec<Parts>,
    /// By a clock around all of them.
    pub seconds: f64,
}

/// What the parts of a step took, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
pub struct Parts {
    /// Waiting for the batch, or loading it where no other process does.
    pub wait: f64,
    /// Copying it to the device.
    pub copy: f64,
    /// From images to the loss.
    pub forward: f64,
    /// Gradients.
    pub backward: f64,
    /// Changing the weights.
    pub optimizer: f64,
    /// Whatever else.
    pub other: f64,
}

/// Peaks in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Memory {
    /// The process's resident set.
    pub resident: u64,
    /// The same above what it was before the network.
    pub used: u64,
    /// What processes that load data hold, of what they share their part each.
    pub loaders: u64,
    /// Tensors on a GPU.
    #[serde(default)]
    pub allocated: Option<u64>,
    /// What the allocator of a GPU took for them.
    #[serde(default)]
    pub reserved: Option<u64>,
}

impl Boxes {
    /// All of them, in the order they are listed to people.
    pub const ALL: [Boxes; 2] = [Boxes::Trimap, Boxes::Head];

    /// The word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Boxes::Trimap => "trimap",
            Boxes::Head => "head",
        }
    }
}

impl Parts {
    /// What each took, in the order they run.
    pub fn each(&self) -> [f64; 6] {
        [self.wait, self.copy, self.forward, self.backward, self.optimizer, self.other]
    }

    /// The whole step.
    pub fn sum(&self) -> f64 {
        self.each().iter().sum()
    }
}
