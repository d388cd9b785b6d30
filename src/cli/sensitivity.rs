//! The arguments of `perf4sight sensitivity`.

use clap::{Args, value_parser};
use perf4sight_base::error::Result;
use perf4sight_base::units::Bytes;
use perf4sight_sensitivity::verb as sensitivity;
use perf4sight_sensitivity::verb::{Compare, Nodes, Passed, Pattern, Show};
use perf4sight_verb::Verb;
use perf4sight_verb::time::time;
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "\
Examples:
  perf4sight sensitivity --cpu 24 --num-gpus 1 -b 256 --data /data/imagenet -- python3 train.py --arch resnet18
  perf4sight sensitivity --dry-run -- python3 train.py
  perf4sight sensitivity --step-pattern 'step (?<step>[0-9]+)' -- ./train.sh
  perf4sight sensitivity --nnodes 2 --node_rank 1 --master_addr 10.0.0.1 -- torchrun --nproc_per_node 8 train.py
  perf4sight sensitivity sensitivity/profile.json
  perf4sight sensitivity --compare measured.csv sensitivity/profile.json

The job runs several times, with limits on its CPUs and memory, and its script is not changed. Its iterations are told by hooks in PyTorch;
else by lines such as {\"step\": 12, \"time\": 3.25, \"wait\": 0.01} that it appends to the file that PERF4SIGHT_STEPS names, from any language;
else by lines of its output (--step-pattern); else its whole run is divided by --iterations.

The folder of --out keeps each point when it is finished, so that the same command goes on where it stopped. It holds profile.json,
published.json, throughput.csv, curve.csv, matrix.csv, storage.csv and report.html.";

/// What says how a job is measured, and nothing of a profile that was written.
const OF_A_JOB: [&str; 30] = [
    "cpu",
    "cpu_step",
    "memory",
    "num_gpus",
    "batch",
    "workers",
    "max_iterations",
    "data",
    "pass",
    "samples",
    "step_pattern",
    "iterations",
    "warm_up",
    "point_time",
    "budget",
    "memory_bandwidth",
    "storage_bandwidth",
    "docker_img",
    "container_mnt",
    "nnodes",
    "node_rank",
    "master_addr",
    "master_port",
    "node_port",
    "node_wait",
    "job_name",
    "out",
    "overwrite",
    "dry_run",
    "command",
];

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(super) struct Sensitivity {
    /// The most CPUs to try; else all there are
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    cpu: Option<f64>,

    /// How close numbers of CPUs lie that are tried; else 0.25 up to 6 CPUs, 0.5 up to 12, and whole ones
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    cpu_step: Option<f64>,

    /// The most memory that the job gets, such as 64GiB; a number alone is GB
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<Bytes>,

    /// How many GPUs the job uses; else one where there is one
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(0..=1024))]
    num_gpus: Option<u32>,

    /// Samples of an iteration on each GPU, passed to the script
    #[arg(short, long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    batch: Option<u64>,

    /// Workers that load data, passed to the script
    #[arg(short = 'j', long, value_name = "N", value_parser = value_parser!(u64).range(0..=100_000))]
    workers: Option<u64>,

    /// Iterations after which a run ends at the latest, passed to the script
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    max_iterations: Option<u64>,

    /// The data that an epoch reads, a file or a folder, passed to the script
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,

    /// Which of these four are passed: batch, workers, max-iterations, data, or none; else those that the script names
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = passed)]
    pass: Option<Vec<Option<Passed>>>,

    /// Samples of an epoch; else as many as the data has files
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    samples: Option<u64>,

    /// A regular expression that the job's output matches once an iteration; a group named step holds its number
    #[arg(long, value_name = "REGEX", value_parser = pattern)]
    step_pattern: Option<Pattern>,

    /// How many iterations the whole command makes, where it tells of none
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    iterations: Option<u64>,

    /// Iterations at the beginning of each run that do not count
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u64).range(0..=1_000_000))]
    warm_up: u64,

    /// End a run after this time though its rate is not known to 3 %
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = period)]
    point_time: Duration,

    /// Time for everything, such as "20 min"; a run gets 5 s at the least
    #[arg(long, value_name = "TIME", value_parser = period)]
    budget: Option<Duration>,

    /// What the job can read from memory in a second, such as 8GB
    #[arg(long, value_name = "RATE", value_parser = bandwidth)]
    memory_bandwidth: Option<Bytes>,

    /// What can be read from the data's storage in a second, such as 500MB; else it is measured
    #[arg(long, value_name = "RATE", value_parser = bandwidth)]
    storage_bandwidth: Option<Bytes>,

    /// The image of docker that the job runs in; else it runs here
    #[arg(long, value_name = "IMAGE")]
    docker_img: Option<String>,

    /// Where the container has the data; else where it lies here
    #[arg(long, value_name = "DIR")]
    container_mnt: Option<PathBuf>,

    /// How many servers the job runs on; each runs the same command with its own --node_rank
    #[arg(long = "nnodes", value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=4096))]
    nnodes: u32,

    /// Which of them this is, from 0; node 0 leads and writes what comes of it
    #[arg(long = "node_rank", alias = "node-rank", value_name = "N", default_value_t = 0)]
    node_rank: u32,

    /// How the others reach node 0
    #[arg(long = "master_addr", alias = "master-addr", value_name = "HOST", default_value = "127.0.0.1")]
    master_addr: String,

    /// A free port of node 0 at which the processes of the job meet
    #[arg(long = "master_port", alias = "master-port", value_name = "PORT", default_value_t = 29500, value_parser = value_parser!(u16).range(1..))]
    master_port: u16,

    /// A free port of node 0 at which the profilers meet; else the one behind --master_port
    #[arg(long = "node_port", alias = "node-port", value_name = "PORT", value_parser = value_parser!(u16).range(1..))]
    node_port: Option<u16>,

    /// How long it is waited until all nodes have come
    #[arg(long = "node_wait", alias = "node-wait", value_name = "TIME", default_value = "10min", value_parser = period)]
    node_wait: Duration,

    /// What the job is called; else as its script
    #[arg(long, value_name = "NAME")]
    job_name: Option<String>,

    /// Folder for the points and what comes of them
    #[arg(long, value_name = "DIR", default_value = "sensitivity")]
    out: PathBuf,

    /// Throw away the points that lie in the folder
    #[arg(long)]
    overwrite: bool,

    /// Say what would run, which limits hold here and about how long it takes; run nothing
    #[arg(long)]
    dry_run: bool,

    /// Hold a profile against measured epochs: a CSV with the columns cpus, memory_percent and epoch_seconds
    #[arg(long, value_name = "CSV", requires = "profile", conflicts_with = "command")]
    compare: Option<PathBuf>,

    /// A profile.json that is to be shown again, or compared
    #[arg(value_name = "PROFILE", conflicts_with_all = OF_A_JOB)]
    profile: Option<PathBuf>,

    /// The job, behind two dashes; no shell sees it
    #[arg(value_name = "COMMAND", last = true)]
    command: Vec<String>,
}

