//! The arguments of `perf4sight breakdown`.

use clap::Args;
use perf4sight_breakdown::verb as breakdown;
use std::path::PathBuf;

const HELP: &str = "\
Examples:
  perf4sight breakdown recording/
  perf4sight breakdown rank*.json.gz --out by-rank
  perf4sight breakdown trace.json --iteration train_step
  perf4sight breakdown before/ --compare after/
  perf4sight breakdown before1/ before2/ --compare after1/ after2/

Without --iteration, iterations are the steps of PyTorch's profiler, else those of an optimizer, else what repeats.
The folder of --out holds report.html, breakdown.json, breakdown.csv, stacks.folded and the plots; an earlier breakdown in it is replaced.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(super) struct Breakdown {
    /// Traces of one run, one of each rank, or a folder of them
    #[arg(value_name = "PATH", required = true)]
    traces: Vec<PathBuf>,

    /// Folder for the report and its data
    #[arg(long, value_name = "DIR", default_value = "breakdown")]
    out: PathBuf,

    /// The name of the events that are the iterations: of a range, a function or an operator
    #[arg(long, value_name = "NAME")]
    iteration: Option<String>,

    /// The traces of another run, to show what changed from the first to this one; either run may be several folders, each a recording of it
    #[arg(long, value_name = "PATH", num_args = 1..)]
    compare: Vec<PathBuf>,
}

impl Breakdown {
    pub fn into_verb(self) -> breakdown::Breakdown {
        let Breakdown { traces, out, iteration, compare } = self;
        breakdown::Breakdown { traces, out, iteration, compare }
    }
}
