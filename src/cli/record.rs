//! The arguments of `perf4sight record`.

use clap::{Args, value_parser};
use perf4sight_record as record;
use perf4sight_verb::time::time;
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "\
Examples:
  perf4sight record -- python3 train.py --epochs 1
  perf4sight record --stacks --iterations 50 --out before -- python3 train.py
  perf4sight record --time-limit 10min -- torchrun --nproc-per-node 2 train.py

The script runs as it is. Its iterations are what lies between enable_profiling() and disable_profiling() of
`from perf4sight import Profiler`, else steps of its optimizer, else batches of its DataLoader. When enough is recorded, it ends as
by sys.exit(0).

A command that fails by itself gives this program its exit code; all others: perf4sight --help.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(super) struct Record {
    /// How many iterations to record, and how many to time without recording
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = value_parser!(u64).range(1..=100_000))]
    iterations: u64,

    /// How many iterations come before those that count
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u64).range(0..=100_000))]
    warm_up: u64,

    /// Record Python functions too; without them the share of Python stays unknown, with them recording costs more
    #[arg(long)]
    stacks: bool,

    /// Folder for the traces and times; nothing is written anywhere else
    #[arg(long, value_name = "DIR", default_value = "recording")]
    out: PathBuf,

    /// End the command after this time, such as 90s or 10min
    #[arg(long, value_name = "TIME", value_parser = time_limit)]
    time_limit: Option<Duration>,

    /// Replace a recording that lies in the folder
    #[arg(long)]
    overwrite: bool,

    /// The command, behind two dashes; no shell sees it
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<String>,
}

impl Record {
    pub fn into_verb(self) -> record::Record {
        let Record { iterations, warm_up, stacks, out, time_limit, overwrite, command } = self;
        record::Record { command, iterations, warm_up, stacks, out, time_limit, overwrite }
    }
}

fn time_limit(text: &str) -> Result<Duration, String> {
    time(text).map_err(|error| error.to_string())
}