impl Sensitivity {
    pub fn into_verb(self) -> Result<Box<dyn Verb>> {
        if let Some(profile) = self.profile {
            return Ok(match self.compare {
                Some(measured) => Box::new(Compare { measured, profile }),
                None => Box::new(Show { profile }),
            });
        }
        let nodes = Nodes {
            count: self.nnodes,
            rank: self.node_rank,
            master_addr: self.master_addr,
            master_port: self.master_port,
            port: self.node_port,
            wait: self.node_wait,
        };
        Ok(Box::new(sensitivity::Sensitivity {
            command: self.command,
            out: self.out,
            overwrite: self.overwrite,
            job_name: self.job_name,
            cpu: self.cpu,
            cpu_step: self.cpu_step,
            memory: self.memory,
            num_gpus: self.num_gpus,
            batch: self.batch,
            workers: self.workers,
            max_iterations: self.max_iterations,
            data: self.data,
            pass: self.pass.map(|pass| pass.into_iter().flatten().collect()),
            samples: self.samples,
            step_pattern: self.step_pattern,
            iterations: self.iterations,
            warm_up: self.warm_up,
            point_time: self.point_time,
            budget: self.budget,
            memory_bandwidth: self.memory_bandwidth,
            storage_bandwidth: self.storage_bandwidth,
            docker_img: self.docker_img,
            container_mnt: self.container_mnt,
            nodes: nodes.if_several(),
            dry_run: self.dry_run,
        }))
    }
}

fn words<T>(parsed: Result<T>) -> std::result::Result<T, String> {
    parsed.map_err(|error| error.to_string())
}

fn period(text: &str) -> std::result::Result<Duration, String> {
    words(time(text))
}

fn memory(text: &str) -> std::result::Result<Bytes, String> {
    words(sensitivity::memory(text))
}

fn bandwidth(text: &str) -> std::result::Result<Bytes, String> {
    words(sensitivity::bandwidth(text))
}

fn pattern(text: &str) -> std::result::Result<Pattern, String> {
    words(Pattern::parse(text))
}

fn passed(text: &str) -> std::result::Result<Option<Passed>, String> {
    words(Passed::parse(text))
}
