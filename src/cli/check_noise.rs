//! The arguments of `perf4sight profile --check-noise`.

use super::sizes::Sizes;
use super::words;
use crate::verbs::SPECS;
use clap::{Args, value_parser};
use perf4sight_base::error::Result;
use perf4sight_cost::device;
use perf4sight_cost::device::GpuOptions;
use perf4sight_cost::device::kind::DeviceKind;
use perf4sight_cost::verbs::profile;
use perf4sight_step::workload::Stage;
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "\
Examples:
  perf4sight profile --check-noise                                 the processor, a minute
  perf4sight profile --check-noise --threads 1 --bs 1,4,16 --network resnet18 --seconds 120
  perf4sight profile --check-noise --device tx2 --worker 'python3 workers/torch_worker.py'
  perf4sight profile --check-noise --config-file config.ini --json";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(super) struct CheckNoise {
    /// Measure the noise floor, in about a minute (profiles themselves run from --config-file)
    #[arg(long, required = true)]
    check_noise: bool,

    /// Take the device from the section [profile] of this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["device", "device_source", "worker", "gpu_id", "threads", "seed"])]
    config_file: Option<PathBuf>,

    /// What to measure on, as the key device of [profile] names it
    #[arg(long, value_name = "NAME", default_value = "cpu")]
    device: String,

    /// For a simulated device a JSON file of what it can do
    #[arg(long, value_name = "FILE")]
    device_source: Option<PathBuf>,

    /// The command of another worker, in quotes
    #[arg(long, value_name = "COMMAND")]
    worker: Option<String>,

    /// Which GPU of several
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    gpu_id: u32,

    /// Threads of the compute library; by default as many as the machine runs at the same time
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// The name of a known network, or NAME@LEVEL for one pruned to that percentage
    #[arg(long, value_name = "NAME", default_value = "squeezenet", value_parser = words::networks(), hide_possible_values = true)]
    network: String,

    /// Batch sizes
    #[arg(long, value_name = "SIZES", default_value = "1,8", value_parser = Sizes::parse)]
    bs: Vec<Sizes>,

    /// What one step does
    #[arg(long, default_value = "training", value_parser = Stage::ALL.map(Stage::name))]
    stage: String,

    /// How long to measure; one batch size is measured twice in any case
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    seconds: u64,

    /// Seed of weights, data and simulated noise
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
}

impl CheckNoise {
    pub fn into_verb(self) -> Result<profile::CheckNoise> {
        let device = match &self.config_file {
            Some(file) => profile::device_of(file, SPECS)?,
            None => self.device()?,
        };
        Ok(profile::CheckNoise {
            device,
            network: self.network,
            batches: Sizes::all(self.bs),
            stage: Stage::parse(&self.stage)?,
            time: Duration::from_secs(self.seconds),
        })
    }

    fn device(&self) -> Result<device::Options> {
        let worker = self.worker.as_deref().unwrap_or_default();
        Ok(device::Options {
            source: self.device_source.clone(),
            worker: worker.split_whitespace().map(str::to_owned).collect(),
            gpu: GpuOptions { index: self.gpu_id, ..GpuOptions::default() },
            threads: self.threads.map(usize::from),
            seed: self.seed,
            ..device::Options::new(DeviceKind::parse(&self.device)?)
        })
    }
}
