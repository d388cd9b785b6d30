//! The settings of `[breakdown]` and `perf4sight breakdown`.

use perf4sight_verb::config::Missing::Required;
use perf4sight_verb::config::{Table, path, text};

pub(super) const TABLE: Table = Table {
    section: "breakdown",
    about: "shows where the iterations of a recorded training script spend their time, and what changed between two recordings",
    groups: &[&[
        path("traces").many().or("{record.out}").or_on_command_line(Required).positional("PATH")
            .help("Traces of one run, one of each rank, or a folder of them."),
        path("out").or("breakdown").value("DIR")
            .help("Folder for report.html, breakdown.json, breakdown.csv, stacks.folded and the plots. An earlier breakdown in it is replaced."),
        text("iteration").value("NAME")
            .help("The name of the events that are the iterations: of a range, a function or an operator. By default the steps of PyTorch's profiler; without those, the steps of an optimizer; without either, what repeats."),
        path("compare").several().value("PATH")
            .help("The traces of another run, or a folder of them, to show what changed from the first to this one. Either may be several folders, each a recording of the run."),
    ]],
};

pub(super) const AFTER_HELP: &str = "\
Examples:
  perf4sight breakdown recording/
  perf4sight breakdown rank*.json.gz --out by-rank
  perf4sight breakdown trace.json --iteration train_step
  perf4sight breakdown before/ --compare after/
  perf4sight breakdown before1/ before2/ --compare after1/ after2/

Without --iteration, iterations are the steps of PyTorch's profiler, else those of an optimizer, else what repeats.
The folder of --out holds report.html, breakdown.json, breakdown.csv, stacks.folded and the plots; an earlier breakdown in it is replaced.";
