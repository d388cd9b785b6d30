//! The settings of `[sensitivity]` and `perf4sight sensitivity`.

use super::nodes;
use perf4sight_verb::config::Conflicts::{With, WithAllBut};
use perf4sight_verb::config::Missing::Unset;
use perf4sight_verb::config::{Setting, Table, flag, integer, memory, number, path, text, time, word};

pub(super) const TABLE: Table = Table {
    section: "sensitivity",
    about: "finds how many CPUs, how much memory and which storage a training job needs, from few runs of it",
    groups: &[&[PROFILE], OF_A_JOB, &[DRY_RUN, COMPARE]],
};

const OF_A_JOB: &[Setting] = &[
    text("command").required().or_on_command_line(Unset).command()
        .help("The job, such as python3 train.py --arch resnet18; on the command line behind two dashes. It runs without a shell; as a list, its words may contain spaces."),
    path("out").or("sensitivity").value("DIR")
        .help("Folder for the points, profile.json and the report. Points that are stored there are not measured again."),
    flag("overwrite").help("Discard the points in the folder and measure them again."),
    text("job_name").value("NAME").help("Name of the job; by default its script."),
    number("cpu", 0.01).value("N").help("The most CPUs to try; by default all."),
    number("cpu_step", 0.01).value("N")
        .help("Step between the numbers of CPUs to try; by default 0.25 up to 6 CPUs, 0.5 up to 12, then 1."),
    memory("memory", "GB").value("SIZE").help("The most memory that the job gets, such as 64GiB."),
    integer("num_gpus", 0, 1024).value("N")
        .help("GPUs of the job; by default one where there is one. As many processes share the CPUs."),
    integer("batch", 1, 1_000_000_000).value("N").short('b')
        .help("Samples of an iteration on each GPU, passed to the script as --batch."),
    integer("workers", 0, 100_000).value("N").short('j')
        .help("Workers that load data, passed to the script as --workers."),
    integer("max_iterations", 1, 1_000_000_000).value("N")
        .help("Iterations after which a point ends at the latest, passed to the script as --max-iterations."),
    path("data").value("PATH")
        .help("The data that an epoch reads: a file or a folder, passed to the script as --data."),
    word("pass", || vec!["batch", "workers", "max-iterations", "data", "none"]).many().value("NAMES")
        .help("Which of these four are passed to the script: batch, workers, max-iterations, data, or none; by default those that its text or its arguments name."),
    integer("samples", 1, i64::MAX).value("N").help("Samples of an epoch; by default the number of files of data."),
    text("step_pattern").value("REGEX")
        .help("A regular expression that the job's output matches once an iteration; what its group named step holds is the iteration's number."),
    integer("iterations", 1, 1_000_000_000).value("N")
        .help("Iterations of the whole command, where it reports none: its time is divided by them."),
    integer("warm_up", 0, 1_000_000).or("5").value("N")
        .help("Iterations at the beginning of each run that do not count."),
    time("point_time").or("60s").help("End a run after this time even if its rate is not known to 3 %."),
    time("budget")
        .help("Time for everything, such as 20min; a run gets at least 5 s. What is known by then is reported."),
    text("memory_bandwidth").value("RATE").help("Memory bandwidth: bytes that the job can read in a second, such as 8GB."),
    text("storage_bandwidth").value("RATE")
        .help("Bytes that can be read from the storage of the data in a second, such as 500MB; by default measured."),
    text("docker_img").value("IMAGE").help("Docker image that the job runs in; by default it runs here."),
    path("container_mnt").value("DIR").help("Where the data is mounted in the container; by default the same path as here."),
    integer("nnodes", 1, nodes::MOST as i64).or("1").value("N")
        .help("How many servers the job runs on; each runs the same configuration with its own node_rank."),
    integer("node_rank", 0, nodes::MOST as i64).or("0").value("N").named("node_rank").alias("node-rank")
        .help("Which of them this is, from 0; node 0 leads and writes the results."),
    text("master_addr").or("127.0.0.1").value("HOST").named("master_addr").alias("master-addr")
        .help("Address of node 0, for the others."),
    integer("master_port", 1, 65535).or("29500").value("PORT").named("master_port").alias("master-port")
        .help("A free port of node 0 at which the processes of the job meet."),
    integer("node_port", 1, 65535).value("PORT").named("node_port").alias("node-port")
        .help("A free port of node 0 at which the profilers meet; by default the one after master_port."),
    time("node_wait").or("10min").named("node_wait").alias("node-wait")
        .help("How long to wait for all nodes."),
];

const DRY_RUN: Setting = flag("dry_run")
    .on_command_line()
    .help("Say what would run, which limits hold here and about how long it takes; run nothing.");

const COMPARE: Setting = path("compare")
    .on_command_line()
    .value("CSV")
    .requires("profile")
    .conflicts(With(&["command"]))
    .help("Compare a profile with measured epochs: a CSV with the columns cpus, memory_percent and epoch_seconds.");

const PROFILE: Setting = path("profile")
    .on_command_line()
    .positional("PROFILE")
    .conflicts(WithAllBut(&["compare"]))
    .help("A profile.json to show again, or to compare.");

pub(super) const AFTER_HELP: &str = "\
Examples:
  perf4sight sensitivity --cpu 24 --num-gpus 1 -b 256 --data /data/imagenet -- python3 train.py --arch resnet18
  perf4sight sensitivity --dry-run -- python3 train.py
  perf4sight sensitivity --step-pattern 'step (?<step>[0-9]+)' -- ./train.sh
  perf4sight sensitivity --nnodes 2 --node_rank 1 --master_addr 10.0.0.1 -- torchrun --nproc_per_node 8 train.py
  perf4sight sensitivity sensitivity/profile.json
  perf4sight sensitivity --compare measured.csv sensitivity/profile.json

The job runs several times, with limits on its CPUs and memory, and its script is not changed. Its iterations are counted by hooks in PyTorch;
else by lines such as {\"step\": 12, \"time\": 3.25, \"wait\": 0.01} that it appends to the file that PERF4SIGHT_STEPS names, from any language;
else by lines of its output (--step-pattern); else its whole run is divided by --iterations.

The folder of --out keeps each point when it is finished, so that the same command goes on where it stopped. It holds profile.json,
published.json, throughput.csv, curve.csv, matrix.csv, storage.csv and report.html.";
