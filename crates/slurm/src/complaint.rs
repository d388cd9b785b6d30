//! Errors of Slurm's commands, with what to do about them.

use super::cluster::partitions;
use perf4sight_base::error::{Error, suggestion};
use std::process::ExitStatus;

/// Words by which Slurm says that its controller does not answer, from 22.05 and 23.11.
const SILENT: [&str; 5] = [
    "Unable to contact slurm controller",
    "Socket timed out",
    "Connection refused",
    "Zero Bytes were transmitted",
    "Protocol authentication error",
];

/// Words by which Slurm says that it knows of no cluster.
const UNKNOWN: [&str; 2] = ["Could not establish a configuration source", "Unable to process configuration file"];

/// What Slurm refuses, by its own words, with the remedy.
const REFUSALS: [(&str, &str); 15] = [
    ("invalid partition", "correct --partition or -p in extra of [slurm]"),
    ("invalid node name", "correct the names of nodes in extra of [slurm]; sinfo -N lists them"),
    ("invalid license", "scontrol show licenses lists the licences; correct licence in [slurm]"),
    (
        "time limit is invalid",
        "the partition allows less: set time in [slurm], and more chunks, so that a task fits into it",
    ),
    (
        "node configuration is not available",
        "no node of the partition has what extra, licence or exclusive ask for; sinfo -N -l lists the nodes",
    ),
    (
        "invalid feature",
        "no node has the feature that --constraint in extra of [slurm] names; sinfo -o '%N %f' lists them",
    ),
    ("generic resource", "no node has what --gres in extra of [slurm] asks for; sinfo -o '%N %G' lists it"),
    ("memory specification", "no node has the memory that extra of [slurm] asks for"),
    ("invalid account", "set your account, as by extra = ['--account=NAME'] in [slurm]"),
    ("invalid qos", "correct --qos in extra of [slurm]"),
    (
        "temporarily unable to accept job",
        "the cluster holds as many jobs as it can (MaxJobCount): submit fewer tasks (chunks in [slurm]), or wait until others have ended",
    ),
    ("limit", "submit fewer tasks (chunks in [slurm]), or wait until others of yours have ended"),
    ("invalid job array", "set fewer tasks or chunks in [slurm]"),
    ("unrecognized option", "correct extra in [slurm]; sbatch --help lists the options"),
    ("not permitted", "ask its administrator for access, or set another partition in [slurm]"),
];

/// The error of a command that failed with these words.
pub(super) fn command_error(program: &str, arguments: &[String], words: &str, status: ExitStatus) -> Error {
    let plain = plain(program, words);
    if SILENT.iter().any(|silent| words.contains(silent)) {
        return Error::device(format!("Slurm's controller does not answer {program}: {plain}")).help(
            "scontrol ping shows whether it runs; nothing is lost, and the same command goes on when it is back",
        );
    }
    if UNKNOWN.iter().any(|unknown| words.contains(unknown)) {
        return Error::device(format!("Slurm is installed here and knows of no cluster: {plain}"))
            .help("start this on the login node of a cluster, or let SLURM_CONF name its slurm.conf");
    }
    let partition = arguments.iter().find_map(|word| word.strip_prefix("--partition="));
    if let (Some(partition), true) = (partition, words.to_lowercase().contains("invalid partition")) {
        let known = partitions();
        // Else an option in extra names another one.
        if !known.iter().any(|known| known == partition) {
            return Error::device(format!("there is no partition \"{partition}\" here"))
                .help(suggestion(partition, known.iter().map(String::as_str)));
        }
    }
    let lower = words.to_lowercase();
    let error = match plain.is_empty() {
        true => Error::device(format!("{program} ended with {status} and said nothing")),
        false => Error::device(format!("{program} refuses: {plain}")),
    };
    match REFUSALS.iter().find(|(refusal, _)| lower.contains(refusal)) {
        Some((_, remedy)) => error.help(*remedy),
        None => error,
    }
}

/// The complaint in one line, without what every line of Slurm begins with.
fn plain(program: &str, words: &str) -> String {
    let prefixes = [format!("{program}: error: "), format!("{program}: fatal: "), format!("{program}: ")];
    let line =
        |line: &str| prefixes.iter().find_map(|prefix| line.strip_prefix(prefix.as_str())).unwrap_or(line).to_owned();
    words.lines().map(str::trim).filter(|line| !line.is_empty()).map(line).collect::<Vec<_>>().join("; ")
}
