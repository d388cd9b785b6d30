//! The settings of `[sensitivity]` and `perf4sight sensitivity`.

use super::nodes;
use perf4sight_verb::config::Conflicts::{With, WithAllBut};
use perf4sight_verb::config::DefaultValue::Unset;
use perf4sight_verb::config::{Setting, SettingTable, flag, integer, memory, number, path, text, time, word};

pub(super) const TABLE: SettingTable = SettingTable {
    section: "sensitivity",
    about: "finds how many CPUs, how much memory and which storage a training job needs, from few runs of it",
    groups: &[&[PROFILE], OF_A_JOB, &[DRY_RUN, COMPARE]],
};

const OF_A_JOB: &[Setting] = &[
    text("command").required().or_on_command_line(Unset).command()
        .help("Command of the job, such as python3 train.py --arch resnet18; on the command line after --. It runs without a shell. In a list, words may contain spaces."),
    path("out").or_default("sensitivity").value("DIR")
        .help("Folder for the points, profile.json and the report. Points that are stored there are not measured again."),
    flag("overwrite").help("Discard the points in the folder and measure them again."),
    text("job_name").value("NAME").help("Name of the job; by default the name of its script."),
    number("cpu", 0.01).value("N").help("The most CPUs to try; by default all."),
    number("cpu_step", 0.01).value("N")
        .help("Step between the CPU counts to try; by default 0.25 up to 6 CPUs, 0.5 up to 12, then 1."),
    memory("memory", "GB").value("SIZE").help("The most memory to give to the job, such as 64GiB."),
    integer("num_gpus", 0, 1024).value("N")
        .help("Number of GPUs of the job; by default one if the machine has any. The job is taken to have one process for each GPU; these share the CPUs."),
    integer("batch", 1, 1_000_000_000).value("N").short('b')
        .help("Batch size on each GPU, passed to the script as --batch."),
    integer("workers", 0, 100_000).value("N").short('j')
        .help("Number of worker processes that load data, passed to the script as --workers."),
    integer("max_iterations", 1, 1_000_000_000).value("N")
        .help("The most iterations of a run, passed to the script as --max-iterations."),
    path("data").value("PATH")
        .help("File or folder that an epoch reads, passed to the script as --data."),
    word("pass", || vec!["batch", "workers", "max-iterations", "data", "none"]).many_values().value("NAMES")
        .help("Which of these options are passed to the script: batch, workers, max-iterations, data, or none. By default those that occur in its text or its arguments."),
    integer("samples", 1, i64::MAX).value("N").help("Number of samples of an epoch; by default the number of files in data."),
    text("step_pattern").value("REGEX")
        .help("Regular expression that matches the job's output once per iteration. A group named step captures the number of the iteration."),
    integer("iterations", 1, 1_000_000_000).value("N")
        .help("Number of iterations of the whole command, for a job that does not report them. Its run time is divided by this number."),
    integer("warm_up", 0, 1_000_000).or_default("5").value("N")
        .help("Iterations at the beginning of each run that are not counted."),
    time("point_time").or_default("60s").help("End a run after this time, even if its rate is not yet known to 3 %."),
    time("budget")
        .help("Time for all runs together, such as 20min; each run gets at least 5 s. The report then uses the runs that were made."),
    text("memory_bandwidth").value("RATE").help("Memory bandwidth: bytes per second that the job can read, such as 8GB; by default half of what all threads copy."),
    text("storage_bandwidth").value("RATE")
        .help("Storage bandwidth: bytes per second that can be read from the storage of the data, such as 500MB; by default measured."),
    text("docker_img").value("IMAGE").help("Docker image to run the job in; by default it runs without a container."),
    path("container_mnt").value("DIR").requires("docker_img").help("Mount point of the data in the container; by default the same path as here."),
    integer("nnodes", 1, nodes::MOST as i64).or_default("1").value("N")
        .help("Number of servers that the job runs on. Run the same configuration on each, with its own node_rank."),
    integer("node_rank", 0, nodes::MOST as i64).or_default("0").value("N").with_flag("node_rank").alias("node-rank")
        .help("Rank of this server, from 0. Node 0 leads and writes the results."),
    text("master_addr").or_default("127.0.0.1").value("HOST").with_flag("master_addr").alias("master-addr")
        .help("Address of node 0."),
    integer("master_port", 1, 65535).or_default("29500").value("PORT").with_flag("master_port").alias("master-port")
        .help("A free port of node 0, where the processes of the job meet."),
    integer("node_port", 1, 65535).value("PORT").with_flag("node_port").alias("node-port")
        .help("A free port of node 0, where the profilers meet; by default master_port + 1."),
    time("node_wait").or_default("10min").with_flag("node_wait").alias("node-wait")
        .help("How long to wait for all nodes."),
];

const DRY_RUN: Setting = flag("dry_run")
    .on_command_line()
    .help("Show what would run, which limits work here and about how long it takes. Run nothing.");

const COMPARE: Setting =
    path("compare").on_command_line().value("CSV").requires("profile").conflicts(With(&["command"])).help(
        "Measured epochs to compare a profile with: a CSV with the columns cpus, memory_percent and epoch_seconds.",
    );

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

The job runs several times, with limits on its CPUs and memory. Its script is not changed. Its iterations are counted by hooks in PyTorch;
else by lines such as {\"step\": 12, \"time\": 3.25, \"wait\": 0.01} that it appends to the file that PERF4SIGHT_STEPS names, from any language;
else by lines of its output (--step-pattern); else its whole run is divided by --iterations.

The folder of --out keeps each point when it is finished, so that the same command goes on where it stopped. It holds profile.json,
published.json, throughput.csv, curve.csv, matrix.csv, storage.csv and report.html.";
