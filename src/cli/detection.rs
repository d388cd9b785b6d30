//! The arguments of `perf4sight detection`.

use super::sizes::Sizes;
use super::words::memory;
use crate::error::Result;
use crate::machine;
use crate::sections::detection::{self, Boxes, DetectionTask, Setting};
use crate::sections::time::time;
use crate::units::Bytes;
use crate::workload::{Optimizer, Precision};
use clap::{Args, value_parser};
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "\
Examples:
  perf4sight detection --data pets --batch-size 2
  perf4sight detection --data pets --batch-size 2,4,8 --num-workers 0,2,4 --device cuda:0 --steps 50 --precision amp_fp16
  perf4sight detection --data pets --network ssdlite320_mobilenet_v3_large --python ~/venv/bin/python --json

The data lie as those of Oxford-IIIT Pet: images/*.jpg, annotations/trimaps/*.png, annotations/trainval.txt. Weights are random, and
nothing is downloaded unless --weights is given. Every setting runs in a process of its own.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(super) struct Detection {
    /// The folder of the data
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// A detector of torchvision, or module:function of your own
    #[arg(long, value_name = "NAME", default_value = "fasterrcnn_resnet50_fpn")]
    network: String,

    /// Images of a step; several are tried one after the other
    #[arg(long, value_name = "SIZES", default_value = "8", value_parser = Sizes::parse)]
    batch_size: Vec<Sizes>,

    /// Processes that load data
    #[arg(long, value_name = "NUMBERS", default_value = "4", value_delimiter = ',')]
    num_workers: Vec<u16>,

    /// Batches that each of them loads ahead
    #[arg(long, value_name = "NUMBERS", default_value = "2", value_delimiter = ',', value_parser = value_parser!(u16).range(1..))]
    prefetch_factor: Vec<u16>,

    /// What to train on: cpu, or cuda: and a number
    #[arg(long, value_name = "PLACE", default_value = "cpu")]
    device: String,

    /// Threads of the compute library; by default as many as the machine runs at the same time
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// Steps to measure freely; as many more are measured part by part
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = value_parser!(u16).range(2..))]
    steps: u16,

    /// Slower steps at the beginning, which are told apart
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = value_parser!(u16).range(1..))]
    warm_up: u16,

    /// Pixels of the shorter side of images; by default the network's own
    #[arg(long, value_name = "PIXELS", value_parser = value_parser!(u16).range(1..))]
    size: Option<u16>,

    /// What is boxed: the pet, from its trimap, or its head, from its xml file
    #[arg(long, default_value = "trimap", value_parser = Boxes::ALL.map(Boxes::name))]
    boxes: String,

    /// What numbers are computed with
    #[arg(long, default_value = "fp32", value_parser = ["fp32", "amp_bf16", "amp_fp16"])]
    precision: String,

    /// How weights change
    #[arg(long, default_value = "adamw", value_parser = ["adamw", "sgd"])]
    optimizer: String,

    /// How far; random weights diverge with much more
    #[arg(long, value_name = "RATE", default_value_t = 1e-4, value_parser = positive)]
    learning_rate: f64,

    /// Clip gradients to this norm
    #[arg(long, value_name = "NORM", value_parser = positive)]
    clip: Option<f64>,

    /// Lay images out pixel by pixel
    #[arg(long)]
    channels_last: bool,

    /// Load batches into memory that a GPU copies from by itself
    #[arg(long)]
    pin_memory: bool,

    /// Download the backbone's trained weights
    #[arg(long)]
    weights: bool,

    /// Memory past which a step does not fit, such as 4GiB
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    mem_limit: Option<Bytes>,

    /// The Python that has PyTorch and torchvision
    #[arg(long, value_name = "COMMAND", default_value = "python3")]
    python: String,

    /// Time after which a setting counts as hung
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time)]
    timeout: Duration,

    /// Seed of weights and of the order of images
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
}

impl Detection {
    pub fn into_verb(self) -> Result<detection::Detection> {
        let numbers = |numbers: &[u16]| numbers.iter().copied().map(u64::from).collect::<Vec<_>>();
        let settings =
            Setting::all(&Sizes::all(self.batch_size), &numbers(&self.num_workers), &numbers(&self.prefetch_factor));
        let boxes = Boxes::ALL.into_iter().find(|boxes| boxes.name() == self.boxes).unwrap_or_default();
        let task = DetectionTask {
            network: self.network,
            weights: self.weights,
            data: self.data,
            boxes,
            batch: 0,
            num_workers: 0,
            prefetch_factor: 1,
            size: self.size.map(u64::from),
            precision: Precision::parse(&self.precision)?,
            channels_last: self.channels_last,
            pin_memory: self.pin_memory,
            optimizer: Optimizer::parse(&self.optimizer)?,
            learning_rate: self.learning_rate,
            clip: self.clip,
            warm_up: self.warm_up.into(),
            steps: self.steps.into(),
        };
        Ok(detection::Detection {
            python: self.python,
            place: self.device,
            threads: self.threads.map_or_else(machine::threads, usize::from),
            mem_limit: self.mem_limit,
            seed: self.seed,
            timeout: self.timeout,
            task,
            settings,
        })
    }
}

fn positive(word: &str) -> std::result::Result<f64, String> {
    let number = word.parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| "that is no number above 0".to_owned())
}
