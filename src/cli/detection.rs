//! The arguments of `perf4sight detection`.

use super::sizes::Sizes;
use super::words::memory;
use clap::{Args, value_parser};
use perf4sight_base::error::Result;
use perf4sight_base::units::Bytes;
use perf4sight_detection as detection;
use perf4sight_detection::{Boxes, DetectionTask, MakeDataset, Setting};
use perf4sight_machine::remote::{Host, Route};
use perf4sight_step::workload::{Optimizer, Precision};
use perf4sight_verb::Verb;
use perf4sight_verb::time::time;
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "\
Examples:
  perf4sight detection --make-dataset pets-small
  perf4sight detection --data pets-small --batch-size 2
  perf4sight detection --config train.toml --data pets
  perf4sight detection --data pets --batch-size 2,4,8 --num-workers 0,2,4 --device cuda:0 --steps 50 --precision amp_fp16
  perf4sight detection --data pets --network ssdlite320_mobilenet_v3_large --python ~/venv/bin/python --json
  perf4sight detection --data pets --batch-size 8,16 --size 640 --predict fingerprinting/orin/imagenet

The data lie as those of Oxford-IIIT Pet: images/*.jpg, annotations/trimaps/*.png, annotations/trainval.txt. Weights are random, and
nothing is downloaded unless --weights is given. Every setting runs in a process of its own; the folder of --out keeps each when it is
finished, so that the same command goes on where it stopped. What is not said here is as --config says, or as in the section [detection].";

/// What says how a detector is trained, and nothing of a data set that is made up.
const OF_A_TRAINING: [&str; 29] = [
    "config",
    "data",
    "out",
    "overwrite",
    "network",
    "epochs",
    "batch_size",
    "num_workers",
    "prefetch_factor",
    "device",
    "threads",
    "steps",
    "warm_up",
    "size",
    "boxes",
    "precision",
    "optimizer",
    "learning_rate",
    "clip",
    "channels_last",
    "pin_memory",
    "weights",
    "mem_limit",
    "python",
    "timeout",
    "trace",
    "host",
    "ssh_config",
    "predict",
];

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(super) struct Detection {
    /// A TOML file with a table [training], as published: num_epochs, batch_size, prefetch_factor, num_workers, device, and other keys of the section [detection]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The folder of the data
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Folder for what is measured and the report; settings that were measured there are not measured again [default: detection]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Measure anew what was measured there
    #[arg(long)]
    overwrite: bool,

    /// A detector of torchvision, or module:function of your own [default: fasterrcnn_resnet50_fpn]
    #[arg(long, value_name = "NAME")]
    network: Option<String>,

    /// Epochs of the training whose time is told [default: 10]
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u32).range(1..))]
    epochs: Option<u32>,

    /// Images of a step; several are tried one after the other [default: 8]
    #[arg(long, value_name = "SIZES", value_parser = Sizes::parse)]
    batch_size: Vec<Sizes>,

    /// Processes that load data [default: 4]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    num_workers: Vec<u16>,

    /// Batches that each of them loads ahead [default: 2]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = value_parser!(u16).range(1..))]
    prefetch_factor: Vec<u16>,

    /// What to train on: cpu, or cuda: and a number [default: cuda:0 where there is a GPU]
    #[arg(long, value_name = "PLACE")]
    device: Option<String>,

    /// Threads of the compute library; by default as many as the machine runs at the same time
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// Steps to measure freely; as many more are measured part by part [default: 10]
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u16).range(2..))]
    steps: Option<u16>,

    /// Slower steps at the beginning, two or more, which are told apart [default: 2]
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u16).range(2..))]
    warm_up: Option<u16>,

    /// Pixels of the shorter side of images; by default the network's own, which ssd300 and ssdlite320 cannot change
    #[arg(long, value_name = "PIXELS", value_parser = value_parser!(u16).range(1..))]
    size: Option<u16>,

    /// What is boxed: the pet, from its trimap, or its head, from its xml file [default: trimap]
    #[arg(long, value_parser = Boxes::ALL.map(Boxes::name))]
    boxes: Option<String>,

    /// What numbers are computed with [default: fp32]
    #[arg(long, value_parser = ["fp32", "amp_bf16", "amp_fp16"])]
    precision: Option<String>,

    /// How weights change [default: adamw]
    #[arg(long, value_parser = ["adamw", "sgd"])]
    optimizer: Option<String>,

    /// How far; random weights diverge with much more [default: 1e-4]
    #[arg(long, value_name = "RATE", value_parser = positive)]
    learning_rate: Option<f64>,

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

    /// The Python that has PyTorch and torchvision [default: python3]
    #[arg(long, value_name = "COMMAND")]
    python: Option<String>,

    /// Time after which a setting counts as hung [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,

    /// Folder for a trace of three more steps of each setting, which perf4sight breakdown reads
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,

    /// A machine to measure on over ssh, where the data lie
    #[arg(long, value_name = "USER@ADDRESS", value_parser = Host::parse)]
    host: Option<Host>,

    /// A file to use in place of ~/.ssh/config
    #[arg(long, value_name = "FILE", requires = "host")]
    ssh_config: Option<PathBuf>,

    /// Measure nothing: predict from this fingerprint of the device, and from what was measured in --out
    #[arg(long, value_name = "DIR")]
    predict: Option<PathBuf>,

    /// Seed of weights and of the order of images; of data that are made up [default: 0]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Make up data in that layout, and train nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = OF_A_TRAINING)]
    make_dataset: Option<PathBuf>,

    /// How many images to make up
    #[arg(long, value_name = "NUMBER", default_value_t = 32, requires = "make_dataset", value_parser = value_parser!(u64).range(1..=detection::MOST_IMAGES))]
    images: u64,
}

impl Detection {
    pub fn into_verb(self) -> Result<Box<dyn Verb>> {
        if let Some(folder) = self.make_dataset {
            return Ok(Box::new(MakeDataset { folder, count: self.images, seed: self.seed.unwrap_or_default() }));
        }
        let base = self.config.as_deref().map_or_else(detection::Detection::usual, detection::Detection::published)?;
        Ok(Box::new(self.over(base)?))
    }

    /// What is said here, and else what was.
    fn over(self, base: detection::Detection) -> Result<detection::Detection> {
        let task = base.task;
        let boxes = self.boxes.as_deref().map(Boxes::parse).transpose()?;
        let precision = self.precision.as_deref().map(Precision::parse).transpose()?;
        let optimizer = self.optimizer.as_deref().map(Optimizer::parse).transpose()?;
        let patience = base.route.as_ref().map_or(PATIENCE, |route| route.patience);
        let route = self.host.map(|host| Route { host, config: self.ssh_config, patience });
        Ok(detection::Detection {
            task: DetectionTask {
                network: self.network.unwrap_or(task.network),
                weights: self.weights || task.weights,
                data: self.data.unwrap_or(task.data),
                boxes: boxes.unwrap_or(task.boxes),
                size: self.size.map(u64::from).or(task.size),
                precision: precision.unwrap_or(task.precision),
                channels_last: self.channels_last || task.channels_last,
                pin_memory: self.pin_memory || task.pin_memory,
                optimizer: optimizer.unwrap_or(task.optimizer),
                learning_rate: self.learning_rate.unwrap_or(task.learning_rate),
                clip: self.clip.or(task.clip),
                warm_up: self.warm_up.map_or(task.warm_up, u64::from),
                steps: self.steps.map_or(task.steps, u64::from),
                ..task
            },
            out: self.out.unwrap_or(base.out),
            overwrite: self.overwrite || base.overwrite,
            epochs: self.epochs.map_or(base.epochs, u64::from),
            python: self.python.unwrap_or(base.python),
            place: self.device.or(base.place),
            threads: self.threads.map(usize::from).or(base.threads),
            mem_limit: self.mem_limit.or(base.mem_limit),
            seed: self.seed.unwrap_or(base.seed),
            timeout: self.timeout.unwrap_or(base.timeout),
            trace: self.trace.or(base.trace),
            route: route.or(base.route),
            predict: self.predict.or(base.predict),
            settings: Setting::all(
                &or(Sizes::all(self.batch_size), &base.settings, |setting| setting.batch),
                &or(numbers(&self.num_workers), &base.settings, |setting| setting.num_workers),
                &or(numbers(&self.prefetch_factor), &base.settings, |setting| setting.prefetch_factor),
            ),
        })
    }
}

/// How long a lost connection is tried to be made again where nobody says: as `reconnect` does.
const PATIENCE: Duration = Duration::from_secs(300);

fn numbers(numbers: &[u16]) -> Vec<u64> {
    numbers.iter().copied().map(u64::from).collect()
}

/// What is said, else what each of some settings has.
fn or(said: Vec<u64>, settings: &[Setting], of: impl Fn(&Setting) -> u64) -> Vec<u64> {
    if said.is_empty() { settings.iter().map(of).collect() } else { said }
}

fn positive(word: &str) -> std::result::Result<f64, String> {
    let number = word.parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| "that is no number above 0".to_owned())
}
