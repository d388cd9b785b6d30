//! The settings of `[record]` and `perf4sight record`.

use perf4sight_verb::config::{Setting, SettingTable, flag, integer, path, text, time};

/// The training script, as the words of a command.
pub const COMMAND: Setting = text("command").command()
    .help("Command to record, such as python3 train.py --epochs 1, or one with torchrun; on the command line after --. It runs without a shell. In a list, words may contain spaces.");

/// How it is recorded.
pub const HOW: [Setting; 5] = [
    integer("iterations", 1, 100_000)
        .or_default("20")
        .value("N")
        .help("Number of iterations to record. As many more are timed without recording."),
    integer("warm_up", 0, 100_000).or_default("5").value("N").help("Number of warm-up iterations, which are not counted."),
    flag("stacks").help(
        "Record Python functions too. Without them, the share of Python is unknown; with them, recording slows the script down more.",
    ),
    time("time_limit").help("End the command after this time, such as 90s or 10min; a number alone is seconds."),
    flag("overwrite").help("Replace a recording in the folder."),
];

pub(super) const TABLE: SettingTable = SettingTable {
    section: "record",
    about: "runs a training script, records some of its iterations and times as many without recording",
    groups: &[&[
        COMMAND.required(),
        HOW[0],
        HOW[1],
        HOW[2],
        path("out")
            .or_default("recording")
            .value("DIR")
            .help("Folder for the traces and times. Nothing is written anywhere else."),
        HOW[3],
        HOW[4],
    ]],
};

pub(super) const AFTER_HELP: &str = "\
Examples:
  perf4sight record -- python3 train.py --epochs 1
  perf4sight record --stacks --iterations 50 --out before -- python3 train.py
  perf4sight record --time-limit 10min -- torchrun --nproc-per-node 2 train.py

The script runs as it is. Its iterations are the spans between enable_profiling() and disable_profiling() of
`from perf4sight import Profiler`, otherwise steps of its optimizer, otherwise batches of its DataLoader. When enough is recorded, it ends as
by sys.exit(0).

If the command fails by itself, its exit code is that of perf4sight. All other exit codes: perf4sight --help.";
